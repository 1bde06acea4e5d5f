"""Partitions: leader elections, reassignments, offsets, deletion of records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from .._io.deadline import Deadline
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
from ..errors import KafkaError
from ..types import OffsetAndTimestamp, TopicPartition
from ._calls import Calls, Route, outcome
from .types import ElectionType, PartitionReassignment

P = TypeVar("P")
T = TypeVar("T")
V = TypeVar("V")

ELECTION_NOT_NEEDED = 84


def by_topic(
    items: Mapping[TopicPartition, V], partition: Callable[[int, V], P], topic: Callable[[str, list[P]], T]
) -> list[T]:
    """Nest the items of single partitions below their topics, as requests do."""
    nested: dict[str, list[P]] = {}
    for where, item in items.items():
        nested.setdefault(where.topic, []).append(partition(where.partition, item))
    return [topic(name, partitions) for name, partitions in nested.items()]


async def elect_leaders(
    calls: Calls, election_type: ElectionType, partitions: Iterable[TopicPartition] | None, deadline: Deadline
) -> dict[TopicPartition, bool]:
    """Whether each partition got another leader; False where it had the right one already."""
    if partitions is None:
        request = ElectLeadersRequest(election_type=election_type, topic_partitions=None)
        everything = dict(_elected(await calls.call(Route.CONTROLLER, request, deadline)))
        return {where: elected for where, elected in everything.items() if isinstance(elected, bool)}

    def build(pending: Mapping[TopicPartition, None]) -> ElectLeadersRequest:
        topics = by_topic(
            pending, lambda partition, _: partition, lambda topic, p: TopicPartitions(topic=topic, partitions=p)
        )
        return ElectLeadersRequest(election_type=election_type, topic_partitions=topics)

    return await calls.batch(dict.fromkeys(partitions), Route.CONTROLLER, build, _elected, deadline)


def _elected(response: ElectLeadersResponse) -> Iterator[tuple[TopicPartition, bool | KafkaError]]:
    for topic in response.replica_election_results:
        for entry in topic.partition_result:
            where = TopicPartition(topic.topic, entry.partition_id)
            if entry.error_code == ELECTION_NOT_NEEDED:
                yield where, False
            else:
                yield where, outcome(True, entry.error_code, str(where), entry.error_message)


async def reassign(calls: Calls, replicas: Mapping[TopicPartition, Sequence[int] | None], deadline: Deadline) -> None:
    """Begin (or with None cancel) reassignments."""

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

    await calls.batch(replicas, Route.CONTROLLER, build, read, deadline)


async def list_reassignments(
    calls: Calls, partitions: Iterable[TopicPartition] | None, deadline: Deadline
) -> dict[TopicPartition, PartitionReassignment]:
    """Reassignments under way; None asks for all."""
    topics = None
    if partitions is not None:
        topics = by_topic(
            dict.fromkeys(partitions),
            lambda partition, _: partition,
            lambda name, p: ListPartitionReassignmentsTopics(name=name, partition_indexes=p),
        )
    response = await calls.call(Route.CONTROLLER, ListPartitionReassignmentsRequest(topics=topics), deadline)
    return {
        TopicPartition(topic.name, entry.partition_index): PartitionReassignment(
            tuple(entry.replicas), tuple(entry.adding_replicas), tuple(entry.removing_replicas)
        )
        for topic in response.topics
        for entry in topic.partitions
    }


async def list_offsets(
    calls: Calls, at: Mapping[TopicPartition, int], read_committed: bool, deadline: Deadline
) -> dict[TopicPartition, OffsetAndTimestamp | None]:
    """Offsets by time or `OffsetSpec`; None where there is no such record."""

    def build(pending: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
        topics = by_topic(
            pending,
            lambda partition, when: ListOffsetsPartition(partition_index=partition, timestamp=when),
            lambda name, partitions: ListOffsetsTopic(name=name, partitions=partitions),
        )
        return ListOffsetsRequest(replica_id=-1, isolation_level=int(read_committed), topics=topics)

    def read(response: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, OffsetAndTimestamp | KafkaError | None]]:
        for topic in response.topics:
            for entry in topic.partitions:
                where = TopicPartition(topic.name, entry.partition_index)
                epoch = entry.leader_epoch if entry.leader_epoch >= 0 else None
                found = OffsetAndTimestamp(entry.offset, entry.timestamp, epoch) if entry.offset >= 0 else None
                yield where, outcome(found, entry.error_code, str(where))

    return await calls.by_leader(at, build, read, deadline)


async def delete_records(
    calls: Calls, before: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The first offset that each partition still has."""

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

    return await calls.by_leader(before, build, read, deadline)
