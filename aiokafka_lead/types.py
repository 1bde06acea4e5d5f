"""Frozen values that cross the public interface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal, NamedTuple
from uuid import UUID

__all__ = [
    "AcknowledgeType",
    "CompressionType",
    "ConsumerGroupMetadata",
    "Header",
    "Headers",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "SerializationContext",
    "TimestampType",
    "TopicPartition",
]

CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""Codecs of record batches, in the order of their numbers in Kafka's format."""

Header = tuple[str, bytes | None]
"""A record header: its key, and its value or None."""

Headers = tuple[Header, ...]
"""A record's headers in the order in which they were written; keys may repeat."""


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TimestampType(IntEnum):
    """What set a record's timestamp: the producer or the broker (the topic's ``message.timestamp.type``)."""

    NO_TIMESTAMP = -1
    """Message format 0 had none."""
    CREATE_TIME = 0
    """The producer, when the record was created."""
    LOG_APPEND_TIME = 1
    """The broker, when it appended the batch."""


class AcknowledgeType(IntEnum):
    """What becomes of a record of a share group (KIP-932, KIP-1222)."""

    ACCEPT = 1
    """It was handled."""
    RELEASE = 2
    """It is to be delivered again, to any member, unless it was delivered as often as the group allows."""
    REJECT = 3
    """It cannot be handled, and is not to be delivered again."""
    RENEW = 4
    """It is still being handled: its lock begins anew. Needs Apache Kafka 4.2."""


class RecordMetadata(NamedTuple):
    """Where an acknowledged record is.

    ``offset`` is -1 where the broker gave none (``acks=0``, or a duplicate that the broker no longer remembers).
    ``timestamp_ms`` is the record's own time, or the broker's on a topic with log-append time.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class SerializationContext(NamedTuple):
    """What a serializer or deserializer that asks for it learns of the record beside the key or value.

    It asks by a second parameter, which is given by position: one without a default, or one called ``context``.

        def to_json(order: Order, context: SerializationContext) -> bytes: ...

    What takes one argument alone, like ``json.loads`` or ``str.encode``, is called with that.
    """

    topic: str
    headers: Headers
    """The record's headers, checked; they cannot be changed here."""
    is_key: bool
    """Whether it is the key that is made or read; else it is the value."""


class OffsetAndTimestamp(NamedTuple):
    """An answer of `Consumer.offsets_for_times`: the first record at or after the time asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetAndMetadata:
    """A committed position: the offset of the next record to read, and what the application stored beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class ConsumerGroupMetadata:
    """A consumer's membership at one moment: offsets that a transaction commits carry it (KIP-447)."""

    group_id: str
    generation_id: int = -1
    """The generation, or the member epoch under KIP-848; -1 while it is no member."""
    member_id: str = ""
    group_instance_id: str | None = None
    topic_ids: Mapping[str, UUID] = field(default_factory=dict, compare=False, repr=False)
    """Ids of the topics that the consumer reads, by name. With them a broker refuses offsets of a topic that has been
    deleted and made again since (KIP-1319, Kafka 4.4); without, the new topic gets them."""
