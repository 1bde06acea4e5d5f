"""An asyncio-native Kafka client: producer, consumer and admin client on asyncio and trio.

Each client is imported when it is first named, so that a service that only produces does not pay for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._options.version import __version__ as __version__
from .types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    SerializationContext,
    TimestampType,
    TopicPartition,
)

if TYPE_CHECKING:
    from ._accel import ACCELERATED
    from ._core.consumer.health import ConsumerHealth, ConsumerLag
    from ._core.consumer.metrics import ConsumerMetrics, PartitionMetrics
    from ._core.consumer.record_batch import RecordBatch
    from ._core.group.assignors import GroupAssignor, MemberSubscription, TopicPartitions
    from ._core.metadata.metrics import MetadataMetrics
    from ._core.producer.delivery import Delivery, DeliveryBatch
    from ._core.producer.metrics import ProducerMetrics
    from ._core.run.dead_letter import DEAD_LETTER_HEADERS
    from ._core.run.options import RunOptions
    from ._core.transactions.state import TransactionHealth
    from ._io.transactions.calls import Transaction
    from ._records.record import ConsumerRecord
    from .admin import AdminClient
    from .config import AdminOptions, ConsumerOptions, ProducerOptions
    from .consumer import Consumer
    from .producer import Producer

__all__ = [
    "ACCELERATED",
    "DEAD_LETTER_HEADERS",
    "AdminClient",
    "AdminOptions",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerHealth",
    "ConsumerLag",
    "ConsumerMetrics",
    "ConsumerOptions",
    "ConsumerRecord",
    "Delivery",
    "DeliveryBatch",
    "GroupAssignor",
    "MemberSubscription",
    "MetadataMetrics",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "PartitionMetrics",
    "Producer",
    "ProducerMetrics",
    "ProducerOptions",
    "RecordBatch",
    "RecordMetadata",
    "RunOptions",
    "SerializationContext",
    "TimestampType",
    "TopicPartition",
    "TopicPartitions",
    "Transaction",
    "TransactionHealth",
]

_HOMES = {
    "ACCELERATED": "_accel",
    "DEAD_LETTER_HEADERS": "_core.run.dead_letter",
    "AdminClient": "admin",
    "AdminOptions": "config",
    "Consumer": "consumer",
    "ConsumerHealth": "_core.consumer.health",
    "ConsumerLag": "_core.consumer.health",
    "ConsumerMetrics": "_core.consumer.metrics",
    "ConsumerOptions": "config",
    "ConsumerRecord": "_records.record",
    "Delivery": "_core.producer.delivery",
    "DeliveryBatch": "_core.producer.delivery",
    "GroupAssignor": "_core.group.assignors",
    "MemberSubscription": "_core.group.assignors",
    "MetadataMetrics": "_core.metadata.metrics",
    "PartitionMetrics": "_core.consumer.metrics",
    "Producer": "producer",
    "ProducerMetrics": "_core.producer.metrics",
    "ProducerOptions": "config",
    "RecordBatch": "_core.consumer.record_batch",
    "RunOptions": "_core.run.options",
    "TopicPartitions": "_core.group.assignors",
    "Transaction": "_io.transactions.calls",
    "TransactionHealth": "_core.transactions.state",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _HOMES.keys())
