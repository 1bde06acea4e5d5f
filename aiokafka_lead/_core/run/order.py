"""Which records wait for each other, within one partition."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from ..._records.record import ConsumerRecord
from .options import Order

__all__ = ["Lanes", "lanes_for"]

if TYPE_CHECKING:
    Record = ConsumerRecord[Any, Any]


class Lanes:
    """One partition's records in hand, in lanes: of each lane one record is worked on at a time, in order.

    Here each record has a lane to itself. A record leaves `line` by `next`, and most are done before anybody asks for
    another one: no more is known of these. What is not becomes `pending` by `hold`.

    A record that is to be handled again stays at the head of its lane: it alone holds the lane up, no other lane.
    """

    __slots__ = ("heavy", "line", "parallel", "pending", "ready")

    def __init__(self) -> None:
        self.parallel = True
        """Whether two records may be worked on at once."""
        self.line: deque[Record] = deque()
        """The partition's next records, in the order of their offsets."""
        self.heavy: dict[int, int] = {}
        """What those weigh that weigh more than 1, by offset."""
        self.ready: deque[Record] = deque()
        """Pending records that may be worked on now. One that is taken out is put back, or `finished`."""
        self.pending: dict[int, int] = {}
        """The weights of the records that have left `line` and are not done, by offset. Offsets rise, as a dict keeps
        the order of insertion."""

    def add(self, records: list[Record], weights: list[int] | None) -> None:
        """The partition's next records; ``weights`` None: each weighs 1."""
        if weights is not None:
            for record, weight in zip(records, weights, strict=True):
                if weight != 1:
                    self.heavy[record.offset] = weight
        self.line.extend(records)

    def available(self) -> bool:
        """Whether there may be something to take."""
        return bool(self.ready or self.line)

    def next(self) -> Record | None:
        """The first record of `line` that need not wait, which thereby leaves it."""
        return self.line.popleft() if self.line else None

    def hold(self, record: Record) -> None:
        """The record that `next` gave last is still worked on, and others will be taken meanwhile."""
        self._remember(record)

    def passed(self, record: Record) -> int:
        """The record that `next` gave last is done already; returns its weight."""
        return self.heavy.pop(record.offset, 1) if self.heavy else 1

    def finished(self, record: Record) -> int:
        """A record that was held is done with; returns its weight, or 0 if it was given up meanwhile."""
        return self.pending.pop(record.offset, 0)

    def _remember(self, record: Record) -> None:
        offset = record.offset
        self.pending[offset] = self.heavy.pop(offset, 1) if self.heavy else 1

    def count(self) -> int:
        """How many records are in hand."""
        return len(self.pending) + len(self.line)

    def first(self) -> int:
        """The offset of the first record in hand, or -1."""
        for offset in self.pending:
            return offset
        return self.line[0].offset if self.line else -1

    def cut(self, end: int) -> tuple[int, int]:
        """Forget what is behind the last record that anybody has begun to work on; ``end`` is the offset behind all.

        Returns the weight of that, and the offset of its first record, or ``end``.
        """
        first = self.line[0].offset if self.line else end
        weight = len(self.line) + sum(self.heavy.values()) - len(self.heavy)
        self.line.clear()
        self.heavy.clear()
        return weight, first

    def bar(self, first: int) -> None:
        """Nobody begins to work on records from this offset on any more; those that wait stay in hand."""
        kept = [record for record in self.ready if record.offset < first]
        self.ready.clear()
        self.ready.extend(kept)

    def give_up(self) -> int:
        """Forget everything; returns its weight."""
        weight = sum(self.pending.values()) + len(self.line) + sum(self.heavy.values()) - len(self.heavy)
        self.line.clear()
        self.heavy.clear()
        self.ready.clear()
        self.pending.clear()
        return weight


class KeyLanes(Lanes):
    """A lane for each key that is worked on. Records without a key wait for nobody."""

    __slots__ = ("_begun", "_waiting")

    def __init__(self) -> None:
        Lanes.__init__(self)
        self._begun = -1
        """The offset of the last record that came out of `line` to be worked on, or of one that is done behind it."""
        self._waiting: dict[bytes, deque[Record] | None] = {}
        """What waits behind the record that is held, by key; None where nothing does."""

    def next(self) -> Record | None:
        line, waiting = self.line, self._waiting
        while line:
            record = line.popleft()
            key = record.key
            if not waiting or key is None or key not in waiting:
                self._begun = record.offset
                return record
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
                self.ready.append(queue.popleft())
                self._waiting[key] = queue or None
        return self.pending.pop(record.offset, 0)

    def cut(self, end: int) -> tuple[int, int]:
        weight, first = Lanes.cut(self, end)
        idle = {record.offset for record in self.ready}
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
    """The whole partition in one lane."""

    __slots__ = ("_busy",)

    def __init__(self) -> None:
        Lanes.__init__(self)
        self.parallel = False
        self._busy = False
        """Whether a record is held."""

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
    """One partition's lanes."""
    return _LANES[order]()
