"""The order in which a partition's records are handled: which of them have to wait for others."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..._records.record import ConsumerRecord
from ...config.run import Order

if TYPE_CHECKING:
    Record = ConsumerRecord[Any, Any]


class Lanes:
    """Orders the records in hand of one partition. The records of a *lane* are handled one at a time.

    In this base class, each record has its own lane. `next` removes a record from `line`. Most records are done before
    `next` is called again, and need no bookkeeping. `hold` moves the others to `pending`. A record that must be handled
    again stays at the head of its lane, and blocks only that lane.
    """

    __slots__ = ("aside", "heavy", "line", "parallel", "pending", "ready")

    def __init__(self) -> None:
        self.parallel = True
        """True if two records may be handled at the same time."""
        self.line: deque[Record] = deque()
        """The partition's next records, in offset order."""
        self.heavy: dict[int, int] = {}
        """Weights greater than 1, by offset."""
        self.ready: deque[Record] = deque()
        """Pending records that may be handled now. A removed record is later put back or `finished`."""
        self.aside: deque[Record] = deque()
        """Like ``ready``, for records that are handled again, and for keys that have used more than their share of
        time.
        """
        self.pending: dict[int, int] = {}
        """Weights of the records that have left `line` and are not done, by offset, in ascending order."""

    def add(self, records: list[Record], weights: list[int] | None) -> None:
        """Append the partition's next records. If ``weights`` is None, each weighs 1."""
        if weights is not None:
            for record, weight in zip(records, weights, strict=True):
                if weight != 1:
                    self.heavy[record.offset] = weight
        self.line.extend(records)

    def available(self) -> bool:
        """Return True if there may be a record to handle."""
        return bool(self.ready or self.line)

    def next(self) -> Record | None:
        """Remove and return the first record of `line` that does not have to wait, or None if there is none."""
        return self.line.popleft() if self.line else None

    def hold(self, record: Record) -> None:
        """Keep the last record from `next` as pending, because other records are taken while it is being handled."""
        self._remember(record)

    def next_held(self) -> Record | None:
        """Return the next record, already held, or None if there is none. Records in ``ready`` come first."""
        if self.ready:
            return self.ready.popleft()
        record = self.next()
        if record is not None:
            self.hold(record)
        return record

    def passed(self, record: Record) -> int:
        """Finish the last record from `next`, for which `hold` was not called. Return its weight."""
        return self.heavy.pop(record.offset, 1) if self.heavy else 1

    def finished(self, record: Record) -> int:
        """Finish a held record. Return its weight, or 0 if it has been given up."""
        return self.pending.pop(record.offset, 0)

    def spent(self, record: Record, seconds: float, now: float) -> None:
        """Note the seconds that the handler of a held record has taken. Only `KeyLanes` uses them."""

    def _remember(self, record: Record) -> None:
        offset = record.offset
        self.pending[offset] = self.heavy.pop(offset, 1) if self.heavy else 1

    def count(self) -> int:
        """Return the number of records in hand."""
        return len(self.pending) + len(self.line)

    def first(self) -> int:
        """Return the offset of the first record in hand, or -1."""
        for offset in self.pending:
            return offset
        return self.line[0].offset if self.line else -1

    def cut(self, end: int) -> tuple[int, int]:
        """Drop the records after the last one whose handling has begun. ``end`` is the offset after all records.

        Returns the weight of the dropped records, and the offset of the first one, or ``end`` if there are none.
        """
        first = self.line[0].offset if self.line else end
        weight = len(self.line) + sum(self.heavy.values()) - len(self.heavy)
        self.line.clear()
        self.heavy.clear()
        return weight, first

    def bar(self, first: int) -> None:
        """Stop handling records from this offset on. They stay in hand as unfinished."""
        for waiting in (self.ready, self.aside):
            kept = [record for record in waiting if record.offset < first]
            waiting.clear()
            waiting.extend(kept)

    def give_up(self) -> int:
        """Drop all records in hand. Return their total weight."""
        weight = sum(self.pending.values()) + len(self.line) + sum(self.heavy.values()) - len(self.heavy)
        self.line.clear()
        self.heavy.clear()
        self.ready.clear()
        self.aside.clear()
        self.pending.clear()
        return weight


