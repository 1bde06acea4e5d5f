"""SIGINT, SIGTERM and SIGHUP end a command in the same way: its work is cancelled, and can clean up."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import anyio
    import anyio.abc

_ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Interrupted(BaseException):
    """A signal requested the end. Not an Exception, nor a KeyboardInterrupt, for which Typer has an exit code."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.code = 128 + number
        """The exit code by shell convention: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""


def raise_at_signals() -> None:
    """Make each signal raise `Interrupted` in the main thread, at any point."""
    for number in _heeded():
        signal.signal(number, _raise)


def ignore_signals() -> None:
    """Prevent signals from changing the exit code: at exit, Python restores default handlers unless ignored."""
    for number in _heeded():
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def signals_raise() -> Iterator[None]:
    """Let signals end code that blocks the event loop, because the loop's handlers would be called too late."""
    before = {number: signal.getsignal(number) for number in _heeded()}
    raise_at_signals()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Run an event loop; at a signal cancel the work, and raise `Interrupted` when it has ended.

    A second Ctrl-C ends the process immediately.
    """
    import anyio  # here, so that signal handlers are in place before anything large is loaded

    seen: list[int] = []

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                if _heeded():
                    await tasks.start(_listen, scope, seen)
                await work()
            tasks.cancel_scope.cancel()

    try:
        anyio.run(main, backend_options={"use_uvloop": find_spec("uvloop") is not None})
    except BaseExceptionGroup as group:
        if not seen and (raised := group.subgroup(Interrupted)) is not None:
            raise _first(raised) from None
        raise
    finally:
        if seen:
            raise Interrupted(seen[0])


def _first(group: BaseException) -> BaseException:
    return _first(group.exceptions[0]) if isinstance(group, BaseExceptionGroup) else group


async def _listen(scope: anyio.CancelScope, seen: list[int], *, task_status: anyio.abc.TaskStatus[None]) -> None:
    from .._signals import receiving  # not earlier, like anyio above

    with receiving(_heeded()) as signals:
        task_status.started()
        while True:
            number = await signals.next()
            if seen and number == signal.SIGINT:
                os._exit(128 + number)
            seen.append(number)
            scope.cancel()


def _heeded() -> list[signal.Signals]:
    """Return the signals that end this process, without signals ignored because of nohup or a shell."""
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in _ENDING if signal.getsignal(number) is not signal.SIG_IGN]


def _raise(number: int, frame: FrameType | None) -> None:
    raise Interrupted(number)
