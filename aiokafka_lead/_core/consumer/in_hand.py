"""What the application was given and may still be working on: automatic commits leave it out."""

from __future__ import annotations

from collections.abc import Iterable

from ...types import OffsetAndMetadata, TopicPartition
from .fetched import Chunk
from .partition_state import PartitionState, Position

__all__ = ["InHand"]


class InHand:
    """A record counts as done when the application comes back for more, not when it gets it.

    So a handler that fails, is cancelled or dies has its record again after a restart.
    """

    def __init__(self) -> None:
        self._many: dict[TopicPartition, Position] = {}
        """Where partitions stood before what was handed out at once."""
        self._one_by_one: tuple[TopicPartition, Chunk] | None = None
        """Iterated over: the record that was taken last is in hand."""
        self._stored: dict[TopicPartition, Position] = {}
        """What was committed last."""

    def hold(self, tp: TopicPartition, before: Position) -> None:
        """Records from this position on have been handed out."""
        self._many.setdefault(tp, before)

    def hold_last(self, tp: TopicPartition, chunk: Chunk) -> None:
        """The chunk is handed out record by record; its last one taken is in hand at any time."""
        self._one_by_one = (tp, chunk)

    def release(self) -> None:
        """The application is done with everything."""
        self._many.clear()
        self._one_by_one = None

    def done(self, states: Iterable[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions to commit: behind everything that is done, where that is news."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for state in states:
            position = self._done_to(state)
            if position is not None and self._stored.get(state.tp) != position:
                epoch = None if position.leader_epoch < 0 else position.leader_epoch
                found[state.tp] = OffsetAndMetadata(position.offset, leader_epoch=epoch)
        return found

    def stored(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """These have been committed."""
        for tp, offset in offsets:
            self._stored[tp] = Position(offset.offset, -1 if offset.leader_epoch is None else offset.leader_epoch)

    def _done_to(self, state: PartitionState) -> Position | None:
        position = state.position
        if position is None:
            return None
        held = self._many.get(state.tp)
        if held is None and self._one_by_one is not None and self._one_by_one[0] == state.tp:
            held = self._one_by_one[1].before_last_taken()
        # A seek back moves the position before what is in hand.
        return position if held is None or position.offset < held.offset else held
