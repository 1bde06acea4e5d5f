"""Runs a function in a separate task, on asyncio and on trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from .transports import running_backend


class Apart:
    """A function that runs in a separate task: an asyncio task, or a trio system task.

    Any task may wait for its end. A task group can be left only by the task that has entered it, and pytest-asyncio
    runs the setup and the teardown of an async fixture in two tasks.
    """

    def __init__(self, work: Callable[[], Awaitable[None]], name: str) -> None:
        """Start ``work`` in a separate task with this name."""
        self.error: BaseException | None = None
        """The error that the function has raised, or None. Cancellation is not stored."""
        self._work = work
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        # asyncio has only weak references to tasks.
        self._task: Any = None
        if running_backend() == "trio":
            import trio

            trio.lowlevel.spawn_system_task(self._run, name=name)
        else:
            self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._work()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # not raised, because an error of a system task would end trio
            self.error = error
            if isinstance(error, KeyboardInterrupt | SystemExit) and running_backend() == "asyncio":
                raise
        finally:
            self._ended.set()

    async def wait(self) -> None:
        """Wait for the end of the function, even if the caller is cancelled in the meantime.

        On asyncio, a shield does not stop ``Task.cancel``, so the wait is repeated.
        """
        cancelled: BaseException | None = None
        while not self._ended.is_set():
            try:
                with anyio.CancelScope(shield=True):
                    await self._ended.wait()
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def end(self) -> None:
        """Cancel the function, and wait for its end."""
        self._scope.cancel()
        await self.wait()
