"""Log directories, features and the controllers' quorum, as the admin client takes and returns them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from ..types import TopicPartition

__all__ = [
    "FeatureDescription",
    "FeatureUpdate",
    "FeatureUpgradeType",
    "FeatureVersions",
    "LogDirDescription",
    "QuorumDescription",
    "QuorumReplica",
    "RaftVoterEndpoint",
    "ReplicaInfo",
]


class ReplicaInfo(NamedTuple):
    """A replica in a log directory."""

    size: int
    """In bytes."""
    offset_lag: int
    """Records that it lacks: of the high watermark, or of the current replica while it moves between directories."""
    is_future: bool
    """Whether it is being moved here (KIP-113)."""


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A broker's log directory."""

    replicas: Mapping[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    """Of the volume; None below Kafka 3.3."""
    usable_bytes: int | None
    is_cordoned: bool
    """Whether no new replica is placed here (KIP-1066, Kafka 4.3)."""


class FeatureVersions(NamedTuple):
    """The lowest and highest level."""

    min_version: int
    max_version: int


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """The features of the cluster (KIP-584)."""

    supported: Mapping[str, FeatureVersions]
    """What the broker that was asked can do."""
    finalized: Mapping[str, int]
    """The level that all brokers keep to."""
    finalized_epoch: int | None
    """Rises with each change; None where there is none."""


class FeatureUpgradeType(IntEnum):
    """In which direction a level may change."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    """Down, where nothing is lost."""
    UNSAFE_DOWNGRADE = 3
    """Down, even where metadata is lost."""


class FeatureUpdate(NamedTuple):
    """The level that a feature shall have; 0 switches it off."""

    max_version_level: int
    upgrade_type: FeatureUpgradeType = FeatureUpgradeType.UPGRADE


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A controller or broker that follows the metadata log."""

    replica_id: int
    directory_id: UUID | None
    """None below Kafka 3.9."""
    log_end_offset: int
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


class RaftVoterEndpoint(NamedTuple):
    """Where a controller listens."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class QuorumDescription:
    """The quorum of controllers (KIP-595, KIP-836)."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: Mapping[int, tuple[RaftVoterEndpoint, ...]]
    """Where each voter listens; empty below Kafka 3.9."""
