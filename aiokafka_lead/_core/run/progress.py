"""How far one partition is done, while its records are finished in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from ..._records import ConsumerRecord
from ..consumer.partition_state import Position

__all__ = ["Progress"]

_offset_of = attrgetter("offset")


class Progress:
    """One partition's records in hand, and the position before the first of them: that may be committed.

    Invariant: `_pending` holds its offsets in rising order, as a dict keeps the order of insertion. It costs nothing
    for records that are finished, however far behind the first unfinished one is.
    """

    __slots__ = ("_end", "_epochs", "_pending")

    def __init__(self, start: Position) -> None:
        self._end = start
        self._pending: dict[int, int] = {}
        """The weights of the records in hand, by offset."""
        self._epochs: deque[tuple[int, int]] = deque([(-1, start.leader_epoch)])
        """Leader epochs, each with the first offset that was written under it."""

    def began(self, records: Sequence[ConsumerRecord[Any, Any]], weights: Sequence[int] | None, end: Position) -> None:
        """These records, the next ones, are in hand; behind them the partition goes on at ``end``.

        ``weights`` None: each weighs 1.
        """
        offsets = map(_offset_of, records)
        self._pending.update(dict.fromkeys(offsets, 1) if weights is None else zip(offsets, weights, strict=True))
        self._end = end
        if _epoch(records[0]) != self._epochs[-1][1] or _epoch(records[-1]) != self._epochs[-1][1]:
            for record in records:
                if _epoch(record) != self._epochs[-1][1]:
                    self._epochs.append((record.offset, _epoch(record)))

    def finished(self, offset: int) -> int:
        """This record is done; returns its weight, or 0 if it was none of those in hand."""
        return self._pending.pop(offset, 0)

    def move(self, end: Position) -> None:
        """Nothing is in hand, and the partition has moved on to this position."""
        self._end = end

    def abandon(self) -> int:
        """Give up what is in hand; returns its weight. What is done stays as it is."""
        weight = sum(self._pending.values())
        self._end = self.done_to()
        self._pending.clear()
        return weight

    @property
    def in_hand(self) -> int:
        """How many records are not finished."""
        return len(self._pending)

    @property
    def end(self) -> Position:
        """Behind everything that was taken."""
        return self._end

    def done_to(self) -> Position:
        """Every record before this position is finished."""
        if not self._pending:
            return self._end
        first = next(iter(self._pending))
        epochs = self._epochs
        while len(epochs) > 1 and epochs[1][0] < first:
            epochs.popleft()
        return Position(first, epochs[0][1])


def _epoch(record: ConsumerRecord[Any, Any]) -> int:
    return -1 if record.leader_epoch is None else record.leader_epoch
