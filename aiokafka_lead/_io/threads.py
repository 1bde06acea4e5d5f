"""Calls that block and cannot be cancelled, each in a thread of its own that the process does not wait for."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import anyio

from ..errors import KafkaConnectionError
from .loop import Waiter, loop_caller

__all__ = ["BlockingCalls"]

T = TypeVar("T")

MAX_LOST = 16
"""Threads in calls that nobody waits for any more, up to which new ones are made."""

IDLE_S = 60.0
"""How long a thread waits for the next call before it ends."""


class BlockingCalls:
    """Runs a few calls at a time, and none once too many never came back; belongs to one event loop.

    Not by anyio's threads: asyncio's program could not end while one of those is stuck, and a call that was given up
    would no longer count.
    """

    def __init__(self, called: str, at_once: int, max_lost: int = MAX_LOST) -> None:
        """``called`` is what the calls do, in thread names and in the error."""
        self._called = called
        self._turn = anyio.Semaphore(at_once)
        self._most = at_once + max_lost
        self._threads = _Threads(f"kafka {called}")
        self.running = 0
        """Calls that have not returned, those among them that nobody waits for any more."""

    @property
    def full(self) -> bool:
        """Whether so many have not returned that the next one is not made."""
        return self.running >= self._most

    async def run(self, call: Callable[[], T]) -> T:
        """What the call returns or raises. A cancelled caller leaves it to itself.

        Raises `KafkaConnectionError` when too many earlier calls are still running.
        """
        async with self._turn:
            if self.full:
                raise KafkaConnectionError(f"{self.running} calls are stuck: {self._called}")
            outcome: Waiter[_Outcome] = Waiter()
            call_in_loop = loop_caller()

            def settle(found: _Outcome) -> None:
                self.running -= 1
                outcome.set_result(found)

            context = contextvars.copy_context()
            self._threads.do(partial(context.run, call), partial(call_in_loop, settle))
            self.running += 1
            result, error = await outcome.wait()
        if error is not None:
            raise error
        return cast(T, result)


_Outcome = tuple[Any, BaseException | None]
"""What a call has returned, or raised."""


class _Threads:
    """As many as there is work at a time, which then wait for more: starting one takes as long as it takes to run.

    On a busy machine that would hold up the event loop for tens of milliseconds with each call.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Callable[[], Any], Callable[[_Outcome], None]]] = SimpleQueue()
        self._idle = 0
        """Threads that wait, beyond the work that is there for them."""
        self._lock = threading.Lock()

    def do(self, call: Callable[[], Any], report: Callable[[_Outcome], None]) -> None:
        """Have it called, and its outcome reported, by a thread that waits; else by a new one."""
        with self._lock:
            one_waits = self._idle > 0
            self._idle -= one_waits
        if not one_waits:
            threading.Thread(target=self._run, name=self._name, daemon=True).start()
        self._work.put((call, report))

    def _run(self) -> None:
        while self._do_next():
            pass

    def _do_next(self) -> bool:
        """False when there was nothing to do for long. (A loop would keep the last call and its outcome meanwhile.)"""
        try:
            call, report = self._work.get(timeout=IDLE_S)
        except Empty:
            with self._lock:
                leaves = self._idle > 0  # else its work is about to come
                self._idle -= leaves
            return not leaves
        found: _Outcome
        try:
            found = (call(), None)
        except BaseException as error:
            found = (None, error)
        with self._lock:
            self._idle += 1  # before the next call can be made, by one that has heard of the end of this one
        report(found)
        return True
