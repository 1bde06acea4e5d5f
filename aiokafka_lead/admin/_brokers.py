"""Log directories, features, the quorum of controllers, and what has a configuration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from uuid import UUID

import anyio

from .._io.deadline import Deadline
from .._wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from .._wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from .._wire.messages.api_versions import ApiVersionsRequest
from .._wire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
)
from .._wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from .._wire.messages.list_config_resources import ListConfigResourcesRequest
from .._wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from .._wire.messages.unregister_broker import UnregisterBrokerRequest
from .._wire.messages.unregister_controller import UnregisterControllerRequest
from .._wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ..errors import KafkaError, raise_for_code
from ..types import TopicPartition
from ._calls import BY_ANYONE, BY_CONTROLLER, Calls, Route, failure, outcome
from ._partitions import by_topic
from .cluster_types import (
    FeatureDescription,
    FeatureUpdate,
    FeatureVersions,
    LogDirDescription,
    QuorumDescription,
    QuorumReplica,
    RaftVoterEndpoint,
    ReplicaInfo,
)
from .types import ConfigResource, ConfigResourceType

_METADATA_LOG = "__cluster_metadata"
_NO_ID = UUID(int=0)
_SOFTWARE = "aiokafka-lead"


async def log_dirs(
    calls: Calls, brokers: Iterable[int], partitions: Collection[TopicPartition] | None, deadline: Deadline
) -> dict[int, dict[str, LogDirDescription | KafkaError]]:
    """The log directories of brokers, by broker and path."""
    topics = None
    if partitions is not None:
        topics = by_topic(
            dict.fromkeys(partitions),
            lambda partition, _: partition,
            lambda name, indexes: DescribableLogDirTopic(topic=name, partitions=indexes),
        )

    async def ask(pending: Mapping[int, None]) -> Mapping[int, dict[str, LogDirDescription | KafkaError] | KafkaError]:
        found: dict[int, dict[str, LogDirDescription | KafkaError] | KafkaError] = {}

        async def ask_one(broker: int) -> None:
            try:
                request = DescribeLogDirsRequest(topics=topics)
                found[broker] = _log_dirs(await calls.once_of_broker(broker, request, deadline))
            except KafkaError as error:
                found[broker] = error

        async with anyio.create_task_group() as asking:
            for broker in pending:
                asking.start_soon(ask_one, broker)
        return found

    return await calls.settle(dict.fromkeys(brokers), ask, BY_ANYONE, deadline)


def _log_dirs(response: DescribeLogDirsResponse) -> dict[str, LogDirDescription | KafkaError]:
    return {each.log_dir: outcome(_log_dir(each), each.error_code, each.log_dir) for each in response.results}


def _log_dir(found: DescribeLogDirsResult) -> LogDirDescription:
    return LogDirDescription(
        {
            TopicPartition(topic.name, each.partition_index): ReplicaInfo(
                each.partition_size, each.offset_lag, each.is_future_key
            )
            for topic in found.topics
            for each in topic.partitions
        },
        found.total_bytes if found.total_bytes >= 0 else None,
        found.usable_bytes if found.usable_bytes >= 0 else None,
        found.is_cordoned,
    )


async def move_replicas(calls: Calls, moves: Mapping[tuple[TopicPartition, int], str], deadline: Deadline) -> None:
    """Move replicas to other log directories of their brokers."""

    async def ask(
        pending: Mapping[tuple[TopicPartition, int], str],
    ) -> Mapping[tuple[TopicPartition, int], KafkaError | None]:
        found: dict[tuple[TopicPartition, int], KafkaError | None] = {}
        by_broker: dict[int, dict[str, dict[TopicPartition, None]]] = {}
        for (where, broker), path in pending.items():
            by_broker.setdefault(broker, {}).setdefault(path, {})[where] = None

        async def ask_one(broker: int, paths: Mapping[str, Mapping[TopicPartition, None]]) -> None:
            dirs = [
                AlterReplicaLogDir(
                    path=path,
                    topics=by_topic(
                        mine,
                        lambda partition, _: partition,
                        lambda name, indexes: AlterReplicaLogDirTopic(name=name, partitions=indexes),
                    ),
                )
                for path, mine in paths.items()
            ]
            try:
                response = await calls.once_of_broker(broker, AlterReplicaLogDirsRequest(dirs=dirs), deadline)
            except KafkaError as error:
                found.update(dict.fromkeys(((where, broker) for mine in paths.values() for where in mine), error))
                return
            for topic in response.results:
                for each in topic.partitions:
                    where = TopicPartition(topic.topic_name, each.partition_index)
                    found[where, broker] = outcome(None, each.error_code, f"{where} on broker {broker}")

        async with anyio.create_task_group() as asking:
            for broker, paths in by_broker.items():
                asking.start_soon(ask_one, broker, paths)
        return found

    await calls.settle(moves, ask, BY_ANYONE, deadline)


async def describe_features(calls: Calls, deadline: Deadline) -> FeatureDescription:
    """What a broker can do, and what all keep to."""
    request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1")
    response = await calls.call(Route.ANY, request, deadline)
    epoch = response.finalized_features_epoch
    return FeatureDescription(
        {each.name: FeatureVersions(each.min_version, each.max_version) for each in response.supported_features},
        {each.name: each.max_version_level for each in response.finalized_features},
        epoch if epoch >= 0 else None,
    )


async def update_features(
    calls: Calls, updates: Mapping[str, FeatureUpdate], validate_only: bool, deadline: Deadline
) -> None:
    """Change levels of features: all of them or none from Kafka 4.0."""

    async def ask(pending: Mapping[str, FeatureUpdate]) -> Mapping[str, KafkaError | None]:
        wanted = [
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=direction)
            for name, (level, direction) in pending.items()
        ]
        request = UpdateFeaturesRequest(feature_updates=wanted, validate_only=validate_only)
        response = await calls.call(Route.CONTROLLER, request, deadline)
        found = dict.fromkeys(pending, None) | {
            each.feature: outcome(None, each.error_code, f"feature {each.feature!r}", each.error_message)
            for each in response.results
        }
        return {name: found[name] for name in pending}

    await calls.settle(updates, ask, BY_CONTROLLER, deadline)


async def describe_quorum(calls: Calls, deadline: Deadline) -> QuorumDescription:
    """The controllers, and how far each one is."""
    topic = RequestTopicData(topic_name=_METADATA_LOG, partitions=[RequestPartitionData(partition_index=0)])
    response = await calls.call(Route.CONTROLLER, DescribeQuorumRequest(topics=[topic]), deadline)
    for named in response.topics:
        for found in named.partitions:
            if found.error_code:
                raise failure(found.error_code, "the metadata quorum", found.error_message)
            return QuorumDescription(
                found.leader_id,
                found.leader_epoch,
                found.high_watermark,
                tuple(map(_replica, found.current_voters)),
                tuple(map(_replica, found.observers)),
                {
                    node.node_id: tuple(RaftVoterEndpoint(at.name, at.host, at.port) for at in node.listeners)
                    for node in response.nodes
                },
            )
    raise KafkaError("the broker's answer does not speak of the metadata quorum")


def _replica(state: ReplicaState) -> QuorumReplica:
    fetched, caught_up = state.last_fetch_timestamp, state.last_caught_up_timestamp
    return QuorumReplica(
        state.replica_id,
        None if state.replica_directory_id == _NO_ID else state.replica_directory_id,
        state.log_end_offset,
        fetched if fetched >= 0 else None,
        caught_up if caught_up >= 0 else None,
    )


async def add_voter(
    calls: Calls, voter_id: int, directory_id: UUID, endpoints: Iterable[RaftVoterEndpoint], deadline: Deadline
) -> None:
    """Make a controller a voter."""
    listeners = [Listener(name=at.listener, host=at.host, port=at.port) for at in endpoints]
    request = AddRaftVoterRequest(voter_id=voter_id, voter_directory_id=directory_id, listeners=listeners)
    request.cluster_id = None
    await calls.call(Route.CONTROLLER, request, deadline)


async def remove_voter(calls: Calls, voter_id: int, directory_id: UUID, deadline: Deadline) -> None:
    """Make a controller a voter no more."""
    request = RemoveRaftVoterRequest(voter_id=voter_id, voter_directory_id=directory_id)
    request.cluster_id = None
    await calls.call(Route.CONTROLLER, request, deadline)


async def unregister(calls: Calls, broker_id: int, deadline: Deadline) -> None:
    """Forget a broker that is gone for good."""
    response = await calls.call(Route.CONTROLLER, UnregisterBrokerRequest(broker_id=broker_id), deadline)
    raise_for_code(response.error_code, response.error_message or "")


async def unregister_controller(calls: Calls, controller_id: int, deadline: Deadline) -> None:
    """Forget a controller that is gone for good."""
    request = UnregisterControllerRequest(controller_id=controller_id)
    response = await calls.call(Route.CONTROLLER, request, deadline)
    raise_for_code(response.error_code, response.error_message or "")


async def config_resources(
    calls: Calls, types: Collection[ConfigResourceType] | None, deadline: Deadline
) -> list[ConfigResource]:
    """What has a configuration of its own."""
    # Before Kafka 4.1 the API listed client metrics alone, and had no filter.
    only_metrics = types is not None and set(types) == {ConfigResourceType.CLIENT_METRICS}
    request = ListConfigResourcesRequest(resource_types=[] if only_metrics else [int(each) for each in types or ()])
    response = await calls.call(Route.ANY, request, deadline)
    wanted = set(ConfigResourceType) if types is None else set(types)
    return [
        ConfigResource(ConfigResourceType(each.resource_type), each.resource_name)
        for each in response.config_resources
        if each.resource_type in wanted
    ]
