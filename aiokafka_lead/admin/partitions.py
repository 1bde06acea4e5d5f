"""Partitions: their leaders, replicas, offsets and records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .._core.admin import outcome, successes
from .._io.admin_requests import Route
from .._io.deadline import Deadline
from .._options.arguments import list_of, map_of, topic_partition
from .._options.checks import INT64_MAX, boolean, instance, integer, optional
from .._wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from .._wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from .._wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from .._wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from .._wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ..errors import KafkaError, UnknownServerError
from ..types import OffsetAndTimestamp, TopicPartition
from .base import PARTITIONS, AdminArea, by_topic, indexes_by_topic


class ElectionType(IntEnum):
    """Replicas that an election may choose as leader."""

    PREFERRED = 0
    """The preferred leader, which is the first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any replica, for a partition without a leader. Records may be lost."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment that is in progress, with ids of brokers (KIP-455)."""

    replicas: tuple[int, ...]
    """All current replicas, including the replicas that are being added or removed."""
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class OffsetSpec(IntEnum):
    """Offsets that can be requested by name, instead of by a time in milliseconds."""

    LATEST = -1
    """End of the partition: the offset after the last record, or with ``read_committed`` the last stable offset."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the highest timestamp (Kafka 3.0)."""
    EARLIEST_LOCAL = -4
    """The first record that is in local storage, not only in tiered storage (Kafka 3.4)."""
    LATEST_TIERED = -5
    """The last record in tiered storage (Kafka 3.9)."""


_ELECTION_NOT_NEEDED = 84
_FIRST_WITH: Mapping[int, int] = {
    OffsetSpec.MAX_TIMESTAMP: 7,
    OffsetSpec.EARLIEST_LOCAL: 8,
    OffsetSpec.LATEST_TIERED: 9,
}
"""First version of ListOffsets with each `OffsetSpec`. In older versions, brokers interpret the number as a time."""
_ENDS = (OffsetSpec.EARLIEST, OffsetSpec.LATEST)
"""The ends of a log, which always exist."""
_ELECTION = instance(ElectionType, "an ElectionType")
_REPLICAS = map_of("TopicPartition to broker ids", topic_partition, optional(list_of("broker ids", integer(0))))
_OFFSETS_AT = map_of("TopicPartition to time or OffsetSpec", topic_partition, integer(-(2**63), INT64_MAX))
_DELETE_BEFORE = map_of("TopicPartition to offset", topic_partition, integer(-1, INT64_MAX))


