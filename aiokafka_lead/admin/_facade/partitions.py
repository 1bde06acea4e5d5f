"""Partitions: their leaders, replicas, offsets and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ...types import OffsetAndTimestamp, TopicPartition
from .. import _checks, _partitions
from ..types import ElectionType, PartitionReassignment
from .base import AdminArea


class PartitionCalls(AdminArea):
    """Partitions: their leaders, replicas, offsets and records."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders, of all partitions unless some are named; False where the right one leads already.

        Raises `PreferredLeaderNotAvailableError` and the like for a partition that was named.
        """
        named = _checks.PARTITIONS("partitions", partitions)
        _checks.ELECTION("election_type", election_type)
        deadline = self._calls.deadline(timeout_ms)
        return await _partitions.elect_leaders(self._calls, election_type, named, deadline)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: float | None = None
    ) -> None:
        """Begin to move partitions to other brokers, the first one their preferred leader; None cancels.

        Returns when the cluster has taken the order; `list_partition_reassignments` shows what is under way (KIP-455).
        """
        wanted = _checks.REPLICAS("replicas", replicas)
        await _partitions.reassign(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Reassignments under way, of all partitions unless some are named."""
        named = _checks.PARTITIONS("partitions", partitions)
        return await _partitions.list_reassignments(self._calls, named, self._calls.deadline(timeout_ms))

    async def list_offsets(
        self, at: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Offsets by partition: of the first record at or after a time in milliseconds, or by an `OffsetSpec`.

        None where there is no such record.
        """
        wanted = _checks.OFFSETS_AT("at", at)
        _checks.boolean("read_committed", read_committed)
        return await _partitions.list_offsets(self._calls, wanted, read_committed, self._calls.deadline(timeout_ms))

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset (-1: all); the result is the first offset that is left."""
        wanted = _checks.DELETE_BEFORE("before", before)
        return await _partitions.delete_records(self._calls, wanted, self._calls.deadline(timeout_ms))
