"""What the application was given and may still be working on.

Automatic commits leave it out, and a group's rebalance waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ...types import OffsetAndMetadata, TopicPartition
from .chunk import Chunk
from .partition_state import PartitionState
from .position import Position

__all__ = ["InHand"]


def _nothing() -> None:
    pass


class InHand:
    """A record counts as done when the application comes back for more, not when it gets it; or commits it.

    So a handler that fails, is cancelled or dies has its record again after a restart.
    """

    def __init__(self, on_release: Callable[[], None] = _nothing) -> None:
        self._many: dict[TopicPartition, Position] = {}
        """Where partitions stood before what was handed out at once."""
        self._one_by_one: Chunk | None = None
        """Iterated over: the record that was taken last is in hand."""
        self._covered: int | None = None
        """The application has committed up to this offset while it iterates over ``_one_by_one``."""
        self._abandoned: set[TopicPartition] = set()
        """Among ``_many``: nobody works on these any more, though they are not done."""
        self._lost: set[TopicPartition] = set()
        """Taken away while the application had records of them in hand."""
        self._stored: dict[TopicPartition, Position] = {}
        """What was committed last."""
        self._in_transactions: dict[object, Mapping[TopicPartition, OffsetAndMetadata]] = {}
        """Offsets that are part of transactions which have not ended, by what stands for that part."""
        self._uncommitted: dict[TopicPartition, frozenset[object]] = {}
        """Taken away when records had been handed out that were neither committed nor part of a transaction, since the
        last transaction; with the parts that there were then."""
        self.times_back = 0
        """How often an aborted transaction has taken the consumer back: what was handed out before comes again."""
        self._back_at_read = 0
        """``times_back`` when the application came for more the latest time."""
        self.first_read_at = float("inf")
        """When it came for the first time (``time.monotonic()``)."""
        self._on_release = on_release
        """Called when less is in hand."""

    # --- what goes out and comes back --------------------------------------------------------------------------------

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """Records from this position on have been handed out."""
        self._many.setdefault(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """The chunk is handed out record by record; its last one taken is in hand at any time."""
        if self._one_by_one is not chunk:
            self._one_by_one = chunk
            self._covered = None

    def release(self) -> None:
        """The application is done with everything."""
        self._many.clear()
        self._abandoned.clear()
        self._lost.clear()
        chunk = self._one_by_one
        if chunk is not None:
            if chunk.left():
                # A loop may go on with it after another call has read: the records to come are in hand again.
                self._covered = chunk.position().offset
            else:
                self._one_by_one = None
        self._on_release()

    def read(self, now: float) -> None:
        """The application comes for more."""
        self._back_at_read = self.times_back
        self.first_read_at = min(self.first_read_at, now)

    @property
    def comes_again(self) -> bool:
        """Whether all that the application has comes again: the consumer was taken back, and nothing was read since."""
        return self._back_at_read != self.times_back

    def abandon(self, tp: TopicPartition) -> None:
        """Nobody works on what is in hand of this partition; it is not done either."""
        if tp in self._many:
            self._abandoned.add(tp)
            self._on_release()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are no longer, or not yet, the consumer's: whatever it had of them says nothing."""
        for tp in partitions:
            self._many.pop(tp, None)
            self._stored.pop(tp, None)
            self._abandoned.discard(tp)
            if self._one_by_one is not None and self._one_by_one.tp == tp:
                self._one_by_one = None

    def give_back(self, partitions: Iterable[TopicPartition]) -> None:
        """The application has nothing of these any more: they go on from what is committed."""
        self.forget(partitions)
        self._on_release()

    def taken_away(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Forget these partitions; returns those of which the application had something in hand."""
        held = {tp for tp in self._many if tp in partitions}
        if self._one_by_one is not None and self._iterates(partitions):
            held.add(self._one_by_one.tp)
        self.forget(partitions)
        return frozenset(held)

    def note_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """What the application has in hand of these partitions it cannot commit, until it comes back for more."""
        self._lost.update(partitions)

    @property
    def lost(self) -> frozenset[TopicPartition]:
        """Partitions that were taken away with records in hand, since the application last came back for more."""
        return frozenset(self._lost)

    @property
    def anything(self) -> bool:
        """Whether there is something for `release` to change."""
        return bool(self._many or self._one_by_one is not None or self._lost)

    # --- transactions ------------------------------------------------------------------------------------------------

    def in_transaction(self, part: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """These are part of a transaction, until `transaction_ended` of the same part."""
        self._in_transactions[part] = offsets

    def transaction_ended(self, part: object) -> None:
        """It was committed or aborted. What was taken away while it was open may be missing in the next one."""
        if part in self._in_transactions:
            self._uncommitted = {tp: parts for tp, parts in self._uncommitted.items() if part in parts}
            del self._in_transactions[part]
            self._on_release()

    def note_uncommitted(self, states: Iterable[PartitionState]) -> None:
        """These are taken away: what was handed out of them behind all that is committed, or about to be, is lost."""
        for state in states:
            position = state.position
            if state.is_ahead and position is not None and not self._is_covered(state.tp, position):
                self._uncommitted[state.tp] = frozenset(self._in_transactions)

    def _is_covered(self, tp: TopicPartition, position: Position) -> bool:
        """Whether a transaction that is open commits all before this position."""
        return any(
            tp in offsets and offsets[tp].offset >= position.offset for offsets in self._in_transactions.values()
        )

    @property
    def uncommitted(self) -> list[TopicPartition]:
        """Partitions that were taken away though records of them may be in a transaction that is still to come."""
        return sorted(self._uncommitted)

    def went_back(self) -> None:
        """All that was handed out and is not committed comes again, or is others'."""
        self.times_back += 1
        self._uncommitted.clear()

    # --- what follows ------------------------------------------------------------------------------------------------

    def has(self, tp: TopicPartition) -> bool:
        """Whether records of this partition are out, whether somebody works on them or not."""
        return tp in self._many

    def may_be_working_on(self, partitions: Collection[TopicPartition]) -> bool:
        """Whether the application may be working on any of these partitions."""
        return (
            any(tp in partitions and tp not in self._abandoned for tp in self._many)
            or any(tp in partitions for offsets in self._in_transactions.values() for tp in offsets)
            or self._iterates(partitions)
        )

    def _iterates(self, partitions: Collection[TopicPartition]) -> bool:
        return self._one_by_one is not None and self._one_by_one.tp in partitions and self.last_taken() is not None

    def last_taken(self) -> Position | None:
        """The position before the one record in hand of those that are iterated over."""
        if self._one_by_one is None:
            return None
        before = self._one_by_one.before_last_taken()
        if before is None or (self._covered is not None and before.offset < self._covered):
            return None
        return before

    def done(self, states: Iterable[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Positions to commit: behind everything that is done, where that is news."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for state in states:
            position = self._done_to(state)
            if position is not None and self._stored.get(state.tp) != position:
                found[state.tp] = position.to_commit()
        return found

    def stored(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """These have been committed automatically."""
        for tp, offset in offsets:
            self._stored[tp] = Position(offset.offset, -1 if offset.leader_epoch is None else offset.leader_epoch)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], states: Iterable[PartitionState]) -> None:
        """The application has committed these: what they cover is done."""
        for state in states:
            offset = offsets.get(state.tp)
            position = state.position
            if offset is not None and position is not None and offset.offset >= position.offset:
                self._many.pop(state.tp, None)
                self._abandoned.discard(state.tp)
                if self._one_by_one is not None and self._one_by_one.tp == state.tp:
                    self._covered = offset.offset
        self._on_release()

    def _done_to(self, state: PartitionState) -> Position | None:
        position = state.position
        if position is None:
            return None
        held = self._many.get(state.tp)
        if held is None and self._one_by_one is not None and self._one_by_one.tp == state.tp:
            held = self.last_taken()
        # A seek back moves the position before what is in hand.
        return position if held is None or position.offset < held.offset else held
