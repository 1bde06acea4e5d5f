"""What is committed to a group: up to where, and on whose behalf. The same for every way to commit."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol
from uuid import UUID

from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.reading import Reading
from ..._core.group.offsets import NOT_A_MEMBER
from ..._core.metadata.types import NO_TOPIC_ID, ClusterSnapshot
from ..._core.tracing import ReadTracing
from ...errors import (
    CommitFailedError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    IllegalStateError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..deadline import Deadline
from ..loop import sleep_until
from ..metadata.actor import MetadataActor
from .offsets import GroupOffsets, gone
from .standing import Standing


class ParallelWork(Protocol):
    """One run, while it is under way."""

    @property
    def transactional(self) -> bool:
        """Whether it commits in transactions, beside which there must be no other commit."""
        ...

    def problem(self, now: float) -> str | None:
        """What it bears with."""

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Let go of these partitions: wait for their handlers until the deadline, and commit what is done."""

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They have been given up, or lost."""

    def done(self) -> Iterator[tuple[PartitionState, Position]]:
        """For each partition that was taken from, the position before which everything is done."""
        ...

    def unsubscribed(self) -> None:
        """The consumer may have nothing to read any more: then the run ends."""

    async def finish(self, ready_by: float, end_by: float) -> None:
        """The consumer is being stopped: end the run. Handlers have until ``ready_by``, all has until ``end_by``."""


class CurrentRun:
    """The run of one consumer. It knows, and commits, what is done; without one that follows from what is in hand."""

    __slots__ = ("work",)

    def __init__(self) -> None:
        self.work: ParallelWork | None = None
        """None while none is under way. Written by the run itself."""


Offsets = Mapping[TopicPartition, OffsetAndMetadata]

REFUSED = (
    FencedInstanceIdError,
    FencedMemberEpochError,
    IllegalGenerationError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    UnknownMemberIdError,
)
"""What a coordinator says to a member that may not commit as such, now or ever."""


class Commits:
    """Commits for the application, for batches, for automatic commits and for `Consumer.run`.

    What was committed counts as done: no rebalance waits for it.
    """

    def __init__(
        self,
        reading: Reading,
        metadata: MetadataActor,
        group_offsets: GroupOffsets,
        standing: Standing,
        run: CurrentRun,
        timeout_ms: float,
    ) -> None:
        self._reading = reading
        self._metadata = metadata
        self.standing = standing
        self._positions = reading.positions
        self._in_hand = reading.in_hand
        self._group_offsets = group_offsets
        self._run = run
        self.tracing: ReadTracing | None = None
        self.timeout_ms = timeout_ms
        """For commits that the application gives no time for."""

    # --- up to where -------------------------------------------------------------------------------------------------

    def handed_out(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind everything that the application got; within a run, behind what is done. Nothing of what is gone."""
        work = self._run.work
        ends = ((state, state.position) for state in self._positions) if work is None else work.done()
        return {
            state.tp: position.to_commit() for state, position in ends if position is not None and self.has_log(state)
        }

    def has_log(self, state: PartitionState) -> bool:
        """Return True unless the partition's log is gone: its topic was deleted, or made again since it was read.

        What was read there must not be committed to the log that has taken its place.
        """
        return not (state.log_is_gone or self._metadata.snapshot.lacks(*state.tp))

    def topic_id(self, state: PartitionState) -> UUID | None:
        """That of the topic that the partition's log is of; None if that log is gone."""
        return self._metadata.snapshot.topic_id(state.tp.topic) if self.has_log(state) else None

    def done(self, states: Iterable[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Behind what the application has come back from, where that is news; nothing within a run, which commits."""
        if self._run.work is not None:
            return {}
        return self._in_hand.done(state for state in states if self.has_log(state))

    # --- the ways to commit ------------------------------------------------------------------------------------------

    async def commit(self, given: Offsets | None, timeout_ms: float) -> None:
        """Commit these offsets, or else what was handed out; raises what `store` does.

        Also `UnknownTopicOrPartitionError`, when the others are stored, if the cluster does not have a partition any
        more; and without offsets `CommitFailedError`, if partitions in hand were taken away.
        """
        if self._run.work is not None and self._run.work.transactional:
            raise IllegalStateError("run() commits in its transactions, and nothing else may while it does")
        offsets = self.handed_out() if given is None else given
        missing = await self.store(offsets, timeout_ms)
        self._in_hand.committed(offsets, self._positions)
        if missing:
            raise gone(missing)
        if given is None and (lost := self._in_hand.lost):
            raise CommitFailedError(
                f"{some_of(sorted(lost), PARTITIONS_NAMED)} were taken away while records were in hand: they come again"
            )

    async def commit_done(self, states: Iterable[PartitionState], last: Offsets) -> None:
        """Commit what is done of these partitions, and what was ``last`` done of others; raises as `commit` does.

        What is given up because its partition is gone is not tried again.
        """
        offsets = {**last, **self.done(states)}
        missing = await self.store(offsets, self.timeout_ms)
        self._in_hand.stored(offsets.items())
        if missing:
            raise gone(missing)

    async def commit_batch(self, state: PartitionState, end: Position) -> bool:
        """Commit behind a batch, if its partition still is what it was when the batch was handed out."""
        if not self._positions.owns(state):
            return False
        offsets = {state.tp: end.to_commit()}
        try:
            missing = await self.store(offsets, self.timeout_ms)
        except CommitFailedError:
            return False
        if missing:
            return False
        self._in_hand.committed(offsets, [state])
        return True

    # --- transactions ------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The consumer's view of the cluster as it is now."""
        return self._metadata.snapshot

    def membership(
        self, topics: Iterable[str] | None = None, at: ClusterSnapshot | None = None
    ) -> ConsumerGroupMetadata:
        """The membership as it is now, with the ids that topics (None: all that are read) had ``at`` that time."""
        snapshot = at or self.snapshot
        names = self._positions.by_topic if topics is None else topics
        ids = {name: topic_id for name in names if (topic_id := snapshot.topic_id(name)) != NO_TOPIC_ID}
        return replace(self.standing.metadata, topic_ids=ids)

    def begin_part(self, part: object, given: Offsets | None) -> Offsets:
        """The offsets that a transaction is to commit: these, or behind what was handed out.

        Until `end_part` of the same part no rebalance takes their partitions. Raises `CommitFailedError` if there are
        some that the consumer does not own, or if the transaction may have records that the consumer has lost, or that
        come again.
        """
        if self.standing.wanted:
            self.standing.commits_as()  # without a member's identity the coordinator would take them from anyone
        offsets = self.handed_out() if given is None else given
        self.check_owned(offsets)
        if given is None and (lost := self._in_hand.uncommitted):
            self._in_hand.went_back()
            self._reading.go_back(state for state in self._positions if state.is_ahead)
            raise CommitFailedError(
                f"{some_of(lost, PARTITIONS_NAMED)} were taken away after records had been handed out: they come again"
            )
        if given is None and self._in_hand.comes_again:
            raise CommitFailedError("a transaction was aborted, and its records come again: nothing was read since")
        self._in_hand.in_transaction(part, offsets)
        return offsets

    def end_part(self, part: object, offsets: Offsets, *, committed: bool) -> None:
        """The transaction has ended. One that was aborted takes the whole consumer back to what is committed."""
        if committed:
            self._stored(offsets)
            self._in_hand.stored(offsets.items())
            self._in_hand.committed(offsets, self._positions)
        else:
            self.go_back()
        self._in_hand.transaction_ended(part)

    def go_back(self) -> None:
        """Go on from what is committed, wherever more was handed out: that comes again."""
        ahead = [state for state in self._positions if state.is_ahead]
        if ahead:
            self._in_hand.went_back()
            self._reading.go_back(ahead)

    @property
    def times_back(self) -> int:
        """How often it went back: what was handed out before the latest time comes again."""
        return self._in_hand.times_back

    def read_before(self, moment: float) -> bool:
        """Whether the application had read before this moment (``time.monotonic()``)."""
        return self._in_hand.first_read_at < moment

    # --- on whose behalf ---------------------------------------------------------------------------------------------

    @property
    def by_member(self) -> bool:
        """Whether commits are those of a member, which its group gives partitions to."""
        return self.standing.wanted

    async def store(self, offsets: Offsets, timeout_ms: float) -> set[TopicPartition]:
        """Commit these offsets, all or, after an error, perhaps some; return the partitions that are gone.

        A member that a rebalance gets in the way of tries again after it, if it still owns the partitions; raises
        `CommitFailedError` if not. Raises what `GroupOffsets.commit` does.
        """
        began = time.time_ns()
        failure: BaseException | None = None
        try:
            missing = await self._store(offsets, timeout_ms)
            if missing:
                failure = gone(missing)
            elif offsets:
                self._reading.counters.commit_latency.add((time.time_ns() - began) / 1e9)
            return missing
        except BaseException as error:
            failure = error
            raise
        finally:
            if offsets and self.tracing is not None:
                self.tracing.committed(began, offsets, failure)

    async def _store(self, offsets: Offsets, timeout_ms: float) -> set[TopicPartition]:
        left = dict(offsets)
        missing: set[TopicPartition] = set()
        deadline = Deadline(timeout_ms)
        standing, refusals = self.standing, 0
        if not standing.wanted:
            missing |= await self._group_offsets.commit(left, NOT_A_MEMBER, timeout_ms)
        while left:
            identity = standing.commits_as()
            self.check_owned(left)
            try:
                missing |= await self._group_offsets.commit(left, identity, deadline.left_ms())
            except REFUSED as error:
                if not await standing.refused(identity, error, deadline):
                    raise CommitFailedError(
                        f"the offsets of {some_of(left, PARTITIONS_NAMED)} were not committed: {error.message}"
                    ) from error
                refusals += 1
                if standing.identity == identity:
                    await sleep_until(
                        min(deadline.at, time.monotonic() + self._group_offsets.backoff.delay_s(refusals))
                    )
        self._stored({tp: offset for tp, offset in offsets.items() if tp not in missing} if missing else offsets)
        return missing

    def _stored(self, offsets: Offsets) -> None:
        for tp, offset in offsets.items():
            state = self._positions.get(tp)
            if state is not None:
                state.base = Position(offset.offset, -1 if offset.leader_epoch is None else offset.leader_epoch)

    def check_owned(self, partitions: Iterable[TopicPartition]) -> None:
        """Raise `CommitFailedError` if there are others' among these: nothing may overwrite what they have committed.

        A member owns its partitions until they are lost, or the listener has let go of them.
        """
        gone = [tp for tp in partitions if tp not in self._positions]
        if gone:
            raise CommitFailedError(
                f"{some_of(gone, PARTITIONS_NAMED)} do not belong to this member of the group, or no longer"
            )


class GroupPart:
    """The offsets of a group's member; see `TransactionPart`."""

    def __init__(self, commits: Commits, offsets: Offsets | None = None) -> None:
        """``offsets`` None: behind everything that was handed out. Raises `CommitFailedError`."""
        self.source = commits
        self.offsets: Offsets = commits.begin_part(self, offsets)
        self.group: ConsumerGroupMetadata = commits.membership({tp.topic for tp in self.offsets})

    def ended(self, *, committed: bool) -> None:
        """The transaction is committed; or it is not, or that is not known: then the consumer goes back."""
        self.source.end_part(self, self.offsets, committed=committed)