SHARE_S = 0.2
"""Seconds of handler time that one key may use within `WINDOW_S`, or within two such windows.

After that, its records wait aside. Otherwise, they would get a handler at every turn, regardless of the number of other
keys.
"""

WINDOW_S = 2.0

LEAST_S = 0.001
"""Time in seconds below which handler time is not counted, to save memory.

Fast handlers do not delay other records.
"""


class KeyLanes(Lanes):
    """One lane for each key of which a record is being handled. Records without a key do not wait."""

    __slots__ = ("_before", "_begun", "_slow", "_spent", "_until", "_waiting")

    def __init__(self) -> None:
        Lanes.__init__(self)
        self._begun = -1
        """Offset of the last record that has left `line` for handling, or of a later record that is done."""
        self._waiting: dict[bytes, deque[Record] | None] = {}
        """The records waiting behind the held record of each key, or None if there are none."""
        self._spent: dict[bytes, float] = {}
        """Seconds of handler time in the current window, by key."""
        self._before: dict[bytes, float] = {}
        """Seconds of handler time in the previous window, by key."""
        self._until = 0.0
        """End of the current window."""
        self._slow: set[bytes] = set()
        """Keys that have used more than their share of time."""

    def next(self) -> Record | None:
        line, waiting = self.line, self._waiting
        while line:
            record = line.popleft()
            key = record.key
            if key is None or not waiting or key not in waiting:
                if key is None or not self._slow or key not in self._slow:
                    self._begun = record.offset
                    return record
                self.hold(record)
                self.aside.append(record)
                continue
            self._remember(record)
            queue = waiting[key]
            if queue is None:
                queue = waiting[key] = deque()
            queue.append(record)
        return None

    def hold(self, record: Record) -> None:
        self._remember(record)
        if record.key is not None:
            self._waiting[record.key] = None

    def finished(self, record: Record) -> int:
        self._begun = max(self._begun, record.offset)
        key = record.key
        if key is not None:
            queue = self._waiting.pop(key, None)
            if queue:
                (self.aside if key in self._slow else self.ready).append(queue.popleft())
                self._waiting[key] = queue or None
        return self.pending.pop(record.offset, 0)

    def spent(self, record: Record, seconds: float, now: float) -> None:
        key = record.key
        if key is None or seconds < LEAST_S:
            return
        if now >= self._until:
            self._before = self._spent if now < self._until + WINDOW_S else {}
            self._slow = {slow for slow, spent in self._before.items() if spent > SHARE_S}
            self._spent = {}
            self._until = now + WINDOW_S
        spent = self._spent[key] = self._spent.get(key, 0.0) + seconds
        if spent + self._before.get(key, 0.0) > SHARE_S:
            self._slow.add(key)

    def cut(self, end: int) -> tuple[int, int]:
        weight, first = Lanes.cut(self, end)
        idle = {record.offset for waiting in (self.ready, self.aside) for record in waiting}
        for queue in self._waiting.values():
            idle.update([record.offset for record in queue or ()])
        for offset in reversed(list(self.pending)):
            if offset < self._begun or offset not in idle:
                break
            weight += self.pending.pop(offset)
            first = offset
        self.bar(first)
        return weight, first

    def bar(self, first: int) -> None:
        Lanes.bar(self, first)
        for key, queue in self._waiting.items():
            self._waiting[key] = deque([record for record in queue or () if record.offset < first]) or None

    def give_up(self) -> int:
        self._waiting.clear()
        return Lanes.give_up(self)


class OneLane(Lanes):
    """A single lane for the whole partition, whose records are all handled in order."""

    __slots__ = ("_busy",)

    def __init__(self) -> None:
        Lanes.__init__(self)
        self.parallel = False
        self._busy = False
        """True while there is a held record."""

    def available(self) -> bool:
        return bool(self.ready or (self.line and not self._busy))

    def next(self) -> Record | None:
        return self.line.popleft() if self.line and not self._busy else None

    def hold(self, record: Record) -> None:
        self._busy = True
        self._remember(record)

    def finished(self, record: Record) -> int:
        self._busy = False
        return self.pending.pop(record.offset, 0)


_LANES: dict[Order, type[Lanes]] = {"key": KeyLanes, "partition": OneLane, "none": Lanes}


def lanes_for(order: Order) -> Lanes:
    """Return new lanes for a partition that is handled in this order."""
    return _LANES[order]()
