"""Records that the application has received and may still be processing.

Automatic commits exclude them, and a rebalance waits until they are processed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

from ...types import OffsetAndMetadata, TopicPartition
from .chunk import Chunk
from .partition_state import PartitionState
from .position import Position


def _nothing() -> None:
    pass


class InHand:
    """The records *in hand*: handed to the application, and not yet *done*.

    A record is done when the application commits it or reads again, not when it receives the record. If a handler
    fails, is cancelled or crashes, the record is therefore delivered again after a restart.
    """

    def __init__(self, on_release: Callable[[], None] = _nothing) -> None:
        self._many: dict[TopicPartition, Position] = {}
        """For each partition, the position before the records that were handed out together."""
        self._one_by_one: Chunk | None = None
        """The chunk over which the application is iterating. The last record taken from it is in hand."""
        self._covered: int | None = None
        """Offset up to which the application has committed while iterating over ``_one_by_one``."""
        self._abandoned: set[TopicPartition] = set()
        """Partitions whose records in hand were given up before they were done."""
        self._lost: set[TopicPartition] = set()
        """Partitions that were revoked while their records were in hand."""
        self._stored: dict[TopicPartition, Position] = {}
        """The last committed position of each partition."""
        self._in_transactions: dict[object, Mapping[TopicPartition, OffsetAndMetadata]] = {}
        """The offsets that each part of an unfinished transaction will commit."""
        self._uncommitted: dict[TopicPartition, frozenset[object]] = {}
        """Revoked partitions whose records may be missing from a transaction.

        They were revoked since the last transaction, although some of their records were neither committed nor part of
        a transaction. The value is the set of parts that existed at that time.
        """
        self.times_back = 0
        """Number of times that the consumer has gone back to earlier records because a transaction was aborted."""
        self._back_at_read = 0
        """The value of ``times_back`` at the application's last read."""
        self.first_read_at = float("inf")
        """Time of the application's first read (``time.monotonic()``)."""
        self._on_release = on_release
        """Called when the number of records in hand decreases."""

    # --- handing out and releasing -----------------------------------------------------------------------------------

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """Add the records from this position on, which have been handed out together, to those in hand."""
        self._many.setdefault(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """Track an iteration that the application has started over the chunk. The last record taken is in hand."""
        if self._one_by_one is not chunk:
            self._one_by_one = chunk
            self._covered = None

    def release(self) -> None:
        """Mark all records in hand as done, for example because the application reads again."""
        self._many.clear()
        self._abandoned.clear()
        self._lost.clear()
        chunk = self._one_by_one
        if chunk is not None:
            if chunk.left():
                # A loop over the chunk may continue after another read. Its next records are then in hand again.
                self._covered = chunk.position().offset
            else:
                self._one_by_one = None
        self._on_release()

    def read(self, now: float) -> None:
        """Record a read by the application, which ends the time in which `comes_again` is True."""
        self._back_at_read = self.times_back
        self.first_read_at = min(self.first_read_at, now)

    @property
    def comes_again(self) -> bool:
        """True if all records in hand will be delivered again.

        An aborted transaction moves the consumer back to the committed offsets. The value is then True until the
        application reads again.
        """
        return self._back_at_read != self.times_back

    def abandon(self, tp: TopicPartition) -> None:
        """Stop waiting for the records in hand of this partition, without marking them as done.

        A rebalance then revokes the partition at once, and the records are delivered again.
        """
        if tp in self._many or self._iterates((tp,)):
            self._abandoned.add(tp)
            self._on_release()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the state of partitions that were revoked or are newly assigned, without calling ``on_release``."""
        for tp in partitions:
            self._many.pop(tp, None)
            self._stored.pop(tp, None)
            self._abandoned.discard(tp)
            if self._one_by_one is not None and self._one_by_one.tp == tp:
                self._one_by_one = None

    def give_back(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the state of partitions that will continue from their committed offsets."""
        self.forget(partitions)
        self._on_release()

    def taken_away(self, partitions: Collection[TopicPartition]) -> frozenset[TopicPartition]:
        """Drop the state of revoked partitions. Return those that had records in hand."""
        held = {tp for tp in self._many if tp in partitions}
        if self._one_by_one is not None and self._iterates(partitions):
            held.add(self._one_by_one.tp)
        self.forget(partitions)
        return frozenset(held)

    def note_lost(self, partitions: Iterable[TopicPartition]) -> None:
        """Mark the records in hand of these partitions as lost, because they cannot be committed.

        `lost` contains the partitions until the application's next read.
        """
        self._lost.update(partitions)

    @property
    def lost(self) -> frozenset[TopicPartition]:
        """Partitions that were revoked while they had records in hand, since the application's last read."""
        return frozenset(self._lost)

    @property
    def anything(self) -> bool:
        """True if any record is in hand or lost, so that `release` has an effect."""
        return bool(self._many or self._one_by_one is not None or self._lost)

    # --- transactions ------------------------------------------------------------------------------------------------

    def in_transaction(self, part: object, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Record that an open transaction will commit these offsets.

        ``part`` identifies them. Call `transaction_ended` with the same ``part`` when the transaction has ended.
        """
        self._in_transactions[part] = offsets

    def transaction_ended(self, part: object) -> None:
        """Record that the transaction of this part has been committed or aborted.

        Partitions that were revoked while it was open stay in ``uncommitted``, because the next transaction may lack
        their records.
        """
        if part in self._in_transactions:
            self._uncommitted = {tp: parts for tp, parts in self._uncommitted.items() if part in parts}
            del self._in_transactions[part]
            self._on_release()

    def note_uncommitted(self, states: Iterable[PartitionState]) -> None:
        """Remember partitions that are being revoked while they have records that no open transaction commits.

        A transaction may contain results of these records without their offsets. It then fails with
        `CommitFailedError`, because `uncommitted` contains the partitions.
        """
        for state in states:
            position = state.position
            if state.is_ahead and position is not None and not self._is_covered(state.tp, position):
                self._uncommitted[state.tp] = frozenset(self._in_transactions)

    def _is_covered(self, tp: TopicPartition, position: Position) -> bool:
        """Return True if an open transaction commits all records before this position."""
        return any(
            tp in offsets and offsets[tp].offset >= position.offset for offsets in self._in_transactions.values()
        )

    @property
    def uncommitted(self) -> list[TopicPartition]:
        """Revoked partitions with uncommitted records whose results may be part of a later transaction."""
        return sorted(self._uncommitted)

    def went_back(self) -> None:
        """Record that the consumer went back. All uncommitted records will be delivered again, here or elsewhere."""
        self.times_back += 1
        self._uncommitted.clear()

    # --- queries -----------------------------------------------------------------------------------------------------

    def has(self, tp: TopicPartition) -> bool:
        """Return True if records of this partition were handed out together and are in hand or abandoned."""
        return tp in self._many

    def may_be_working_on(self, partitions: Collection[TopicPartition]) -> bool:
        """Return True if the application may be processing records of any of these partitions."""
        waited_for = frozenset(partitions) - self._abandoned
        return (
            not waited_for.isdisjoint(self._many)
            or any(tp in partitions for offsets in self._in_transactions.values() for tp in offsets)
            or self._iterates(waited_for)
        )

    def _iterates(self, partitions: Collection[TopicPartition]) -> bool:
        return self._one_by_one is not None and self._one_by_one.tp in partitions and self.last_taken() is not None

    def last_taken(self) -> Position | None:
        """Return the position before the last record taken in an iteration, or None."""
        if self._one_by_one is None:
            return None
        before = self._one_by_one.before_last_taken()
        if before is None or (self._covered is not None and before.offset < self._covered):
            return None
        return before

    def done(self, states: Iterable[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions after the records that are done, if they differ from the last commit."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        for state in states:
            position = self._done_to(state)
            if position is not None and self._stored.get(state.tp) != position:
                found[state.tp] = position.to_commit()
        return found

    def stored(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """Remember the offsets of an automatic commit, so that `done` does not return them again."""
        for tp, offset in offsets:
            self._stored[tp] = Position(offset.offset, -1 if offset.leader_epoch is None else offset.leader_epoch)

    def committed(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], states: Iterable[PartitionState]) -> None:
        """Record a commit by the application, after which all records before these offsets are done."""
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
        # After a seek backwards, the position is before the records in hand.
        return position if held is None or position.offset < held.offset else held


class PollInterval:
    """Measures the time since the application's last read (``max_poll_interval_ms``).

    The interval does not expire while a read waits for records. It is checked only by a group member's task, so it
    never expires in a consumer without a group.
    """

    __slots__ = ("_mark", "_progressed_at", "_waiting", "interval_s", "oldest_work")

    def __init__(self, interval_s: float, now: float) -> None:
        self.interval_s = interval_s
        self._progressed_at = now
        self._waiting = False
        """True while the application waits in a read."""
        self.oldest_work: Callable[[], float | None] | None = None
        """Set by a run that handles records while it reads. Only its handlers then count towards the interval.

        Returns the time at which the oldest running handler started, or None if none is running.
        """
        self._mark: Any = None
        """The application's progress at the last call of `look`."""

    def progressed(self, now: float) -> None:
        """Restart the interval, because the application has requested more records or has finished some."""
        self._progressed_at = now
        self._waiting = False

    def waits(self) -> None:
        """Suspend the interval until `progressed` is called, because the application is waiting for records."""
        self._waiting = True

    def look(self, mark: object, now: float) -> None:
        """Restart the interval if ``mark`` has changed since the last call.

        ``mark`` is any value that changes with progress, such as the number of records taken. This call detects the
        progress of ``async for``, which takes buffered records without calling `progressed`.
        """
        if mark != self._mark:
            self._mark = mark
            self._progressed_at = now

    def expires_at(self) -> float | None:
        """Return the time at which the interval expires. None while the application waits for records."""
        if self.oldest_work is not None:
            began_at = self.oldest_work()
            return None if began_at is None else began_at + self.interval_s
        return None if self._waiting else self._progressed_at + self.interval_s


class ParallelWork(Protocol):
    """The part of a run in progress (`Consumer.run`) that its consumer uses."""

    @property
    def transactional(self) -> bool:
        """True if the run commits in transactions, which forbids other commits."""
        ...

    def problem(self, now: float) -> str | None:
        """Return a description of the problem that the run currently tolerates, or None."""

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Give up these partitions: wait for their handlers until the deadline, and commit the finished records."""

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the records of these partitions, which have been revoked or lost."""

    def done(self) -> Iterator[tuple[PartitionState, Position]]:
        """Yield each partition from which records were taken, and the position up to which all records are done."""
        ...

    def unsubscribed(self) -> None:
        """End the run if the consumer has no partitions left to read, or is stopping."""

    async def finish(self, ready_by: float, end_by: float) -> None:
        """End the run of a stopping consumer. Handlers have until ``ready_by``, and all other work until ``end_by``."""


class CurrentRun:
    """The current run of one consumer, if any.

    It determines which records are done. If there is no run, `InHand` does.
    """

    __slots__ = ("called", "on_subscription", "work")

    def __init__(self) -> None:
        self.called = False
        """True from the call that starts a run until the run ends."""
        self.work: ParallelWork | None = None
        """The run, or None. Set by the run."""
        self.on_subscription: Callable[[], None] | None = None
        """Called before the consumer applies a change of its subscription. Set by the run."""