class PartitionCalls(AdminArea):
    """Admin calls for the leaders, replicas, offsets and records of partitions."""

    async def elect_leaders(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        election_type: ElectionType = ElectionType.PREFERRED,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, bool]:
        """Elect leaders for these partitions (default: all partitions), by default the preferred leaders.

        Returns for each partition True if a new leader was elected, or False if the partition already had the right
        leader. Without ``partitions``, the result omits the partitions that needed no election.
        ``ElectionType.UNCLEAN`` may choose a replica that is not in sync, which loses records.

        Raises `PreferredLeaderNotAvailableError` or `EligibleLeadersNotAvailableError` if no suitable replica is
        available, and `UnknownTopicOrPartitionError` if a partition does not exist. The other elections still take
        place, and the error's ``outcomes`` contain all results.
        """
        named = PARTITIONS("partitions", partitions)
        _ELECTION("election_type", election_type)
        deadline = self._calls.deadline(timeout_ms)
        if named is None:
            request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
            return successes(dict(_elected(await self._calls.call(Route.CONTROLLER, request, deadline))))

        def build(pending: Mapping[TopicPartition, None]) -> ElectLeadersRequest:
            topics = indexes_by_topic(pending, lambda topic, p: TopicPartitions(topic=topic, partitions=p))
            return ElectLeadersRequest(election_type=election_type, topic_partitions=topics)

        return await self._calls.batch(dict.fromkeys(named), Route.CONTROLLER, build, _elected, deadline)

    async def alter_partition_reassignments(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None], *, timeout_ms: float | None = None
    ) -> None:
        """Start to move partitions to other brokers (KIP-455).

            await admin.alter_partition_reassignments({TopicPartition("events", 0): [2, 3, 1]})

        Each value is the complete list of brokers for the replicas, including brokers that already have one. The first
        broker becomes the preferred leader. None cancels a reassignment in progress. The call returns when the
        controller has accepted the changes; `list_partition_reassignments` shows the progress.

        Raises `InvalidReplicaAssignmentError` for an empty list or an unknown or repeated broker,
        `NoReassignmentInProgressError` if there is nothing to cancel, and `UnknownTopicOrPartitionError`. The other
        partitions are still reassigned, and the error's ``outcomes`` map each partition to None or its error.
        """
        wanted = _REPLICAS("replicas", replicas)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[TopicPartition, Sequence[int] | None]) -> AlterPartitionReassignmentsRequest:
            topics = by_topic(
                pending,
                lambda partition, brokers: ReassignablePartition(
                    partition_index=partition, replicas=None if brokers is None else list(brokers)
                ),
                lambda name, partitions: ReassignableTopic(name=name, partitions=partitions),
            )
            return AlterPartitionReassignmentsRequest(topics=topics)

        def read(response: AlterPartitionReassignmentsResponse) -> Iterator[tuple[TopicPartition, KafkaError | None]]:
            for topic in response.responses:
                for entry in topic.partitions:
                    where = TopicPartition(topic.name, entry.partition_index)
                    yield where, outcome(None, entry.error_code, str(where), entry.error_message)

        await self._calls.batch(wanted, Route.CONTROLLER, build, read, deadline)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """Return the reassignments in progress by partition (default: of all partitions).

        The result omits partitions that are not being reassigned or do not exist.
        """
        named = PARTITIONS("partitions", partitions)
        deadline = self._calls.deadline(timeout_ms)
        topics = None
        if named is not None:
            topics = indexes_by_topic(
                named,
                lambda name, p: ListPartitionReassignmentsTopics(name=name, partition_indexes=p),
            )
        response = await self._calls.call(Route.CONTROLLER, ListPartitionReassignmentsRequest(topics=topics), deadline)
        return {
            TopicPartition(topic.name, entry.partition_index): PartitionReassignment(
                tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
            )
            for topic in response.topics
            for entry in topic.partitions
        }

    async def list_offsets(
        self, at: Mapping[TopicPartition, int], *, read_committed: bool = False, timeout_ms: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the requested offset of each partition, with its timestamp and leader epoch.

            await admin.list_offsets({TopicPartition("events", 0): OffsetSpec.LATEST})

        Each value of ``at`` is an `OffsetSpec` or a time in milliseconds since 1970. For a time, the result is the
        first record at or after that time, or None if there is no such record. With ``read_committed``, only records
        before the last stable offset count.

        Raises `UnknownTopicOrPartitionError` if a partition does not exist, and `UnsupportedVersionError` if a leader
        does not support an `OffsetSpec`. The error's ``outcomes`` contain the offsets of the other partitions.
        """
        wanted = _OFFSETS_AT("at", at)
        boolean("read_committed", read_committed)
        return await self._list_offsets(wanted, read_committed, self._calls.deadline(timeout_ms))

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> dict[TopicPartition, int]:
        """Delete the records before an offset of each partition.

            await admin.delete_records({TopicPartition("events", 0): 1000})

        An offset of -1 means the high watermark, so all records are deleted. Returns the first remaining offset of each
        partition.

        Raises `OffsetOutOfRangeError` for an offset above the high watermark, `PolicyViolationError` for a topic that
        is only compacted (``cleanup.policy=compact``), and `UnknownTopicOrPartitionError`. The records of the other
        partitions are still deleted.
        """
        wanted = _DELETE_BEFORE("before", before)
        deadline = self._calls.deadline(timeout_ms)

        def build(pending: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
            topics = by_topic(
                pending,
                lambda partition, offset: DeleteRecordsPartition(partition_index=partition, offset=offset),
                lambda name, partitions: DeleteRecordsTopic(name=name, partitions=partitions),
            )
            return DeleteRecordsRequest(topics=topics)

        def read(response: DeleteRecordsResponse) -> Iterator[tuple[TopicPartition, int | KafkaError]]:
            for topic in response.topics:
                for entry in topic.partitions:
                    where = TopicPartition(topic.name, entry.partition_index)
                    yield where, outcome(entry.low_watermark, entry.error_code, str(where))

        return await self._calls.by_leader(wanted, build, read, deadline)

    async def _list_offsets(
        self, at: Mapping[TopicPartition, int], read_committed: bool, deadline: Deadline
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return offsets by time or `OffsetSpec`. The value is None if there is no such record."""

        def build(pending: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
            topics = by_topic(
                pending,
                lambda partition, when: ListOffsetsPartition(partition_index=partition, timestamp=when),
                lambda name, partitions: ListOffsetsTopic(name=name, partitions=partitions),
            )
            return ListOffsetsRequest(replica_id=-1, isolation_level=int(read_committed), topics=topics)

        def read(
            response: ListOffsetsResponse,
        ) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KafkaError | None]]:
            for topic in response.topics:
                for entry in topic.partitions:
                    where = TopicPartition(topic.name, entry.partition_index)
                    epoch = entry.leader_epoch if entry.leader_epoch >= 0 else None
                    found = OffsetAndTimestamp(entry.offset, entry.timestamp, epoch) if entry.offset >= 0 else None
                    code = entry.error_code
                    if found is None and not code and at.get(where) in _ENDS:
                        code = UnknownServerError.code
                    yield where, outcome(found, code, str(where))

        return await self._calls.by_leader(at, build, read, deadline, _FIRST_WITH.get)


def _elected(response: ElectLeadersResponse) -> Iterator[tuple[TopicPartition, bool | KafkaError]]:
    for topic in response.replica_election_results:
        for entry in topic.partition_result:
            where = TopicPartition(topic.topic, entry.partition_id)
            if entry.error_code == _ELECTION_NOT_NEEDED:
                yield where, False
            else:
                yield where, outcome(True, entry.error_code, str(where), entry.error_message)
