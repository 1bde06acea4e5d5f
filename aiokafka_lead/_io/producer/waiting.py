"""Waits of a producer's calls, for their turn to send and for the outcomes of records.

Each topic has a queue, so that no call overtakes an earlier one. The first call in the queue waits for the topic or for
memory, and later calls wait for their turn. If a compiler is available, this code is compiled through ``waiting.pxd``.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

from ..._core.producer.outcome import BatchOutcome
from ...errors import WrongEventLoopError
from ..deadline import Deadline
from ..loop import Signal, Waiter, in_trio, loop_token

_log = logging.getLogger(__name__)

_WOKEN_TOGETHER = 64
"""Number of calls to wake at once. asyncio runs them in order, in the same iteration of the event loop."""


class Place:
    """A call's place in the queue of its topic."""

    __slots__ = ("_asleep", "_lines", "_signal", "line", "topic")

    def __init__(self, lines: Lines, topic: str, line: deque[Place]) -> None:
        self._lines = lines
        self.topic = topic
        self.line = line
        self._signal = Signal()
        self._asleep = False

    def __enter__(self) -> Place:
        return self

    def __exit__(self, *_: object) -> None:
        self._lines.leave(self)

    @property
    def first(self) -> bool:
        """True if this call is the next to be served."""
        return self.line[0] is self

    async def until_first(self, deadline: Deadline) -> bool:
        """Wait until this call is the next to be served. Return False at the deadline."""
        while not self.first:
            self._asleep = True
            try:
                if not await self._signal.wait(deadline.left_s()):
                    return False
            finally:
                self._asleep = False
        return True

    def wake(self) -> bool:
        """Wake the call, to check whether it is the next one. Return True if it was asleep."""
        asleep, self._asleep = self._asleep, False
        if asleep:
            self._signal.set()
        return asleep


class Lines:
    """Queues the producer's waiting calls, one queue for each topic, so that records keep the order of the calls."""

    __slots__ = ("_lines", "calls")

    def __init__(self) -> None:
        self.calls = 0
        """Number of waiting calls, for all topics together."""
        self._lines: dict[str, deque[Place]] = {}
        """The queue of each topic. Empty queues are removed."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._lines

    def enter(self, topic: str) -> Place:
        """Append a place to the topic's queue. The place is a context manager that removes itself."""
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = deque()
        place = Place(self, topic, line)
        line.append(place)
        self.calls += 1
        return place

    def leave(self, place: Place) -> None:
        """Remove a place, because its record has been accepted or the call has stopped waiting."""
        line = place.line
        was_first = place.first
        line.remove(place)
        self.calls -= 1
        if not line:
            del self._lines[place.topic]
        elif was_first and line[0].wake() and not in_trio():  # trio runs woken tasks in random order
            for other in islice(line, 1, _WOKEN_TOGETHER):
                other.wake()


# --- waiting for the outcomes of records ------------------------------------------------------------------------------


class Parking:
    """Suspends tasks that await the outcome of a batch.

    It refers only to its event loop, because finished outcomes keep it alive.
    """

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: object | None = None

    def start(self) -> None:
        """Use the running event loop. Outcomes can be awaited only there."""
        self._loop = loop_token()

    def __call__(self, outcome: BatchOutcome, /) -> Awaitable[object]:
        """Return an awaitable that finishes when the outcome is done or divided. Raises `WrongEventLoopError`.

        On asyncio, it is a bare future, because a coroutine around it would cost time at each wake-up.
        """
        waiter: Any = outcome.waiter
        if in_trio():
            if loop_token() is not self._loop:
                raise WrongEventLoopError
            if waiter is None:
                waiter = outcome.waiter = Waiter()
            waiting: Awaitable[object] = waiter.wait()
            return waiting
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            raise WrongEventLoopError
        future = loop.create_future()
        if waiter is None:
            waiter = outcome.waiter = _Parked()
        waiter.add(future)
        return future

    def soon(self, fn: Callable[..., object], /, *args: Any) -> None:
        """Call a function in the next iteration of the event loop. Errors are logged."""
        if in_trio():
            import trio

            trio.lowlevel.current_trio_token().run_sync_soon(_call, fn, args)
        else:
            asyncio.get_running_loop().call_soon(_call, fn, args)


class _Parked:
    """The asyncio tasks that await one outcome.

    Each has a future of its own, because cancelling a task cancels its future.
    """

    __slots__ = ("_futures",)

    def __init__(self) -> None:
        self._futures: list[asyncio.Future[None]] = []

    def add(self, future: asyncio.Future[None]) -> None:
        """Add the future of one more waiting task. Futures of earlier waits that have ended are removed."""
        futures = self._futures
        while futures and futures[-1].done():
            futures.pop()
        futures.append(future)

    def set_result(self, value: None, /) -> None:
        """Wake the tasks, because the outcome is done or was divided."""
        for future in self._futures:
            if not future.done():
                future.set_result(None)


def _call(fn: Callable[..., object], args: tuple[Any, ...]) -> None:
    try:
        fn(*args)
    except Exception:
        _log.exception("a done callback of a delivery raised an exception")
