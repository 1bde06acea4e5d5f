"""Immutable values of the public interface."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Literal
from uuid import UUID

from ._values import Frozen, NamedTuple

__all__ = [
    "AcknowledgeType",
    "CompressionType",
    "ConsumerGroupMetadata",
    "Header",
    "Headers",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RebalanceListener",
    "RecordMetadata",
    "SerializationContext",
    "TimestampType",
    "TopicPartition",
]

CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
"""Codecs of record batches, in the order of their numbers in Kafka's record format."""

Header = tuple[str, bytes | None]
"""A record header: its key, and its value, which may be None."""

Headers = tuple[Header, ...]
"""The headers of a record, in the order written. Keys may repeat."""

LATENCY_BOUNDS_MS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 30000.0)
"""Upper bounds of the counts in a `LatencyHistogram`, in milliseconds. The last count has no bound."""


class TopicPartition(NamedTuple):
    """A partition of a topic, identified by the topic's name and the partition's number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class TimestampType(IntEnum):
    """Source of a record's timestamp: the producer or the broker (the topic's ``message.timestamp.type``)."""

    NO_TIMESTAMP = -1
    """There is no timestamp (message format 0)."""
    CREATE_TIME = 0
    """The producer set it when the record was created."""
    LOG_APPEND_TIME = 1
    """The broker set it when it appended the batch."""


class AcknowledgeType(IntEnum):
    """Outcome that an application reports for a record of a share group (KIP-932, KIP-1222)."""

    ACCEPT = 1
    """The record was handled."""
    RELEASE = 2
    """Deliver the record again, to any member of the group, unless it has reached the group's limit of deliveries."""
    REJECT = 3
    """The record cannot be handled and must not be delivered again."""
    RENEW = 4
    """The record is still being handled, so restart its lock. Needs Apache Kafka 4.2."""


class RecordMetadata(NamedTuple):
    """Topic, partition, offset and timestamp of an acknowledged record.

    ``offset`` is -1 if the broker returned none. This happens with ``acks=0``, and for a duplicate whose original the
    broker has forgotten. ``timestamp_ms`` is the record's timestamp in milliseconds since the epoch, or the broker's
    time if the topic has ``message.timestamp.type=LogAppendTime``.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class SerializationContext(NamedTuple):
    """The record to which a key or value belongs, for serializers and deserializers.

        def to_json(order: Order, context: SerializationContext) -> bytes: ...

    The context is passed as the second positional argument, if that parameter has no default or is named ``context``. A
    function of one argument, such as ``json.loads`` or ``str.encode``, receives only the key or value.
    """

    topic: str
    headers: Headers
    """The record's headers, after their check. They cannot be changed here."""
    is_key: bool
    """True for a record's key, False for its value."""


class OffsetAndTimestamp(NamedTuple):
    """Offset and timestamp, as returned by `Consumer.offsets_for_times` and `AdminClient.list_offsets`."""

    offset: int
    timestamp_ms: int
    """Milliseconds since 1970, or -1 if the broker returned no timestamp."""
    leader_epoch: int | None = None
    """Leader epoch of the record, or None if the broker did not report it."""


@dataclass(frozen=True, slots=True)  # not `Frozen`, which is slower: every commit creates one for each partition
class OffsetAndMetadata:
    """A committed position: the offset of the next record to read, and a text from the application."""

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    """Leader epoch of the record before the offset, to detect that the log was truncated (KIP-320). None if unknown."""


class ConsumerGroupMetadata(Frozen):
    """A consumer's membership of its group, sent with the offsets of a transaction (KIP-447).

    The values are from the time of the call of `Consumer.group_metadata`.
    """

    group_id: str
    generation_id: int = -1
    """The generation of the group, or the member epoch under KIP-848. -1 if the consumer is not a member."""
    member_id: str = ""
    group_instance_id: str | None = None
    topic_ids: Mapping[str, UUID] = field(default_factory=dict, compare=False, repr=False)
    """Ids of the topics that the consumer reads, by name. If a topic has been deleted and created again since, a broker
    rejects the offsets (KIP-1319, Kafka 4.4). Without ids, it stores them for the new topic."""


class RebalanceListener:
    """Listener for the partitions that a consumer group assigns to a `Consumer`; see `Consumer.subscribe`.

        class Store(RebalanceListener):
            async def on_partitions_revoked(self, partitions):
                await save(partitions)

    Override the methods that you need, as plain or coroutine functions. The rebalance waits for each of them. A
    coroutine function that takes longer than ``rebalance_timeout_ms`` is cancelled. If a method raises an error or is
    cancelled, the rebalance continues, and the next read raises a `RebalanceListenerError`. Its cause is the error of
    the method.

    A listener may also be any other object with some of these methods. An object with any other method that begins with
    ``on_partition`` is rejected, because its name is probably misspelt.
    """

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called with newly assigned partitions, before their first record is returned. It may call `Consumer.seek`."""

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called with revoked partitions, before the consumer gives them up. It may still commit their positions."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> Awaitable[None] | None:
        """Called with partitions that other members may already own. By default, it calls `on_partitions_revoked`."""
        return self.on_partitions_revoked(partitions)
