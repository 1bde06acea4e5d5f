"""Queues calls that wait until their records can be accepted, so that no call overtakes an earlier one.

There is a line for each topic. The first call in it waits for its topic or memory, and later ones wait for their turn.
Checks for an empty line are hot: this module is compiled through ``lines.pxd`` if a compiler is available.
"""

from __future__ import annotations

from collections import deque
from itertools import islice

from ..deadline import Deadline
from ..loop import Signal, in_trio

_WOKEN_TOGETHER = 64
"""asyncio runs simultaneously woken tasks in order, each in a fraction of a turn of its event loop."""


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
        """True if it is this call's turn."""
        return self.line[0] is self

    async def until_first(self, deadline: Deadline) -> bool:
        """Wait until it is this call's turn; return False if that does not happen in time."""
        while not self.first:
            self._asleep = True
            try:
                if not await self._signal.wait(deadline.left_s()):
                    return False
            finally:
                self._asleep = False
        return True

    def wake(self) -> bool:
        """Let the call check for its turn; return True if it was asleep."""
        asleep, self._asleep = self._asleep, False
        if asleep:
            self._signal.set()
        return asleep


class Lines:
    """The lines of one producer."""

    __slots__ = ("_lines", "calls")

    def __init__(self) -> None:
        self.calls = 0
        """Number of waiting calls, for all topics."""
        self._lines: dict[str, deque[Place]] = {}
        """Lines by topic; empty ones are removed."""

    def __contains__(self, topic: str) -> bool:
        return topic in self._lines

    def enter(self, topic: str) -> Place:
        """Join the end of the topic's line, until the ``with`` block ends."""
        line = self._lines.get(topic)
        if line is None:
            line = self._lines[topic] = deque()
        place = Place(self, topic, line)
        line.append(place)
        self.calls += 1
        return place

    def leave(self, place: Place) -> None:
        """The call's record was accepted, or it has stopped waiting."""
        line = place.line
        was_first = place.first
        line.remove(place)
        self.calls -= 1
        if not line:
            del self._lines[place.topic]
        elif was_first and line[0].wake() and not in_trio():  # trio's order is random
            for other in islice(line, 1, _WOKEN_TOGETHER):
                other.wake()
