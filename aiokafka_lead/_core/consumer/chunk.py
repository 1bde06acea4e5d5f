"""Decoded records on their way to the application."""

from __future__ import annotations

from collections.abc import Iterator
from operator import length_hint
from typing import Any

from ..._records import ConsumerRecord
from ...types import TopicPartition
from .position import Position

__all__ = ["Chunk"]

Record = ConsumerRecord[Any, Any]


class Chunk:
    """Decoded records of one partition and leader epoch, handed out one by one or many at a time.

    Invariant: ``records`` is iterated over by ``remaining`` alone, which thereby is the only cursor. A loop over it
    costs nothing beside the list's own iterator, and the position follows from what the iterator has left.
    """

    __slots__ = ("_taken", "leader_epoch", "next_offset", "ready", "records", "remaining", "size_bytes", "start", "tp")

    def __init__(
        self,
        tp: TopicPartition,
        records: list[Record],
        start: Position,
        next_offset: int,
        leader_epoch: int,
        ready: int | None = None,
        size_bytes: int = 0,
    ) -> None:
        self.tp = tp
        self.records = records
        self.remaining: Iterator[Record] = iter(records)
        self.start = start
        """The position before the first record."""
        self.next_offset = next_offset
        """Where to go on behind the last record."""
        self.leader_epoch = leader_epoch
        self.ready = len(records) if ready is None else ready
        """How many of the records can be handed out as they are: the others have to be deserialized before."""
        self.size_bytes = size_bytes
        """Of the batches that they were read from, decompressed."""
        self._taken: int | None = None
        """Once withdrawn: how many records had been handed out."""

    def left(self) -> int:
        """How many records have not been handed out."""
        return length_hint(self.remaining)

    def ready_left(self) -> int:
        """How many can be handed out now."""
        return self.ready - self.handed_out()

    def deserialized(self, at: int, record: Record) -> None:
        """The record at this place of ``records``, of which all before are ready, as the application gets it."""
        self.records[at] = record
        self.ready = max(self.ready, at + 1)

    def drop(self, record: Record) -> None:
        """Leave out the record that would be handed out next, if it still is this one."""
        at = self.handed_out()
        if at < len(self.records) and self.records[at] is record:
            del self.records[at]

    def handed_out(self) -> int:
        """How many have been handed out."""
        return len(self.records) - length_hint(self.remaining)

    def position(self) -> Position:
        """The offset of the next record to hand out."""
        left = length_hint(self.remaining)
        if not left:
            return Position(self.next_offset, self.leader_epoch)
        if left == len(self.records):
            return Position(self.records[0].offset, self.start.leader_epoch)
        return Position(self.records[-left].offset, self.leader_epoch)

    def take(self, limit: int | None) -> list[Record]:
        """The next records: all of them, or ``limit`` at most."""
        first = self.handed_out()
        taken = self.records[first:] if limit is None else self.records[first : first + limit]
        # To move a list's iterator so, and to copy a part of the list, takes a tenth of iterating over it.
        self.remaining.__setstate__(first + len(taken))  # type: ignore[attr-defined]
        return taken

    def withdraw(self) -> Chunk:
        """The same chunk for later: an iteration over this one gets nothing more."""
        start = self.position()
        taken = self.handed_out()
        if self._taken is None:
            self._taken = taken
        ready = max(0, self.ready - taken)
        rest = list(self.remaining)
        return Chunk(self.tp, rest, start, self.next_offset, self.leader_epoch, ready, self.size_bytes)

    def before_last_taken(self) -> Position | None:
        """The position before the record that was handed out last, or None before the first."""
        taken = self.handed_out() if self._taken is None else self._taken
        if not taken:
            return None
        return Position(self.records[taken - 1].offset, self.leader_epoch if taken > 1 else self.start.leader_epoch)
