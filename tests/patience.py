"""Tests of what has to happen within a short time of the product's own, on machines that may stand still for longer."""

from __future__ import annotations

import functools
import inspect
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

LATE_S = 0.1
"""Whatever a test's time: a machine that stands still for so long is late."""

LATE_PART = 0.25
"""A machine is late, too, that takes this part of a test's time away, in one go or in many."""

TICK_S = 0.02

Test = Callable[..., Awaitable[None]]


class Lateness:
    """For how long the event loop stood still: at a time, and within any ``window_s``."""

    def __init__(self, window_s: float, tick_s: float = TICK_S) -> None:
        self._window_s = window_s
        self._tick_s = tick_s
        self._latest: deque[tuple[float, float]] = deque()
        """Of the window that ends now: when the loop went on, and for how long it had stood still."""
        self.longest_s = 0.0
        self.most_s = 0.0
        """In one window."""

    @property
    def late(self) -> bool:
        """Whether what has to happen within the window may have been kept from it."""
        return self.longest_s >= LATE_S or self.most_s >= LATE_PART * self._window_s

    async def watch(self) -> None:
        """Look for ever."""
        while True:
            before = time.monotonic()
            await anyio.sleep(self._tick_s)
            now = time.monotonic()
            late_s = max(0.0, now - before - self._tick_s)
            self._latest.append((now, late_s))
            while self._latest[0][0] < now - self._window_s:
                self._latest.popleft()
            self.longest_s = max(self.longest_s, late_s)
            self.most_s = max(self.most_s, sum(each for _, each in self._latest))


def again_if_late(*times_ms: int) -> Callable[[Test], Test]:
    """Give a test the first of these times, as its first argument, and the next one if it fails on a late machine.

    That is one on which the event loop stood still too much (`Lateness.late`). Any other failure is one, and so is that
    with the last time. Fixtures stay the same.
    """

    def decorate(test: Test) -> Test:
        first, *others = inspect.signature(test).parameters.values()

        @functools.wraps(test)
        async def run(**given: Any) -> None:
            for time_ms in times_ms[:-1]:
                lateness = Lateness(time_ms / 1000)
                failure: Exception | None = None  # that of the test, and not one of its watch
                async with anyio.create_task_group() as watching:
                    watching.start_soon(lateness.watch)
                    failure = await _failure(functools.partial(test, **{first.name: time_ms}, **given))
                    watching.cancel_scope.cancel()
                if failure is None:
                    return
                if not lateness.late:
                    raise failure
            await test(**{first.name: times_ms[-1]}, **given)

        run.__signature__ = inspect.Signature(others)  # type: ignore[attr-defined]
        return run

    return decorate


async def _failure(test: Callable[[], Awaitable[None]]) -> Exception | None:
    try:
        await test()
    except Exception as error:
        return error
    return None
