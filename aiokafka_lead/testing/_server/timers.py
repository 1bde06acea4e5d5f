"""Timers on any event loop, with a single task for all."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable

import anyio


class Timer:
    """A call at a later time; `cancel` prevents it."""

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self._call: Callable[[], None] | None = call

    @property
    def cancelled(self) -> bool:
        return self._call is None

    def cancel(self) -> None:
        self._call = None

    def fire(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call()


class Timers:
    """Calls functions at times of `time.monotonic`. A cancelled timer stays in the heap until its time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        # Set when a timer is added that is earlier than the end of the task's sleep. None before the task runs.
        self._earlier: anyio.Event | None = None
        self._sleeps_until = float("-inf")

    def now(self) -> float:
        return time.monotonic()

    def call_at(self, when: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        if self._earlier is not None and when < self._sleeps_until:
            self._earlier.set()
        return timer

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return self.call_at(self.now() + delay_s, call)

    async def run(self) -> None:
        """Call functions when their times come, until cancelled."""
        while True:
            earlier = self._earlier = anyio.Event()
            self._sleeps_until = self._fire_due()
            with anyio.move_on_after(max(0.0, self._sleeps_until - self.now())):
                await earlier.wait()

    def _fire_due(self) -> float:
        """Call the functions of due timers, and return the time of the next timer."""
        self._sleeps_until = float("-inf")
        while self._heap:
            when, _, timer = self._heap[0]
            if timer.cancelled:
                heapq.heappop(self._heap)
            elif when <= self.now():
                heapq.heappop(self._heap)
                timer.fire()
            else:
                return when
        return float("inf")
