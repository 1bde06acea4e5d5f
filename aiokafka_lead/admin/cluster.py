"""The cluster: its brokers, its features, and its controller quorum."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any
from uuid import UUID

from .._core.admin import BY_CONTROLLER, failure, outcome
from .._io.admin_requests import Route
from .._options.arguments import list_of, map_of
from .._options.checks import INT16_MAX, boolean, instance, integer, short_text
from .._values import NamedTuple
from .._wire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from .._wire.messages.api_versions import ApiVersionsRequest
from .._wire.messages.describe_cluster import DescribeClusterRequest
from .._wire.messages.describe_quorum import DescribeQuorumRequest, ReplicaState, RequestPartitionData, RequestTopicData
from .._wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from .._wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ..errors import KafkaError, UnsupportedVersionError
from .base import AdminArea


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker and its address."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False
    """True if the broker is registered but not in service."""


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The id of the cluster, and its brokers in the order of their ids."""

    cluster_id: str | None
    controller_id: int
    """Id of the broker that accepts requests for the controller, or -1 if there is none."""
    brokers: tuple[BrokerDescription, ...]


class FeatureVersions(NamedTuple):
    """The lowest and the highest supported level of a feature."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The features of the cluster (KIP-584), by name."""

    supported: Mapping[str, FeatureVersions]
    """Levels that the described broker supports."""
    finalized: Mapping[str, int]
    """Levels that all brokers currently use."""
    finalized_epoch: int | None
    """Number that increases with each change of ``finalized``; None if the broker does not report it."""


class FeatureUpgradeType(IntEnum):
    """Direction in which a feature level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Downgrade only if no metadata is lost."""
    UNSAFE_DOWNGRADE = 3
    """Downgrade even if metadata is lost."""


class FeatureUpdate(NamedTuple):
    """The new level of a feature. Level 0 disables the feature."""

    max_version_level: int
    """Level that all brokers use after the update."""
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A controller or broker that replicates the metadata log."""

    replica_id: int
    directory_id: UUID | None
    """Id of the log directory; None before Kafka 3.9."""
    log_end_offset: int
    """Offset after the last record of the metadata log on this replica."""
    last_fetch_ms: int | None
    """Time of the replica's last fetch, in milliseconds since 1970 by the leader's clock. None if unknown."""
    last_caught_up_ms: int | None
    """Time at which the replica had last caught up with the leader, in the same unit. None if unknown."""


class RaftVoterEndpoint(NamedTuple):
    """Address of a controller, with the name of its listener."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The controller quorum: its leader, its voters and its observers (KIP-595, KIP-836)."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    """Offset up to which the metadata log is committed."""
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftVoterEndpoint, ...]]
    """Addresses of each voter by its id. Empty before Kafka 3.9."""


_METADATA_LOG = "__cluster_metadata"
_NO_ID = UUID(int=0)
_SOFTWARE = "aiokafka-lead"
_ID = integer(0)
_DIRECTORY = instance(UUID, "a UUID")


def _endpoint(name: str, value: Any) -> RaftVoterEndpoint:
    at: RaftVoterEndpoint = instance(RaftVoterEndpoint, "a RaftVoterEndpoint")(name, value)
    short_text(f"{name}.listener", at.listener)
    short_text(f"{name}.host", at.host)
    integer(1, 65_535)(f"{name}.port", at.port)
    return at


def _update(name: str, value: Any) -> FeatureUpdate:
    wanted: FeatureUpdate = instance(FeatureUpdate, "a FeatureUpdate")(name, value)
    integer(0, INT16_MAX)(f"{name}.max_version_level", wanted.max_version_level)
    instance(FeatureUpgradeType, "a FeatureUpgradeType")(f"{name}.upgrade_type", wanted.upgrade_type)
    return wanted


_ENDPOINTS = list_of("RaftVoterEndpoint", _endpoint)
_UPDATES = map_of("feature to FeatureUpdate", short_text, _update)


