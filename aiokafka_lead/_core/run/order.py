"""Which records wait for each other, within one partition."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from ..._records import ConsumerRecord
from .options import Order

__all__ = ["Lanes", "lanes_for"]

Record = ConsumerRecord[Any, Any]


class Lanes(Protocol):
    """One partition's records in hand, in lanes: of each lane one record is worked on at a time, in order.

    A record that is to be handled again stays at the head of its lane: it alone holds the lane up, no other lane.
    """

    ready: deque[Record]
    """What may be worked on now; whoever takes a record out tells `finished` of it, or puts it back."""

    def add(self, records: Sequence[Record]) -> None:
        """The partition's next records."""

    def finished(self, record: Record) -> None:
        """The record is done with: the next one of its lane is ready."""

    def clear(self) -> None:
        """Forget everything that is not being worked on."""


class KeyLanes:
    """A lane for each key, which is gone as soon as it is empty. Records without a key wait for nobody."""

    __slots__ = ("_waiting", "ready")

    def __init__(self) -> None:
        self.ready: deque[Record] = deque()
        self._waiting: dict[bytes, deque[Record] | None] = {}
        """What waits behind the record that is ready or worked on, by key; None where nothing does."""

    def add(self, records: Sequence[Record]) -> None:
        ready, waiting = self.ready, self._waiting
        for record in records:
            key = record.key
            if key is None:
                ready.append(record)
            elif key not in waiting:
                waiting[key] = None
                ready.append(record)
            else:
                queue = waiting[key]
                if queue is None:
                    queue = waiting[key] = deque()
                queue.append(record)

    def finished(self, record: Record) -> None:
        key = record.key
        if key is None:
            return
        queue = self._waiting.pop(key, None)
        if queue:
            self.ready.append(queue.popleft())
            self._waiting[key] = queue or None

    def clear(self) -> None:
        self.ready.clear()
        self._waiting.clear()


class OneLane:
    """The whole partition in one lane."""

    __slots__ = ("_busy", "_waiting", "ready")

    def __init__(self) -> None:
        self.ready: deque[Record] = deque()
        self._waiting: deque[Record] = deque()
        self._busy = False
        """Whether a record is ready or worked on."""

    def add(self, records: Sequence[Record]) -> None:
        self._waiting.extend(records)
        if not self._busy:
            self._next()

    def _next(self) -> None:
        self._busy = bool(self._waiting)
        if self._busy:
            self.ready.append(self._waiting.popleft())

    def finished(self, record: Record) -> None:
        self._next()

    def clear(self) -> None:
        self.ready.clear()
        self._waiting.clear()


class NoLanes:
    """Every record is ready."""

    __slots__ = ("ready",)

    def __init__(self) -> None:
        self.ready: deque[Record] = deque()

    def add(self, records: Sequence[Record]) -> None:
        self.ready.extend(records)

    def finished(self, record: Record) -> None:
        pass

    def clear(self) -> None:
        self.ready.clear()


_LANES: dict[Order, type[KeyLanes] | type[OneLane] | type[NoLanes]] = {
    "key": KeyLanes,
    "partition": OneLane,
    "none": NoLanes,
}


def lanes_for(order: Order) -> Lanes:
    """One partition's lanes."""
    return _LANES[order]()
