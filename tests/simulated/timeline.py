"""Virtual time: a heap of events, and meters that bound how often events occur."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Hashable
from random import Random

Event = Callable[[], None]


class Timeline:
    """The clock, and one generator for all that is drawn, so that equal seeds give equal runs."""

    def __init__(self, seed: int, now: float = 1000.0) -> None:
        self.now = now
        self.rng = Random(seed)
        self._events: list[tuple[float, int, Event]] = []
        self._count = 0

    def later(self, delay_s: float, event: Event) -> None:
        """Have something happen after a delay; simultaneous events happen in the order of these calls."""
        self.at(self.now + delay_s, event)

    def at(self, when: float, event: Event) -> None:
        """Have something happen at that time."""
        self._count += 1
        heapq.heappush(self._events, (when, self._count, event))

    def next_at(self, end: float) -> float:
        """Return the time of the next event, at most ``end``."""
        return min(self._events[0][0], end) if self._events else end

    def advance(self, to: float) -> None:
        """Advance to that time, and run the events due by then."""
        self.now = max(self.now, to)
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()

    def latency(self) -> float:
        """Return the delay of one way over the network."""
        return self.rng.uniform(0.0002, 0.003)


class Meter:
    """Fails the run if an event occurs more often within a second than permitted."""

    def __init__(self, timeline: Timeline, what: str, per_second: int) -> None:
        self._timeline = timeline
        self._what = what
        self._limit = per_second
        self._times: dict[Hashable, deque[float]] = defaultdict(deque)
        self.most = 0

    def count(self, key: Hashable = None) -> None:
        """Count one event."""
        times = self._times[key]
        now = self._timeline.now
        times.append(now)
        while times[0] < now - 1.0:
            times.popleft()
        self.most = max(self.most, len(times))
        assert len(times) <= self._limit, f"{self._what} ({key}): {len(times)} within a second"
