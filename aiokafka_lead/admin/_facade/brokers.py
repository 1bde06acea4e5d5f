"""Brokers and controllers: log directories, features, the quorum, and what has a configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from ...errors import KafkaError
from ...types import TopicPartition
from .. import _broker_checks as _checks
from .. import _brokers
from ..cluster_types import (
    FeatureDescription,
    FeatureUpdate,
    LogDirDescription,
    QuorumDescription,
    RaftVoterEndpoint,
)
from ..types import ConfigResource, ConfigResourceType
from .base import AdminArea


class BrokerCalls(AdminArea):
    """Brokers and controllers: log directories, features, the quorum, and what has a configuration."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int],
        *,
        partitions: Iterable[TopicPartition] | None = None,
        timeout_ms: float | None = None,
    ) -> dict[int, dict[str, LogDirDescription | KafkaError]]:
        """The log directories of brokers with the replicas in them, by broker and path (KIP-113, KIP-827).

        A directory that has failed is a `KafkaStorageError`. Replicas of all partitions unless some are named. Raises
        `BrokerIdNotRegisteredError`.
        """
        nodes = _checks.BROKERS("brokers", brokers)
        named = _checks.PARTITIONS("partitions", partitions)
        return await _brokers.log_dirs(self._calls, nodes, named, self._calls.deadline(timeout_ms))

    async def alter_replica_log_dirs(
        self, moves: Mapping[tuple[TopicPartition, int], str], *, timeout_ms: float | None = None
    ) -> None:
        """Begin to move replicas, by partition and broker, to other log directories (absolute paths) of their brokers.

        Raises `LogDirNotFoundError` and `BrokerIdNotRegisteredError`.
        """
        wanted = _checks.MOVES("moves", moves)
        await _brokers.move_replicas(self._calls, wanted, self._calls.deadline(timeout_ms))

    async def describe_features(self, *, timeout_ms: float | None = None) -> FeatureDescription:
        """The features that a broker supports, and the levels that all keep to (KIP-584)."""
        return await _brokers.describe_features(self._calls, self._calls.deadline(timeout_ms))

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate],
        *,
        validate_only: bool = False,
        timeout_ms: float | None = None,
    ) -> None:
        """Change levels of features; raises `FeatureUpdateFailedError` and `InvalidUpdateVersionError`."""
        wanted = _checks.UPDATES("updates", updates)
        _checks.boolean("validate_only", validate_only)
        await _brokers.update_features(self._calls, wanted, validate_only, self._calls.deadline(timeout_ms))

    async def describe_metadata_quorum(self, *, timeout_ms: float | None = None) -> QuorumDescription:
        """The controllers' quorum: its leader, and how far each voter and observer is (KIP-836, Kafka 3.3)."""
        return await _brokers.describe_quorum(self._calls, self._calls.deadline(timeout_ms))

    async def add_raft_voter(
        self,
        voter_id: int,
        voter_directory_id: UUID,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Make a controller a voter of the quorum (KIP-853, Kafka 3.9); raises `DuplicateVoterError`."""
        number = _checks.BROKER("voter_id", voter_id)
        directory = _checks.DIRECTORY("voter_directory_id", voter_directory_id)
        where = _checks.ENDPOINTS("endpoints", endpoints)
        await _brokers.add_voter(self._calls, number, directory, where, self._calls.deadline(timeout_ms))

    async def remove_raft_voter(
        self, voter_id: int, voter_directory_id: UUID, *, timeout_ms: float | None = None
    ) -> None:
        """Take a voter out of the quorum (KIP-853, Kafka 3.9); raises `VoterNotFoundError`."""
        number = _checks.BROKER("voter_id", voter_id)
        directory = _checks.DIRECTORY("voter_directory_id", voter_directory_id)
        await _brokers.remove_voter(self._calls, number, directory, self._calls.deadline(timeout_ms))

    async def unregister_broker(self, broker_id: int, *, timeout_ms: float | None = None) -> None:
        """Forget a broker that is gone for good (Kafka 3.7); raises `BrokerIdNotRegisteredError`."""
        number = _checks.BROKER("broker_id", broker_id)
        await _brokers.unregister(self._calls, number, self._calls.deadline(timeout_ms))

    async def unregister_controller(self, controller_id: int, *, timeout_ms: float | None = None) -> None:
        """Forget a controller that is gone for good (Kafka 4.4); raises `ControllerIdNotRegisteredError`."""
        number = _checks.BROKER("controller_id", controller_id)
        await _brokers.unregister_controller(self._calls, number, self._calls.deadline(timeout_ms))

    async def list_config_resources(
        self, types: Iterable[ConfigResourceType] | None = None, *, timeout_ms: float | None = None
    ) -> list[ConfigResource]:
        """What has a configuration of its own, of all types unless some are named (KIP-1142, Kafka 4.1)."""
        kinds = _checks.RESOURCE_TYPES("types", types)
        return await _brokers.config_resources(self._calls, kinds, self._calls.deadline(timeout_ms))

    async def list_client_metrics_resources(self, *, timeout_ms: float | None = None) -> list[str]:
        """The names of subscriptions to clients' metrics (KIP-714, Kafka 3.7)."""
        found = await self.list_config_resources([ConfigResourceType.CLIENT_METRICS], timeout_ms=timeout_ms)
        return [resource.name for resource in found]
