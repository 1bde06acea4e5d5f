"""Calls that block and cannot be cancelled, each in a thread of its own that the process does not wait for."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import anyio

from ..errors import KafkaConnectionError
from .loop import Waiter, loop_caller

__all__ = ["BlockingCalls"]

T = TypeVar("T")

MAX_LOST = 16
"""Threads in calls that nobody waits for any more, up to which new ones are made."""


class BlockingCalls:
    """Runs a few calls at a time, and none once too many never came back; belongs to one event loop.

    Not by anyio's threads: asyncio's program could not end while one of those is stuck, and a call that was given up
    would no longer count.
    """

    def __init__(self, called: str, at_once: int) -> None:
        """``called`` is what the calls do, in thread names and in the error."""
        self._called = called
        self._turn = anyio.Semaphore(at_once)
        self._most = at_once + MAX_LOST
        self._running: set[threading.Thread] = set()

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. A cancelled caller leaves it to itself.

        Raises `KafkaConnectionError` when too many earlier calls are still running.
        """
        async with self._turn:
            if len(self._running) >= self._most:
                raise KafkaConnectionError(f"{len(self._running)} calls are stuck: {self._called}")
            outcome: Waiter[tuple[T | None, BaseException | None]] = Waiter()
            call_in_loop = loop_caller()

            def settle(result: T | None, error: BaseException | None) -> None:
                self._running.discard(thread)
                outcome.set_result((result, error))

            def work() -> None:
                found: tuple[Any, BaseException | None]
                try:
                    found = (context.run(call), None)
                except BaseException as error:
                    found = (None, error)
                call_in_loop(settle, *found)

            context = contextvars.copy_context()
            thread = threading.Thread(target=work, name=f"kafka {self._called}", daemon=True)
            thread.start()
            self._running.add(thread)
            result, error = await outcome.wait()
        if error is not None:
            raise error
        return result  # type: ignore[return-value]