class ClusterCalls(AdminArea):
    """Admin calls for the cluster: its brokers, features and controller quorum."""

    async def describe_cluster(
        self, *, include_fenced_brokers: bool = False, timeout_ms: float | None = None
    ) -> ClusterDescription:
        """Return the id, the brokers and the controller of the cluster.

        With ``include_fenced_brokers``, the result also contains brokers that are registered but not in service. If the
        brokers are older than Kafka 4.0, this raises `UnsupportedVersionError`.
        """
        boolean("include_fenced_brokers", include_fenced_brokers)
        deadline = self._calls.deadline(timeout_ms)
        try:
            answer = await self._calls.call(
                Route.ANY, DescribeClusterRequest(include_fenced_brokers=include_fenced_brokers), deadline
            )
        except UnsupportedVersionError:
            if include_fenced_brokers:
                raise
        else:
            brokers = [BrokerDescription(b.broker_id, b.host, b.port, b.rack, b.is_fenced) for b in answer.brokers]
            return ClusterDescription(answer.cluster_id, answer.controller_id, _in_order(brokers))
        metadata = await self._calls.metadata([], deadline)
        listed = [BrokerDescription(b.node_id, b.host, b.port, b.rack) for b in metadata.brokers]
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, _in_order(listed))

    async def describe_features(
        self, *, broker_id: int | None = None, timeout_ms: float | None = None
    ) -> FeatureDescription:
        """Return the features that a broker supports, and the levels that all brokers use (KIP-584).

        The request goes to ``broker_id`` (default: any broker). If that broker is down, the call waits for it until
        ``timeout_ms`` has passed. Raises `BrokerIdNotRegisteredError`, without waiting, if no broker has the id.
        """
        number = None if broker_id is None else _ID("broker_id", broker_id)
        deadline = self._calls.deadline(timeout_ms)
        request = ApiVersionsRequest(client_software_name=_SOFTWARE, client_software_version="1")
        response = await self._calls.call(Route.ANY if number is None else number, request, deadline)
        epoch = response.finalized_features_epoch
        return FeatureDescription(
            {each.name: FeatureVersions(each.min_version, each.max_version) for each in response.supported_features},
            {each.name: each.max_version_level for each in response.finalized_features},
            epoch if epoch >= 0 else None,
        )

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change the levels of features (KIP-584).

            await admin.update_features({"transaction.version": FeatureUpdate(2)})

        With ``validate_only``, the controller checks the changes without making them. Raises
        `InvalidUpdateVersionError` if a broker does not support the level or the update does not allow the direction,
        and `FeatureUpdateFailedError` if the controller could not make the change.
        """
        wanted = _UPDATES("updates", updates)
        boolean("validate_only", validate_only)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(pending: Mapping[str, FeatureUpdate]) -> Mapping[str, KafkaError | None]:
            changes = [
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=direction)
                for name, (level, direction) in pending.items()
            ]
            request = UpdateFeaturesRequest(feature_updates=changes, validate_only=validate_only)
            response = await self._calls.call(Route.CONTROLLER, request, deadline)
            found = dict.fromkeys(pending, None) | {
                each.feature: outcome(None, each.error_code, f"feature {each.feature!r}", each.error_message)
                for each in response.results
            }
            return {name: found[name] for name in pending}

        await self._calls.settle(wanted, ask, BY_CONTROLLER, deadline)

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> QuorumDescription:
        """Return the controller quorum: its leader, and the position of each replica (KIP-836, Kafka 3.3).

        Positions are offsets in the metadata log. A replica that lags far behind the leader is not healthy. Raises
        `UnsupportedVersionError` if the cluster is older than Kafka 3.3 or uses ZooKeeper.
        """
        deadline = self._calls.deadline(timeout_ms)
        topic = RequestTopicData(topic_name=_METADATA_LOG, partitions=[RequestPartitionData(partition_index=0)])
        response = await self._calls.call(Route.CONTROLLER, DescribeQuorumRequest(topics=[topic]), deadline)
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
        raise KafkaError("the broker's response does not describe the metadata quorum")

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Add a controller to the voters of the quorum (KIP-853, Kafka 3.9).

        ``voter_directory_id`` is the ``directory.id`` in the ``meta.properties`` file of the controller, and
        ``endpoints`` are the addresses of its listeners. The controller must already follow the quorum as an observer.

        Raises `DuplicateVoterError` if the controller is already a voter, and `UnsupportedVersionError` if the quorum
        has a fixed list of voters.
        """
        number = _ID("voter_id", voter_id)
        directory = _DIRECTORY("voter_directory_id", voter_directory_id)
        where = _ENDPOINTS("endpoints", endpoints)
        deadline = self._calls.deadline(timeout_ms)
        listeners = [Listener(name=at.listener, host=at.host, port=at.port) for at in where]
        request = AddRaftVoterRequest(voter_id=number, voter_directory_id=directory, listeners=listeners)
        request.cluster_id = None
        await self._calls.call(Route.CONTROLLER, request, deadline)

    async def remove_raft_voter(
        self, voter_id: int, voter_directory_id: UUID, *, timeout_ms: float | None = None
    ) -> None:
        """Remove a controller from the voters of the quorum (KIP-853, Kafka 3.9).

        ``voter_directory_id`` is the ``directory.id`` of the controller, which `describe_metadata_quorum` returns.
        Raises `VoterNotFoundError` if no voter has this id and this directory.
        """
        number = _ID("voter_id", voter_id)
        directory = _DIRECTORY("voter_directory_id", voter_directory_id)
        deadline = self._calls.deadline(timeout_ms)
        request = RemoveRaftVoterRequest(voter_id=number, voter_directory_id=directory)
        request.cluster_id = None
        await self._calls.call(Route.CONTROLLER, request, deadline)


def _in_order(brokers: list[BrokerDescription]) -> tuple[BrokerDescription, ...]:
    return tuple(sorted(brokers, key=lambda broker: broker.node_id))


def _replica(state: ReplicaState) -> QuorumReplica:
    fetched, caught_up = state.last_fetch_timestamp, state.last_caught_up_timestamp
    return QuorumReplica(
        state.replica_id,
        None if state.replica_directory_id == _NO_ID else state.replica_directory_id,
        state.log_end_offset,
        fetched if fetched >= 0 else None,
        caught_up if caught_up >= 0 else None,
    )
