"""Tracks which records of a partition are done if they finish in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from ..._records import ConsumerRecord
from ..consumer.position import Position
from .order import Lanes


class Progress:
    """Finds the position before a partition's first unfinished record. The offset may be committed up to there."""

    __slots__ = ("_end", "_epochs", "_lanes")

    def __init__(self, start: Position, lanes: Lanes) -> None:
        self._end = start
        self._lanes = lanes
        self._epochs: deque[tuple[int, int]] = deque([(-1, start.leader_epoch)])
        """The leader epochs, each with the first offset that was written in it."""

    def began(self, records: Sequence[ConsumerRecord[Any, Any]], end: Position) -> None:
        """Add the partition's next records, which are now in hand. The partition continues at ``end``."""
        self._end = end
        if _epoch(records[0]) != self._epochs[-1][1] or _epoch(records[-1]) != self._epochs[-1][1]:
            for record in records:
                if _epoch(record) != self._epochs[-1][1]:
                    self._epochs.append((record.offset, _epoch(record)))

    def give_up(self) -> int:
        """Drop the records in hand, and return their weight. Finished records still count as done."""
        self._end = self.done_to()
        return self._lanes.give_up()

    def cut(self, offset: int) -> None:
        """Move the end back to this offset, because the records from there on were dropped."""
        self._end = Position(offset, [epoch for first, epoch in self._epochs if first < offset][-1])

    @property
    def end(self) -> Position:
        """Position after all records that were taken."""
        return self._end

    def done_to(self) -> Position:
        """Return the position before which every record is finished, so that it may be committed."""
        first = self._lanes.first()
        if first < 0:
            return self._end
        epochs = self._epochs
        while len(epochs) > 1 and epochs[1][0] < first:
            epochs.popleft()
        return Position(first, epochs[0][1])


def _epoch(record: ConsumerRecord[Any, Any]) -> int:
    return -1 if record.leader_epoch is None else record.leader_epoch
