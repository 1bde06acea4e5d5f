"""An asyncio-native Kafka client: producer, consumer and admin client on asyncio and trio.

Each client is imported when it is first named, so that a service that only produces does not pay for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .types import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    RecordMetadata,
    TimestampType,
    TopicPartition,
)

if TYPE_CHECKING:
    from ._accel import ACCELERATED
    from ._core.consumer.record_batch import RecordBatch
    from ._core.group.assignors import GroupAssignor, MemberSubscription, TopicPartitions
    from ._core.producer.delivery import Delivery
    from ._records.record import ConsumerRecord
    from .admin import AdminClient
    from .consumer import Consumer
    from .producer import Producer

__version__ = "0.1.0"

__all__ = [
    "ACCELERATED",
    "AdminClient",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerRecord",
    "Delivery",
    "GroupAssignor",
    "MemberSubscription",
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "Producer",
    "RecordBatch",
    "RecordMetadata",
    "TimestampType",
    "TopicPartition",
    "TopicPartitions",
]

_HOMES = {
    "ACCELERATED": "_accel",
    "AdminClient": "admin",
    "Consumer": "consumer",
    "ConsumerRecord": "_records.record",
    "Delivery": "_core.producer.delivery",
    "GroupAssignor": "_core.group.assignors",
    "MemberSubscription": "_core.group.assignors",
    "Producer": "producer",
    "RecordBatch": "_core.consumer.record_batch",
    "TopicPartitions": "_core.group.assignors",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _HOMES.keys())
