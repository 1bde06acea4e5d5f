"""An asyncio-native Kafka client: producer, consumer and admin client on asyncio and trio."""

from .types import OffsetAndMetadata, OffsetAndTimestamp, RecordMetadata, TimestampType, TopicPartition

__version__ = "0.1.0"

__all__ = [
    "OffsetAndMetadata",
    "OffsetAndTimestamp",
    "RecordMetadata",
    "TimestampType",
    "TopicPartition",
]
