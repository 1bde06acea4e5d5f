"""Support for tests with tight time limits, on machines that may stall for longer than the limit."""

from __future__ import annotations

import functools
import inspect
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

import anyio

LATE_S = 0.1
"""A machine that stalls for this many seconds is late, regardless of the length of the test."""

LATE_PART = 0.25
"""A machine is also late if all stalls together take this share of the test's time."""

TICK_S = 0.02

START_MS = 30_000

Test = Callable[..., Awaitable[None]]
Client = TypeVar("Client", bound=Any)


@asynccontextmanager
async def started(client: Client) -> AsyncIterator[Client]:
    """Start a client whose ``request_timeout_ms`` may be too short for that on a busy machine; stop it at the end."""
    await client.start(timeout_ms=START_MS)
    async with AsyncExitStack() as stack:
        stack.push_async_exit(client)
        yield client


class Lateness:
    """Records stalls of the event loop: when they happened, and the most within any ``window_s``."""

    def __init__(self, window_s: float, tick_s: float = TICK_S) -> None:
        self._window_s = window_s
        self._tick_s = tick_s
        self._latest: deque[tuple[float, float]] = deque()
        """Stalls of the window that ends now: when the loop continued, and how long it had stalled."""
        self.longest_s = 0.0
        self.most_s = 0.0
        """Longest total of stalls in one window."""

    @property
    def late(self) -> bool:
        """Return True if stalls may have delayed the test beyond its limit."""
        return self.longest_s >= LATE_S or self.most_s >= LATE_PART * self._window_s

    async def watch(self) -> None:
        """Watch the loop until cancelled."""
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
    """Pass the first of these times to a test as its first argument. If it fails on a late machine, pass the next.

    A machine is late if its event loop has stalled for too long (`Lateness.late`). Any other failure counts, as does a
    failure with the last time. Fixtures are not set up again.
    """

    def decorate(test: Test) -> Test:
        first, *others = inspect.signature(test).parameters.values()

        @functools.wraps(test)
        async def run(**given: Any) -> None:
            for time_ms in times_ms[:-1]:
                lateness = Lateness(time_ms / 1000)
                failure: Exception | None = None  # of the test, not of its watch
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
