"""Calls that wait until their records can be taken stand in line, so that none goes ahead of an earlier one.

There is a line for each topic. The first in it waits for what it needs, and the others wait for their turn. Hot, as far
as calls see that nobody stands in line: this module is compiled through ``lines.pxd`` where a compiler is.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from ..deadline import Deadline
from ..loop import Signal, in_trio

_WOKEN_TOGETHER = 64
"""asyncio runs what is woken together in that order, each in a fraction of what a turn of its event loop takes."""


class Place:
    """The place of one call in its topic's line."""

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
        """Whether it is this call's turn."""
        return self.line[0] is self

    async def until_first(self, deadline: Deadline) -> bool:
        """Until it is this call's turn; False where that does not come in time."""
        while not self.first:
            self._asleep = True
            try:
                if not await self._signal.wait(deadline.left_s()):
                    return False
            finally:
                self._asleep = False
        return True

    def wake(self) -> bool:
        """Let it look whether it is its turn; whether it was asleep."""
        asleep, self._asleep = self._asleep, False
        if asleep:
            self._signal.set()
        return asleep


class Lines:
    """The lines of one producer."""

    __slots__ = ("_lines", "calls")

    def __init__(self) -> None:
        self.calls = 0
        """How many calls stand in line, of all topics."""
        self._lines: dict[str, deque[Place]] = {}
        """None is empty."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._lines

    def enter(self, topic: str) -> Place:
        """Stand at the end of the topic's line, until the ``with`` block is left."""
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = deque()
        place = Place(self, topic, line)
        line.append(place)
        self.calls += 1
        return place

    def leave(self, place: Place) -> None:
        """The call's record was taken, or it waits no longer."""
        line = place.line
        was_first = place.first
        line.remove(place)
        self.calls -= 1
        if not line:
            del self._lines[place.topic]
        elif was_first and line[0].wake() and not in_trio():  # trio's order is random
            for other in islice(line, 1, _WOKEN_TOGETHER):
                other.wake()
