"""What the admin client takes and returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import NamedTuple
from uuid import UUID

from ..types import TopicPartition

__all__ = [
    "BrokerDescription",
    "ClusterDescription",
    "ConfigChange",
    "ConfigEntry",
    "ConfigOperation",
    "ConfigResource",
    "ConfigResourceType",
    "ConfigSource",
    "CreatedTopic",
    "ElectionType",
    "FencedProducer",
    "HangingTransaction",
    "NewPartitions",
    "NewTopic",
    "OffsetSpec",
    "PartitionDescription",
    "PartitionReassignment",
    "ProducerState",
    "TopicDescription",
    "TopicListing",
    "TransactionDescription",
    "TransactionListing",
    "TransactionState",
]


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create.

    ``num_partitions`` and ``replication_factor`` are the cluster's own defaults where they are -1.
    ``replica_assignments`` names the brokers of each partition instead, the first one its preferred leader; the other
    two must be left out then.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    replica_assignments: Mapping[int, Sequence[int]] = field(default_factory=dict)
    topic_configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created; what the cluster does not say (below Kafka 2.4) is -1 or empty."""

    name: str
    topic_id: UUID
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    """How many partitions a topic shall have in all, and optionally the brokers of each new one."""

    total_count: int
    assignments: Sequence[Sequence[int]] | None = None


class TopicListing(NamedTuple):
    """A topic's name and id."""

    name: str
    topic_id: UUID
    is_internal: bool


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition's leader and replicas. ``leader_id`` is -1 while it has none."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Replicas outside of the ISR that may lead without loss (KIP-966); None where the cluster did not say."""
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic with its partitions, in the order of their numbers."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionDescription, ...]


@dataclass(frozen=True, slots=True)
class BrokerDescription:
    """A broker and where it listens. A fenced one is registered but not in service."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool = False


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster's id, brokers, and the one that takes requests for the controller (-1 if there is none)."""

    cluster_id: str | None
    controller_id: int
    brokers: tuple[BrokerDescription, ...]


class ElectionType(IntEnum):
    """Which replica may be elected."""

    PREFERRED = 0
    """The first replica of the assignment, if it is in sync."""
    UNCLEAN = 1
    """Any replica, for a partition without leader: records may be lost."""


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ConfigResourceType(IntEnum):
    """What a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """A topic, a broker by its id ("" for the default of all brokers), or another owner of a configuration."""

    type: ConfigResourceType
    name: str


class ConfigSource(IntEnum):
    """Where a configuration's value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A configuration's value; None for a sensitive one, or one that has none."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    is_sensitive: bool

    @property
    def is_default(self) -> bool:
        """Whether it has never been set."""
        return self.source is ConfigSource.DEFAULT_CONFIG


class ConfigOperation(IntEnum):
    """What to do with a configuration (KIP-339)."""

    SET = 0
    DELETE = 1
    """Back to the default."""
    APPEND = 2
    """Add to a list."""
    SUBTRACT = 3
    """Take from a list."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A change of one configuration; ``value`` is None only for `ConfigOperation.DELETE`."""

    name: str
    value: str | None
    operation: ConfigOperation = ConfigOperation.SET


class OffsetSpec(IntEnum):
    """Offsets to ask for by name; a time in milliseconds asks for the first record at or after it."""

    LATEST = -1
    """The end: the offset after the last record (of the last stable one under ``read_committed``)."""
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    """The record with the highest timestamp (Kafka 3.0)."""
    EARLIEST_LOCAL = -4
    """The first record that is not only in tiered storage (Kafka 3.4)."""
    LATEST_TIERED = -5
    """The last record in tiered storage (Kafka 3.9)."""


class TransactionState(StrEnum):
    """How a transactional id is, as its coordinator knows it."""

    EMPTY = "Empty"
    """No transaction since the producer began."""
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    """Decided; the markers are being written."""
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"
    DEAD = "Dead"
    """It has expired."""
    UNKNOWN = "Unknown"
    """A state that this client does not know."""

    @classmethod
    def _missing_(cls, value: object) -> TransactionState:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id, and the broker that coordinates it."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """A transactional id with its transaction, open or the last one."""

    transactional_id: str
    state: TransactionState
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    """When the transaction began, in milliseconds since 1970; None where there was none."""
    partitions: frozenset[TopicPartition]
    """What is part of the open transaction; while it ends, what has no marker yet."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ProducerState:
    """What a partition's leader knows of an idempotent or transactional producer that wrote to it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    """-1 where it has written nothing in this epoch."""
    last_timestamp_ms: int
    coordinator_epoch: int | None
    """Of the coordinator that last ended a transaction of the producer here; None before the first."""
    transaction_start_offset: int | None
    """Where its open transaction begins; None without one."""


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """A transaction that is open in a partition though no coordinator will end it (KIP-664).

    Consumers of committed records cannot read past it. `AdminClient.abort_transaction` ends it.
    """

    partition: TopicPartition
    producer: ProducerState
    start_offset: int


class FencedProducer(NamedTuple):
    """The producer id and epoch that a transactional id has since its producers were fenced."""

    producer_id: int
    producer_epoch: int
