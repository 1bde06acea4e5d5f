"""aiokafka's tuples and records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

from .._values import NamedTuple
from ..types import TopicPartition
from .errors import KafkaError

__all__ = [
    "BrokerMetadata",
    "ConsumerRecord",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetadata",
    "RecordMetadata",
    "TopicPartition",
]

K = TypeVar("K")
V = TypeVar("V")


class BrokerMetadata(NamedTuple):
    """Broker in the metadata of the cluster."""

    nodeId: int | str  # noqa: N815 - aiokafka's name
    host: str
    port: int
    rack: str | None


class PartitionMetadata(NamedTuple):
    """Partition in the metadata of the cluster."""

    topic: str
    partition: int
    leader: int
    replicas: list[int]
    isr: list[int]
    error: KafkaError | None


class OffsetAndMetadata(NamedTuple):
    """Committed offset, and the text stored with it."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp of the first record at or after a time."""

    offset: int
    timestamp: int | None


class RecordMetadata(NamedTuple):
    """Position of an acknowledged record. ``timestamp_type`` is 1 if the broker has set the timestamp."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int
    log_start_offset: int | None


@dataclass(eq=False)
class ConsumerRecord(Generic[K, V]):
    """Record that a consumer has read. Sizes are in bytes of the serialized key and value; -1 if there is none."""

    __hash__ = None  # type: ignore[assignment]

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: K | None
    value: V | None
    checksum: int | None
    serialized_key_size: int
    serialized_value_size: int
    headers: Sequence[tuple[str, bytes]]

    def __eq__(self, other: object) -> bool:
        """Return True if all attributes are equal, including attributes of subclasses."""
        if not isinstance(other, ConsumerRecord):
            return NotImplemented
        return all(getattr(self, field.name) == getattr(other, field.name) for field in fields(ConsumerRecord))
