"""Decides if fewer tasks than cores do for a stream's micro-batches. Pure: time is an argument.

A source does not know what a query does with a record: little, and then starting tasks is most of a small micro-batch;
or much, and then every core is needed. How long the last micro-batches took tells.
"""

from __future__ import annotations

import math
from typing import NamedTuple

__all__ = ["Pace"]

WORK_S = 1.0
"""A task may have this much work, by the last micro-batch: all of its time, in all of its tasks, counts as work."""

SLOWER = 1.25
"""Fewer tasks are given up if a micro-batch takes this many times as long as with more."""

TRY_AGAIN_S = 60.0
"""Time until they are tried again; it doubles each time."""


class _Timed(NamedTuple):
    """A micro-batch that is done."""

    tasks: int
    offsets: int
    seconds: float

    def seconds_for(self, offsets: int) -> float:
        """Return the time for another number of offsets, at most."""
        return self.seconds * max(1.0, offsets / self.offsets)


class Pace:
    """The durations of a stream's micro-batches.

    They include the pause to the next trigger, so that they are short only in a stream with short triggers: and only
    there it matters.
    """

    def __init__(self) -> None:
        self._running: tuple[int, int, float] | None = None
        """The tasks and offsets of the micro-batch that runs, and the time at which it was planned."""
        self._last: _Timed | None = None
        self._with_more: _Timed | None = None
        """The last micro-batch with more tasks, to which the ones with fewer are compared."""
        self._tries_from = -math.inf
        self._pause_s = TRY_AGAIN_S

    def tasks_for(self, offsets: int, now: float) -> int | None:
        """Return the number of tasks that is enough for a micro-batch; None if that is unknown."""
        if self._last is None or now < self._tries_from:
            return None
        enough = math.ceil(self._last.seconds_for(offsets) * self._last.tasks / WORK_S)
        if enough < self._last.tasks:
            self._with_more = self._last
        return enough

    def began(self, tasks: int, offsets: int, now: float) -> None:
        """Note that a micro-batch is planned; Spark may ask for the same plan several times."""
        if tasks and self._running is None:
            self._running = tasks, offsets, now

    def ended(self, now: float) -> None:
        """Note that Spark asks for the next micro-batch."""
        if self._running is None:
            return
        tasks, offsets, began_at = self._running
        self._running = None
        self._last = _Timed(tasks, offsets, now - began_at)
        more = self._with_more
        if more is not None and tasks < more.tasks and self._last.seconds > SLOWER * more.seconds_for(offsets):
            self._with_more = None
            self._tries_from = now + self._pause_s
            self._pause_s *= 2
