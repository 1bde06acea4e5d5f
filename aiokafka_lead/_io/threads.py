"""Runs blocking, uncancellable calls, each in its own thread, for which the process does not wait at its end."""

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

T = TypeVar("T")

MAX_LOST = 16
"""Number of abandoned, still running calls up to which new threads are started."""

IDLE_S = 60.0
"""Time for which an idle thread waits for the next call before it ends."""


class BlockingCalls:
    """Runs a few calls at a time, and refuses more once too many have not returned; belongs to one event loop.

    It does not use anyio's threads: an asyncio program could not end while one of them is stuck, and an abandoned call
    would no longer count.
    """

    def __init__(self, called: str, at_once: int, max_lost: int = MAX_LOST) -> None:
        """``called`` describes the calls, in thread names and in the error."""
        self._called = called
        self._turn = anyio.Semaphore(at_once)
        self._most = at_once + max_lost
        self._threads = _Threads(f"kafka {called}")
        self.running = 0
        """Number of calls that have not returned, including abandoned ones."""

    @property
    def full(self) -> bool:
        """True if too many calls have not returned, so that the next one is refused."""
        return self.running >= self._most

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of the call, or raise its error. A cancelled caller abandons the call.

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
"""Result or exception of a call."""


class _Threads:
    """Threads, one per concurrent call, which then wait for more calls, because starting a thread is slow.

    A start waits until the thread runs, which on a busy machine would block the event loop for tens of milliseconds
    with each call.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Callable[[], Any], Callable[[_Outcome], None]]] = SimpleQueue()
        self._idle = 0
        """Number of waiting threads, beyond the queued calls."""
        self._lock = threading.Lock()

    def do(self, call: Callable[[], Any], report: Callable[[_Outcome], None]) -> None:
        """Let a waiting thread, or else a new one, make the call and report its outcome."""
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
        """Do the next call; return False if none came for long. (A loop would keep the last call and outcome alive.)"""
        try:
            call, report = self._work.get(timeout=IDLE_S)
        except Empty:
            with self._lock:
                leaves = self._idle > 0  # else its work is about to arrive
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
