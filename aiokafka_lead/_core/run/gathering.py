"""Batches of records for handlers that take several records at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Generic, NamedTuple, Protocol, TypeVar

from .work import HandlerSlot, PartitionWork


class _Sized(Protocol):
    """The limits of the batches that a handler takes."""

    @property
    def max_records(self) -> int: ...
    @property
    def max_wait_s(self) -> float: ...


B = TypeVar("B", bound=_Sized)


class Gathered(NamedTuple, Generic[B]):
    """A batch that is ready to be passed to a handler."""

    partition: PartitionWork
    by: B
    """The handler of the batch."""
    slots: list[HandlerSlot]


class _Line(Generic[B]):
    """The records of one partition that are waiting for a batch."""

    __slots__ = ("busy", "by", "due_at", "slots")

    def __init__(self, by: B) -> None:
        self.by = by
        self.slots: list[HandlerSlot] = []
        self.due_at = 0.0
        """Time at which a batch starts even if it is not full."""
        self.busy = False
        """True while a batch of the partition is being handled."""


class Gathering(Generic[B]):
    """Collects each partition's records in order. At most one batch of each partition is handled at a time.

    The slots of waiting records stay occupied. Times are in monotonic seconds.
    """

    def __init__(self) -> None:
        self._lines: dict[PartitionWork, _Line[B]] = {}

    def add(self, slot: HandlerSlot, by: B, now: float) -> bool:
        """Add the slot's record to a batch. Return True if that changes the time at which the next batch starts."""
        partition = slot.partition
        assert partition is not None
        line = self._lines.get(partition)
        if line is None:
            line = self._lines[partition] = _Line(by)
        line.slots.append(slot)
        waiting = len(line.slots)
        if waiting == by.max_records:
            line.due_at = now
        elif waiting == 1:
            line.due_at = now + by.max_wait_s
        else:
            return False
        return not line.busy

    def next_due(self) -> float | None:
        """Return the time at which the next batch starts, or None if no batch is being filled."""
        return min((line.due_at for line in self._lines.values() if line.slots and not line.busy), default=None)

    def due(self, now: float) -> Iterator[Gathered[B]]:
        """Remove and yield the batches that start now. `ended` must be called for each."""
        for partition, line in list(self._lines.items()):
            if line.slots and not line.busy and line.due_at <= now:
                most = line.by.max_records
                batch, line.slots = line.slots[:most], line.slots[most:]
                line.busy = True
                if len(line.slots) < most:
                    line.due_at = now + line.by.max_wait_s
                yield Gathered(partition, line.by, batch)

    def ended(self, partition: PartitionWork) -> None:
        """Record that the batch of this partition has ended, so its next batch may start."""
        line = self._lines[partition]
        line.busy = False
        if not line.slots:
            del self._lines[partition]

    def give_up(self, partitions: Collection[PartitionWork] | None = None) -> list[HandlerSlot]:
        """Remove the waiting records of these partitions, or of all partitions, and return their slots."""
        found: list[HandlerSlot] = []
        for partition, line in list(self._lines.items()):
            if partitions is None or partition in partitions:
                found += line.slots
                line.slots = []
                if not line.busy:
                    del self._lines[partition]
        return found
