"""Commits to a group: their offsets, and the identity that commits them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

import anyio

from ... import errors
from ..._core.consumer.in_hand import CurrentRun
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.reading import Reading
from ..._core.group.offsets import NOT_A_MEMBER
from ..._core.metadata.types import NO_TOPIC_ID, ClusterSnapshot
from ..._core.tracing import ReadTracing
from ...errors.shown import PARTITIONS_NAMED, some_of
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..deadline import Deadline
from ..loop import News, sleep_until
from ..metadata.actor import MetadataActor
from .offsets import GroupOffsets, gone
from .standing import Standing

Offsets = Mapping[TopicPartition, OffsetAndMetadata]

REFUSED = (
    errors.FencedInstanceIdError,
    errors.FencedMemberEpochError,
    errors.IllegalGenerationError,
    errors.RebalanceInProgressError,
    errors.StaleMemberEpochError,
    errors.UnknownMemberIdError,
)
"""Errors of a coordinator for a member that may not commit, either now or ever."""


class Commits:
    """Determines the offsets and the identity of each of a consumer's commits, and sends the commits.

    These are the application's commits, automatic commits, and the commits of batches, of `Consumer.run` and of
    transactions. Committed records count as done, so a rebalance does not wait for them.
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
        self._in_flight = 0
        self._ended = News()
        """Notified when a commit has ended."""
        self.tracing: ReadTracing | None = None
        self.timeout_ms = timeout_ms
        """Default timeout of the application's commits."""
        self.automatic = False
        """True with ``enable_auto_commit``."""

    # --- offsets to commit -------------------------------------------------------------------------------------------

    def handed_out(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after the records that have been handed out or, in a run, after the records that are done.

        Partitions whose log no longer exists are omitted.
        """
        work = self._run.work
        ends = ((state, state.position) for state in self._positions) if work is None else work.done()
        return {
            state.tp: position.to_commit() for state, position in ends if position is not None and self.has_log(state)
        }

    def has_log(self, state: PartitionState) -> bool:
        """Return False if the partition's log no longer exists, because its topic was deleted or recreated.

        Offsets of the old log must not be committed for the new log.
        """
        return not (state.log_is_gone or self._metadata.snapshot.lacks(*state.tp))

    def topic_id(self, state: PartitionState) -> UUID | None:
        """Return the id of the topic to which the partition's log belongs, or None if that log no longer exists."""
        return self._metadata.snapshot.topic_id(state.tp.topic) if self.has_log(state) else None

    def done(self, states: Iterable[PartitionState]) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the new offsets after the records that are done. It is empty during a run, which commits by itself."""
        if self._run.work is not None:
            return {}
        return self._in_hand.done(state for state in states if self.has_log(state))

    # --- committing --------------------------------------------------------------------------------------------------

    async def commit(self, given: Offsets | None, timeout_ms: float) -> None:
        """Commit these offsets or, if None, the offsets after the records that have been handed out.

        Once the other offsets have been stored, raises `UnknownTopicOrPartitionError` for partitions that no longer
        exist, and `CommitFailedError` if ``given`` is None and the consumer has lost partitions with records in hand.
        Raises `IllegalStateError` in a run that commits in transactions, and the errors of `store`.
        """
        if self._run.work is not None and self._run.work.transactional:
            raise errors.IllegalStateError("run() commits offsets in its transactions: do not commit while it runs")
        offsets = self.handed_out() if given is None else given
        missing = await self.store(offsets, timeout_ms)
        self._in_hand.committed(offsets, self._positions)
        if missing:
            raise gone(missing)
        if given is None and (lost := self._in_hand.lost):
            raise errors.CommitFailedError(
                f"{some_of(sorted(lost), PARTITIONS_NAMED)} were lost while records were in hand: these will be "
                "delivered again"
            )

    async def commit_done(self, states: Iterable[PartitionState], last: Offsets) -> None:
        """Commit the records in these partitions that are done, and the offsets in ``last``.

        Raises the errors of `commit`.

        Offsets of partitions that no longer exist are not retried.
        """
        offsets = {**last, **self.done(states)}
        missing = await self.store(offsets, self.timeout_ms)
        self._in_hand.stored(offsets.items())
        if missing:
            raise gone(missing)

    async def commit_batch(self, state: PartitionState, end: Position, timeout_ms: float | None) -> bool:
        """Commit the offset after a batch.

        Returns False if its partition has been reassigned since the batch was handed out.
        """
        if not self._positions.owns(state):
            return False
        offsets = {state.tp: end.to_commit()}
        try:
            missing = await self.store(offsets, self.timeout_ms if timeout_ms is None else timeout_ms)
        except errors.CommitFailedError:
            return False
        if missing:
            return False
        self._in_hand.committed(offsets, [state])
        return True

    # --- transactions ------------------------------------------------------------------------------------------------

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The latest snapshot of the cluster, in which topic ids are looked up."""
        return self._metadata.snapshot

    def membership(
        self, topics: Iterable[str] | None = None, at: ClusterSnapshot | None = None
    ) -> ConsumerGroupMetadata:
        """Return the current membership, with the ids of the topics from the snapshot ``at``.

        ``topics`` defaults to all topics that are being read.
        """
        snapshot = at or self.snapshot
        names = self._positions.by_topic if topics is None else topics
        ids = {name: topic_id for name in names if (topic_id := snapshot.topic_id(name)) != NO_TOPIC_ID}
        return replace(self.standing.metadata, topic_ids=ids)

    def begin_part(self, part: object, given: Offsets | None) -> Offsets:
        """Return the offsets that a transaction must commit.

        These are ``given`` or, if that is None, the offsets after the records that have been handed out. A rebalance
        does not revoke their partitions until `end_part` is called for the same ``part``.

        Raises `CommitFailedError` if the consumer does not own one of the partitions, or if the transaction may contain
        results of records that the consumer has lost or that will be handed out again.
        """
        if self.standing.wanted:
            self.standing.commits_as()  # without the member's identity, the coordinator would not check the membership
        offsets = self.handed_out() if given is None else given
        self.check_owned(offsets)
        if given is None and (lost := self._in_hand.uncommitted):
            self._in_hand.went_back()
            self._reading.go_back(state for state in self._positions if state.is_ahead)
            raise errors.CommitFailedError(
                f"{some_of(lost, PARTITIONS_NAMED)} were lost after records were handed out: these will be delivered "
                "again"
            )
        if given is None and self._in_hand.comes_again:
            raise errors.CommitFailedError(
                "a transaction was aborted, and its records will be delivered again: no record was read since"
            )
        self._in_hand.in_transaction(part, offsets)
        return offsets

    def end_part(self, part: object, offsets: Offsets, *, committed: bool) -> None:
        """End the part of a transaction that `begin_part` began. If it was aborted, return to the committed offsets."""
        if committed:
            self._stored(offsets)
            self._in_hand.stored(offsets.items())
            self._in_hand.committed(offsets, self._positions)
        else:
            self.go_back()
        self._in_hand.transaction_ended(part)

    def go_back(self) -> None:
        """Return to the committed offsets of all partitions. Uncommitted records will be handed out again."""
        ahead = [state for state in self._positions if state.is_ahead]
        if ahead:
            self._in_hand.went_back()
            self._reading.go_back(ahead)

    @property
    def times_back(self) -> int:
        """Number of calls of `go_back`. Uncommitted records from before the latest call will be handed out again."""
        return self._in_hand.times_back

    def read_before(self, moment: float) -> bool:
        """Return True if the application first read before this time (``time.monotonic()``)."""
        return self._in_hand.first_read_at < moment

    # --- identity of commits -----------------------------------------------------------------------------------------

    @property
    def by_member(self) -> bool:
        """True if the consumer commits as a member of its group. False if partitions were assigned by hand."""
        return self.standing.wanted

    async def store(self, offsets: Offsets, timeout_ms: float) -> set[TopicPartition]:
        """Commit these offsets, and return the partitions that no longer exist.

        If a rebalance prevents the commit, it is retried after the rebalance. If the member does not own the partitions
        then, raises `CommitFailedError`. Also raises the errors of `GroupOffsets.commit`. After an error, some offsets
        may be stored.
        """
        began, began_at = time.time_ns(), time.monotonic()
        failure: BaseException | None = None
        self._in_flight += 1
        try:
            missing = await self._store(offsets, timeout_ms)
            if missing:
                failure = gone(missing)
            elif offsets:
                self._reading.counters.commit_latency.add(time.monotonic() - began_at)
            return missing
        except BaseException as error:
            failure = error
            raise
        finally:
            self._in_flight -= 1
            self._ended.tell()
            if offsets and self.tracing is not None:
                self.tracing.committed(began, offsets, failure)

    async def settle(self, timeout_s: float) -> None:
        """Wait for commits in flight to end, at most ``timeout_s`` seconds.

        A consumer that has left the group could not repeat them.
        """
        with anyio.move_on_after(timeout_s):
            while self._in_flight:
                await self._ended.wait()

    async def _store(self, offsets: Offsets, timeout_ms: float) -> set[TopicPartition]:
        """Do the work of `store`: commit as a member or, if partitions were assigned by hand, without membership."""
        left = dict(offsets)
        missing: set[TopicPartition] = set()
        deadline = Deadline(timeout_ms)
        standing, refusals = self.standing, 0
        if not standing.wanted:
            try:
                missing |= await self._group_offsets.commit(left, NOT_A_MEMBER, timeout_ms)
            except errors.UnknownMemberIdError as error:
                raise errors.CommitFailedError(
                    f"the offsets of {some_of(left, PARTITIONS_NAMED)} were not committed: group "
                    f"{self._group_offsets.group_id!r} has members, so only members may commit: subscribe, or use "
                    f"another group_id ({error.message})"
                ) from error
        while left:
            identity = standing.commits_as()
            self.check_owned(left)
            try:
                missing |= await self._group_offsets.commit(left, identity, deadline.left_ms())
            except REFUSED as error:
                refusals += 1
                if not await standing.refused(identity, error, refusals, deadline):
                    raise errors.CommitFailedError(
                        f"the offsets of {some_of(left, PARTITIONS_NAMED)} were not committed: {error.message}"
                    ) from error
                # A refused commit with an outdated identity can be repeated at once with the new one.
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
        """Raise `CommitFailedError` if this member does not own all partitions, to protect other members' offsets.

        A member owns its partitions until they are lost, or until the listener has handled their revocation.
        """
        gone = [tp for tp in partitions if tp not in self._positions]
        if gone:
            raise errors.CommitFailedError(
                f"{some_of(gone, PARTITIONS_NAMED)} are not assigned to this member of the group"
            )


class GroupPart:
    """The offsets of one group member within a transaction (see `TransactionPart`)."""

    def __init__(self, commits: Commits, offsets: Offsets | None = None) -> None:
        """Take ``offsets``, by default the offsets after all records that have been handed out.

        Raises `IllegalStateError` if the consumer commits automatically, and the errors of `Commits.begin_part`.
        """
        if commits.automatic:
            raise errors.IllegalStateError(
                "a transaction must not commit for a consumer with auto-commit, which also commits the records of "
                "aborted transactions: set enable_auto_commit=False"
            )
        self.source = commits
        self.offsets: Offsets = commits.begin_part(self, offsets)
        self.group: ConsumerGroupMetadata = commits.membership({tp.topic for tp in self.offsets})

    def ended(self, *, committed: bool) -> None:
        """End the part. Unless the transaction was certainly committed, return to the committed offsets."""
        self.source.end_part(self, self.offsets, committed=committed)
