"""What the application calls: the part of `Consumer` that is about its group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..._core.consumer import arguments
from ..._core.consumer.consumed import TransactionPart
from ..._options.arguments import topic_partition
from ...errors import IllegalStateError
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from .position_calls import PositionCalls

if TYPE_CHECKING:
    from ..group.membership import Membership

__all__ = ["GroupCalls"]

Offset = int | tuple[int, str] | OffsetAndMetadata


class GroupCalls(PositionCalls):
    """The calls of a consumer with a ``group_id``; others raise `IllegalStateError`."""

    async def commit(
        self, offsets: Mapping[TopicPartition, Offset] | None = None, *, timeout_ms: float | None = None
    ) -> None:
        """Store these offsets (the positions of all assigned partitions; within `run` what is done) for ``group_id``.

        An offset is that of the next record to read. What they cover counts as done: no rebalance waits for it. Returns
        when they are stored, if need be after a rebalance; raises `CommitFailedError` if the consumer is not the member
        that owns the partitions any more, or, without offsets, when those that it still owns are stored, if others were
        taken away since records of them were handed out; raises the error of a partition that was refused, or
        `RequestTimedOutError` after ``timeout_ms`` (``default_api_timeout_ms``).
        """
        given = None if offsets is None else arguments.OFFSETS("offsets", offsets)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        await self._membership("committed offsets belong").commits.commit(given, timeout_ms)

    async def committed(
        self, partition: TopicPartition, *, timeout_ms: float | None = None
    ) -> OffsetAndMetadata | None:
        """What ``group_id`` has stored for the partition, or None; raises as `commit` does."""
        tp = topic_partition("partition", partition)
        timeout_ms = self._timeout_ms(timeout_ms)
        self._client.check()
        found = await self._membership("committed offsets belong").offsets.committed([tp], timeout_ms)
        return found[tp]

    async def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Go on from what ``group_id`` has committed of these partitions (of all that are assigned).

        For after a transaction that was aborted and committed offsets by `Producer.send_offsets_to_transaction`; with
        `Transaction.send_offsets` or `Transaction.commit_batch` this happens by itself. Where nothing is committed,
        from where reading began. What was fetched, and not handed out, is discarded. Returns when the offsets are
        known.
        """
        partitions = tuple(arguments.PARTITIONS("partitions", partitions))
        self._client.check()
        self._membership("committed offsets belong")
        states = self._states(partitions) if partitions else list(self._engine.reading.positions)
        self._engine.reading.go_back(states)
        await self._engine.readiness.wait_for_positions(states, self._config.default_api_timeout_ms)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership as it is now, for a transaction's offsets (KIP-447).

        Raises `IllegalStateError` without a ``group_id``.
        """
        return self._membership("a membership belongs").standing.metadata

    def _transaction_part(self) -> TransactionPart:
        """For `Transaction.send_offsets`. Internal."""
        self._client.check()
        commits = self._membership("committed offsets belong").commits
        from ..group.transaction_part import GroupPart

        return GroupPart(commits)

    def _membership(self, what: str) -> Membership:
        if self._engine.membership is None:
            raise IllegalStateError(f"{what} to a group: set group_id")
        return self._engine.membership
