"""Blocking calls in daemon threads, which the process does not wait for when it exits."""

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
"""Maximum number of abandoned calls that are still running. If there are more, new calls are refused."""

IDLE_S = 60.0
"""Seconds for which an idle thread waits for another call before it ends."""


class BlockingCalls:
    """Runs blocking functions in threads, a few at a time. It belongs to one event loop.

    A caller that is cancelled abandons its call. While too many abandoned calls are still running, new ones are
    refused.

    anyio's threads are unsuitable. An asyncio program could not exit while one of them is stuck, and abandoned calls
    would not be counted.
    """

    def __init__(self, called: str, at_once: int, max_lost: int = MAX_LOST) -> None:
        """Create the threads on demand. ``called`` describes the calls in thread names and in errors."""
        self._called = called
        self._turn = anyio.Semaphore(at_once)
        self._most = at_once + max_lost
        self._threads = _Threads(f"kafka {called}")
        self.running = 0
        """Number of calls that have not returned, including abandoned ones."""

    async def run(self, call: Callable[[], T]) -> T:
        """Return the result of a call, or raise its error. If the caller is cancelled, the call is abandoned.

        Raises `KafkaConnectionError` if too many earlier calls are still running, or no thread can be started.
        """
        async with self._turn:
            if self.running >= self._most:
                raise KafkaConnectionError(f"{self.running} calls are stuck: {self._called}")
            outcome: Waiter[_Outcome] = Waiter()
            call_in_loop = loop_caller()

            def settle(found: _Outcome) -> None:
                self.running -= 1
                outcome.set_result(found)

            context = contextvars.copy_context()
            try:
                self._threads.do(partial(context.run, call), partial(call_in_loop, settle))
            except RuntimeError as refusal:  # for example because the container limits the number of threads
                raise KafkaConnectionError(f"no thread can be started: {self._called} ({refusal})") from refusal
            self.running += 1
            result, error = await outcome.wait()
        if error is not None:
            raise error
        return cast(T, result)


_Outcome = tuple[Any, BaseException | None]
"""The result of a call, or its exception."""


class _Threads:
    """Runs calls in threads that are reused, one thread for each concurrent call.

    `threading.Thread.start` waits until the thread is running. On a busy machine, starting a thread for each call would
    block the event loop for tens of milliseconds.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._work: SimpleQueue[tuple[Callable[[], Any], Callable[[_Outcome], None]]] = SimpleQueue()
        self._idle = 0
        """Number of waiting threads minus the number of queued calls."""
        self._lock = threading.Lock()

    def do(self, call: Callable[[], Any], report: Callable[[_Outcome], None]) -> None:
        """Make the call in a waiting thread or a new one. ``report`` is called in that thread with the outcome."""
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
        """Make the next call. Return False if none has arrived within `IDLE_S`.

        This is a separate function, because a loop's variables would keep the last call and its outcome alive.
        """
        try:
            call, report = self._work.get(timeout=IDLE_S)
        except Empty:
            with self._lock:
                leaves = self._idle > 0  # otherwise, a call is being queued for this thread
                self._idle -= leaves
            return not leaves
        found: _Outcome
        try:
            found = (call(), None)
        except BaseException as error:
            found = (None, error)
        with self._lock:
            self._idle += 1  # do this before the report, because its receiver may make the next call at once
        report(found)
        return True
