"""Topics: create, delete, list, describe, add partitions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from .._io.deadline import Deadline
from .._wire.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from .._wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from .._wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from .._wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    RequestCursor,
    TopicRequest,
)
from ..errors import KafkaError, UnsupportedVersionError
from ._calls import BY_ANYONE, Calls, Route, failure, outcome, successes
from .types import CreatedTopic, NewPartitions, NewTopic, PartitionDescription, TopicDescription, TopicListing

if TYPE_CHECKING:
    from .._wire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


async def create(
    calls: Calls, topics: Mapping[str, NewTopic], validate_only: bool, deadline: Deadline
) -> dict[str, CreatedTopic]:
    """The created topics by name."""

    def build(pending: Mapping[str, CreatableTopic]) -> CreateTopicsRequest:
        return CreateTopicsRequest(topics=list(pending.values()), validate_only=validate_only)

    def read(response: CreateTopicsResponse) -> Iterator[tuple[str, CreatedTopic | KafkaError]]:
        for entry in response.topics:
            what = f"topic {entry.name!r}"
            yield entry.name, outcome(_created(entry), entry.error_code, what, entry.error_message)

    wanted = {name: _creatable(topic) for name, topic in topics.items()}
    return await calls.batch(wanted, Route.CONTROLLER, build, read, deadline)


def _creatable(topic: NewTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=partition, broker_ids=list(replicas))
            for partition, replicas in topic.replica_assignments.items()
        ],
        configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.topic_configs.items()],
    )


def _created(entry: CreatableTopicResult) -> CreatedTopic:
    return CreatedTopic(
        entry.name,
        entry.topic_id,
        entry.num_partitions,
        entry.replication_factor,
        {config.name: config.value for config in entry.configs or ()},
    )


async def delete(calls: Calls, topics: Iterable[str], deadline: Deadline) -> None:
    """Delete topics by name."""

    def build(pending: Mapping[str, None]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in pending])

    def build_before_topic_ids(pending: Mapping[str, None]) -> DeleteTopicsRequest:
        return DeleteTopicsRequest(topic_names=list(pending))

    def read(response: DeleteTopicsResponse) -> Iterator[tuple[str, KafkaError | None]]:
        for entry in response.responses:
            name = entry.name or ""
            yield name, outcome(None, entry.error_code, f"topic {name!r}", entry.error_message)

    wanted = dict.fromkeys(topics)
    try:
        await calls.batch(wanted, Route.CONTROLLER, build, read, deadline)
    except UnsupportedVersionError:  # below Kafka 2.8
        await calls.batch(wanted, Route.CONTROLLER, build_before_topic_ids, read, deadline)


async def add_partitions(
    calls: Calls, topics: Mapping[str, NewPartitions], validate_only: bool, deadline: Deadline
) -> None:
    """Give topics more partitions."""

    def build(pending: Mapping[str, CreatePartitionsTopic]) -> CreatePartitionsRequest:
        return CreatePartitionsRequest(topics=list(pending.values()), validate_only=validate_only)

    def read(response: CreatePartitionsResponse) -> Iterator[tuple[str, KafkaError | None]]:
        for entry in response.results:
            yield entry.name, outcome(None, entry.error_code, f"topic {entry.name!r}", entry.error_message)

    wanted = {}
    for name, plan in topics.items():
        assignments = plan.assignments
        wanted[name] = CreatePartitionsTopic(
            name=name,
            count=plan.total_count,
            assignments=None
            if assignments is None
            else [CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in assignments],
        )
    await calls.batch(wanted, Route.CONTROLLER, build, read, deadline)


async def list_all(calls: Calls, include_internal: bool, deadline: Deadline) -> dict[str, TopicListing]:
    """Every topic that this user may see."""
    response = await calls.metadata(None, deadline)
    return {
        topic.name: TopicListing(topic.name, topic.topic_id, topic.is_internal)
        for topic in response.topics
        if topic.name is not None and not topic.error_code and (include_internal or not topic.is_internal)
    }


async def describe(calls: Calls, topics: Iterable[str] | None, deadline: Deadline) -> dict[str, TopicDescription]:
    """Topics with their partitions, from Metadata; None describes all."""
    if topics is None:
        response = await calls.metadata(None, deadline)
        return {topic.name: _described(topic) for topic in response.topics if topic.name and not topic.error_code}

    asked: set[int] = set()

    async def ask(pending: Mapping[str, None]) -> dict[str, TopicDescription | KafkaError]:
        # A broker that lags does not know a topic for as long as it lags: each try asks another one.
        answer = await calls.metadata_of_another(pending, asked, deadline)
        return {
            topic.name or "": outcome(_described(topic), topic.error_code, f"topic {topic.name!r}")
            for topic in answer.topics
        }

    return await calls.settle(dict.fromkeys(topics), ask, BY_ANYONE, deadline)


def _described(topic: MetadataResponseTopic) -> TopicDescription:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicDescription(topic.name or "", topic.topic_id, topic.is_internal, tuple(map(_partition, partitions)))


def _partition(
    entry: MetadataResponsePartition | DescribeTopicPartitionsResponsePartition,
    eligible: list[int] | None = None,
    last_known: list[int] | None = None,
) -> PartitionDescription:
    return PartitionDescription(
        entry.partition_index,
        entry.leader_id,
        entry.leader_epoch,
        tuple(entry.replica_nodes),
        tuple(entry.isr_nodes),
        tuple(entry.offline_replicas),
        None if eligible is None else tuple(eligible),
        None if last_known is None else tuple(last_known),
    )


async def describe_by_pages(
    calls: Calls, topics: Iterable[str], page_size: int, deadline: Deadline
) -> AsyncIterator[TopicDescription]:
    """Topics with their partitions from DescribeTopicPartitions: a description for each topic on each page.

    The error of a topic that cannot be described is raised after all others have come.
    """
    wanted = pending = sorted(set(topics))
    refused: dict[str, KafkaError] = {}
    tries = 0
    while pending:
        tries += 1
        names, cursor = pending, None
        for name in pending:
            refused.pop(name, None)
        while names:
            request = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=name) for name in names], response_partition_limit=page_size, cursor=cursor
            )
            response = await calls.call(Route.ANY, request, deadline)
            for topic in response.topics:
                if topic.error_code:
                    refused[topic.name or ""] = failure(topic.error_code, f"topic {topic.name!r}")
                else:
                    yield _page_of(topic)
            following = response.next_cursor
            if following is None:
                break
            names = [name for name in names if name >= following.topic_name]
            cursor = RequestCursor(topic_name=following.topic_name, partition_index=following.partition_index)
        pending = [name for name in pending if name in refused and BY_ANYONE.allows(refused[name], tries)]
        if pending:
            await calls.pause(tries, refused[pending[0]], deadline)
    successes({name: refused.get(name) for name in wanted})


def _page_of(topic: DescribeTopicPartitionsResponseTopic) -> TopicDescription:
    return TopicDescription(
        topic.name or "",
        topic.topic_id,
        topic.is_internal,
        tuple(
            _partition(entry, entry.eligible_leader_replicas or [], entry.last_known_elr or [])
            for entry in topic.partitions
        ),
    )
