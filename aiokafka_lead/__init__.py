"""Kafka client for asyncio and trio: producers, consumers, share consumers and an admin client.

    async with Producer("localhost:9092") as producer:
        await producer.send_and_wait("events", b"hello")

Each client is imported when it is first used, so a service that only produces does not load consumers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._options.version import __version__ as __version__
from .types import (
    AcknowledgeType,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RebalanceListener,
    RecordMetadata,
    SerializationContext,
    TimestampType,
    TopicPartition,
)

if TYPE_CHECKING:
    from ._accel import ACCELERATED
    from ._core.consumer.record_batch import RecordBatch
    from ._core.group.assignors import GroupAssignor, MemberSubscription, TopicPartitions
    from ._core.producer.delivery import Delivery, DeliveryBatch
    from ._core.run.failures import DEAD_LETTER_HEADERS
    from ._core.run.later import RETRY_HEADERS
    from ._core.share.record import ShareRecord
    from ._io.share.acknowledging import Acknowledgement
    from ._records.record import ConsumerRecord
    from .admin import AdminClient
    from .client import Client
    from .config import AdminOptions, ClientOptions, ConsumerOptions, ProducerOptions
    from .config.run import RunOptions, ShareRunOptions
    from .config.share import ShareConsumerOptions
    from .consumer import Consumer
    from .handlers import Handlers
    from .health import ClientHealth, ConsumerHealth, ConsumerLag, ProducerHealth, TransactionHealth
    from .metrics import (
        ConsumerMetrics,
        ConsumerTopicMetrics,
        LatencyHistogram,
        MetadataMetrics,
        PartitionMetrics,
        ProducerMetrics,
        ProducerTopicMetrics,
        ShareConsumerMetrics,
        ShareTopicMetrics,
    )
    from .producer import Producer
    from .producer.pipeline import TransactionPipeline
    from .producer.transaction import Transaction
    from .share import ShareConsumer

__all__ = [
    "ACCELERATED",
    "DEAD_LETTER_HEADERS",
    "RETRY_HEADERS",
    "AcknowledgeType",
    "Acknowledgement",
    "AdminClient",
    "AdminOptions",
    "Client",
    "ClientHealth",
    "ClientOptions",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerLag",
    "ConsumerMetrics",
    "ConsumerOptions",
    "ConsumerRecord",
    "ConsumerTopicMetrics",
    "Delivery",
    "DeliveryBatch",
    "GroupAssignor",
    "Handlers",
    "LatencyHistogram",
    "MemberSubscription",
    "MetadataMetrics",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetrics",
    "Producer",
    "ProducerHealth",
    "ProducerMetrics",
    "ProducerOptions",
    "ProducerTopicMetrics",
    "RebalanceListener",
    "RecordBatch",
    "RecordMetadata",
    "RunOptions",
    "SerializationContext",
    "ShareConsumer",
    "ShareConsumerMetrics",
    "ShareConsumerOptions",
    "ShareRecord",
    "ShareRunOptions",
    "ShareTopicMetrics",
    "TimestampType",
    "TopicPartition",
    "TopicPartitions",
    "Transaction",
    "TransactionHealth",
    "TransactionPipeline",
]

_HOMES = {
    "ACCELERATED": "_accel",
    "DEAD_LETTER_HEADERS": "_core.run.failures",
    "Acknowledgement": "_io.share.acknowledging",
    "AdminClient": "admin",
    "AdminOptions": "config.options",
    "Client": "client",
    "ClientHealth": "health",
    "ClientOptions": "config.options",
    "Consumer": "consumer",
    "ConsumerMetrics": "metrics",
    "ConsumerHealth": "health",
    "ConsumerLag": "health",
    "ConsumerOptions": "config.options",
    "ConsumerRecord": "_records.record",
    "ConsumerTopicMetrics": "metrics",
    "Delivery": "_core.producer.delivery",
    "DeliveryBatch": "_core.producer.delivery",
    "GroupAssignor": "_core.group.assignors",
    "Handlers": "handlers",
    "LatencyHistogram": "metrics",
    "MemberSubscription": "_core.group.assignors",
    "MetadataMetrics": "metrics",
    "PartitionMetrics": "metrics",
    "Producer": "producer",
    "ProducerMetrics": "metrics",
    "ProducerHealth": "health",
    "ProducerOptions": "config.options",
    "ProducerTopicMetrics": "metrics",
    "RETRY_HEADERS": "_core.run.later",
    "RecordBatch": "_core.consumer.record_batch",
    "RunOptions": "config.run",
    "ShareConsumer": "share",
    "ShareConsumerMetrics": "metrics",
    "ShareConsumerOptions": "config.share",
    "ShareRecord": "_core.share.record",
    "ShareRunOptions": "config.run",
    "ShareTopicMetrics": "metrics",
    "TopicPartitions": "_core.group.assignors",
    "Transaction": "producer.transaction",
    "TransactionHealth": "health",
    "TransactionPipeline": "producer.pipeline",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _HOMES.keys())
