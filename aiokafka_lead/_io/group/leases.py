"""Leases of batches that the application is processing, and automatic commits."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Any
from uuid import UUID

import anyio

from ..._core.consumer.chunk import Chunk
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.positions import Positions
from ..._core.consumer.reading import Reading
from ..._core.consumer.record_batch import RecordBatch
from ..._core.metadata.types import is_another
from ..._options.logs import client_log
from ...errors import CommitFailedError, KafkaError
from ...types import OffsetAndMetadata, TopicPartition
from ..cancellation import Waits, cancellation_of_task, cancelled_by_scope
from ..client import Client
from ..loop import in_task
from .commits import Commits, GroupPart


class Leases:
    """Lends batches to the application for processing. All leases end when the application requests more records."""

    def __init__(self, reading: Reading, commits: Commits) -> None:
        self._reading = reading
        self._in_hand = reading.in_hand
        self._commits = commits
        self._last: Lease | None = None
        """The lease of the last batch, until the application requests more records."""

    # --- notifications from the reader -------------------------------------------------------------------------------

    def returned(self, now: float) -> None:
        """Treat all records handed out as done, because the application has requested more.

        If the task that received the last batch was cancelled and another task continues to read, ends that batch's
        lease.
        """
        self._in_hand.read(now)
        if self._in_hand.anything:
            lease, self._last = self._last, None
            if lease is not None and lease.is_cancelled():
                lease.end()
            self._in_hand.release()

    def watch(self, now: float) -> float | None:
        """Return None, because no check is due while the application waits."""
        return None

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """See `ReadListener.handed_out`."""
        self._in_hand.handed_out(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """See `ReadListener.handing_out`."""
        self._in_hand.handing_out(chunk)

    # --- batches -----------------------------------------------------------------------------------------------------

    def lend(self, batch: RecordBatch[Any, Any]) -> Lease:
        """Return a lease for a batch that has just been handed out. The batch commits through its lease."""
        state = self._reading.positions.require(batch.topic_partition)
        lease = batch.lease = Lease(self, batch, state, self._in_hand.times_back)
        self._last = lease
        return lease

    async def commit(
        self, state: PartitionState, end: Position, topic_id: UUID | None, timeout_ms: float | None
    ) -> bool:
        """Commit ``end``, the position after a batch of this partition.

        Returns False if the partition has been reassigned since, or if the topic no longer has the id ``topic_id``.
        """
        return not self._is_another(state, topic_id) and await self._commits.commit_batch(state, end, timeout_ms)

    def topic_id(self, state: PartitionState) -> UUID | None:
        """See `Commits.topic_id`."""
        return self._commits.topic_id(state)

    def _is_another(self, state: PartitionState, topic_id: UUID | None) -> bool:
        """Return True if the log from which the batch was read no longer exists."""
        now = self._commits.topic_id(state)
        return now is None or topic_id is None or is_another(topic_id, now)

    def transaction_part(
        self, state: PartitionState, end: Position, topic_id: UUID | None, times_back: int
    ) -> GroupPart:
        """Return ``end``, the position after a batch of this partition, as a part of a transaction.

        ``topic_id`` and ``times_back`` are the values at the time at which the batch was handed out. Raises
        `CommitFailedError` if the partition no longer belongs to this consumer, or if the batch will be handed out
        again.
        """
        if times_back != self._in_hand.times_back:
            raise CommitFailedError(
                f"a transaction was aborted after the batch of {state.tp} before offset {end.offset} was handed out: "
                "its records will be delivered again"
            )
        if not self._reading.positions.owns(state) or self._is_another(state, topic_id):
            raise CommitFailedError(
                f"{state.tp} is no longer assigned: the batch before offset {end.offset} will be delivered again"
            )
        return GroupPart(self._commits, {state.tp: end.to_commit()})

    def take_back(self, state: PartitionState, base_offset: int, end: Position, *, cancelled: bool) -> None:
        """End the lease of a batch.

        If the processing of the batch was cancelled, the batch is handed out again. Otherwise, its state is unknown. A
        rebalance does not wait for it, and it counts as done only when the application requests more records.
        """
        if not self._reading.positions.owns(state) or not self._in_hand.has(state.tp):
            return
        position = state.position
        if cancelled and position is not None and position.offset == end.offset:
            self._reading.move(state, Position(base_offset))
            self._in_hand.give_back((state.tp,))
        else:
            self._in_hand.abandon(state.tp)


class Lease:
    """The lease of a batch. It is valid during the assignment in which the batch was handed out.

    The batch refers to its lease. The lease contains the batch's offsets but no reference to the batch, because a cycle
    would keep the memory of a Fetch response alive until the next garbage collection.
    """

    __slots__ = ("_base_offset", "_end", "_is_cancelled", "_leases", "_state", "_times_back", "_topic_id")

    def __init__(self, leases: Leases, batch: RecordBatch[Any, Any], state: PartitionState, times_back: int) -> None:
        self._leases = leases
        self._base_offset = batch.base_offset
        self._end = batch.end
        self._state = state
        self._topic_id = leases.topic_id(state)
        self._times_back = times_back
        self._is_cancelled = cancellation_of_task()

    async def commit(self, timeout_ms: float | None) -> bool:
        return await self._leases.commit(self._state, self._end, self._topic_id, timeout_ms)

    def transaction_part(self) -> GroupPart:
        return self._leases.transaction_part(self._state, self._end, self._topic_id, self._times_back)

    def is_cancelled(self) -> bool:
        """Return True if the task that received the batch was cancelled, or is being cancelled."""
        return self._is_cancelled() or _unwinds()

    def end(self) -> None:
        self._leases.take_back(self._state, self._base_offset, self._end, cancelled=self.is_cancelled())


def _unwinds() -> bool:
    """Return True if a cancel scope of anyio or trio is cancelling the current task."""
    try:
        return in_task() and cancelled_by_scope()
    except RuntimeError:  # the event loop has ended
        return False


_COMMIT = {"api": "OffsetCommit"}


class AutoCommit:
    """Commits the records that are done, in the background, with one commit at a time.

    It checks whether a commit is due whenever the application requests records.
    """

    def __init__(
        self, client: Client, positions: Positions, commits: Commits, leases: Leases, interval_s: float
    ) -> None:
        self._client = client
        self._log = client_log("consumer", client.config.client_id)
        self._positions = positions
        self._commits = commits
        self._leases = leases
        self._interval_s = interval_s
        self._due_at = time.monotonic() + interval_s
        self._spawned = False
        """True while a background commit is running."""
        self._one_at_a_time = anyio.Lock()
        """Prevents an older commit from arriving after a newer one."""
        self._last = Waits()
        """The waits for commits before partitions are given up."""

    # --- notifications from the reader -------------------------------------------------------------------------------

    def returned(self, now: float) -> None:
        """Treat the records that have been handed out as done. Start a commit if it is due."""
        self._leases.returned(now)
        if now >= self._due_at:
            self._due_at = now + self._interval_s
            self.commit_soon()

    def watch(self, now: float) -> float | None:
        """Return the time at which `returned` must be called next, although the application is still waiting."""
        return self._due_at

    def handed_out(self, tp: TopicPartition, before: Position) -> None:
        """See `ReadListener.handed_out`."""
        self._leases.handed_out(tp, before)

    def handing_out(self, chunk: Chunk) -> None:
        """See `ReadListener.handing_out`."""
        self._leases.handing_out(chunk)

    # --- committing --------------------------------------------------------------------------------------------------

    def commit_soon(self) -> None:
        """Commit the records that are done, unless a commit is already running."""
        offsets = self._commits.done(self._positions)
        if offsets and not self._spawned:
            self._spawned = True
            self._client.spawn(self._commit_in_background, offsets, name="commit offsets")

    async def commit_last(self, timeout_s: float, partitions: Container[TopicPartition] | None = None) -> None:
        """Commit the records in these partitions, or in all, that are done, before they are given up.

        Errors are logged. If the coordinator is lost, wait for it within the time limit of other commits.
        """
        began_at = time.monotonic()
        with self._last.within(timeout_s) as scope:
            async with self._one_at_a_time:
                await self._commit(partitions, {})
        if scope.cancelled_caught:
            text = "offsets were not committed within %.3g s: records since the last commit will be delivered again"
            self._log.warning(text, time.monotonic() - began_at, extra=_COMMIT)

    def hurry(self, until: float) -> None:
        """End the wait for a commit by the time ``until`` (``time.monotonic()``). The consumer is being stopped."""
        self._last.hurry(until)

    async def _commit_in_background(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        try:
            async with self._one_at_a_time:
                # Partitions that were given up during the wait for the lock have already been committed.
                gone = {} if self._commits.by_member else offsets
                await self._commit(None, {tp: offset for tp, offset in gone.items() if tp not in self._positions})
        finally:
            self._spawned = False

    async def _commit(
        self, partitions: Container[TopicPartition] | None, last: dict[TopicPartition, OffsetAndMetadata]
    ) -> None:
        states = [state for state in self._positions if partitions is None or state.tp in partitions]
        try:
            await self._commits.commit_done(states, last)
        except KafkaError as error:
            self._log.warning("offsets were not committed: %s", error, extra=_COMMIT)
