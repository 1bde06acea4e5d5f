"""Errors that a consumer's reads raise about one position in one partition."""

from __future__ import annotations

from typing import Any

from .base import KafkaError
from .log import CorruptRecordError, OffsetOutOfRangeError

__all__ = [
    "BatchTooLargeError",
    "CorruptBatchError",
    "FetchOffsetOutOfRangeError",
    "LogTruncationError",
    "PartitionReadError",
    "RecordDeserializationError",
]


class PartitionReadError(KafkaError):
    """A partition cannot be read past its position. Seek to continue there; other partitions are not affected."""

    def __init__(
        self, message: str = "", *, topic: str = "", partition: int = -1, offset: int = -1, broker: str | None = None
    ) -> None:
        super().__init__(message, broker=broker)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """The consumer's position in the partition, unchanged by the error."""


class CorruptBatchError(PartitionReadError, CorruptRecordError):
    """The bytes at the position are not a valid record batch."""

    retriable = False


class BatchTooLargeError(PartitionReadError):
    """The record batch at the position is larger than ``max_decompressed_batch_bytes`` when decompressed.

    A consumer with a higher limit can read it. ``next_offset`` is the offset to seek to in order to skip it.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        next_offset: int = -1,
        broker: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, offset=offset, broker=broker)
        self.next_offset = next_offset


class FetchOffsetOutOfRangeError(PartitionReadError, OffsetOutOfRangeError):
    """The position is not within the partition's log, and auto_offset_reset is "none"."""


class LogTruncationError(FetchOffsetOutOfRangeError):
    """Records before the position are no longer part of the log, and auto_offset_reset is "none" (KIP-320).

    Happens after an unclean leader election. ``diverging_offset`` is the first offset at which the log differs from the
    records already read, and ``diverging_epoch`` the leader epoch before it, if the broker knows.
    """

    def __init__(
        self,
        message: str = "",
        *,
        topic: str = "",
        partition: int = -1,
        offset: int = -1,
        diverging_offset: int | None = None,
        diverging_epoch: int | None = None,
        broker: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, offset=offset, broker=broker)
        self.diverging_offset = diverging_offset
        self.diverging_epoch = diverging_epoch


class RecordDeserializationError(PartitionReadError):
    """The application's deserializer raised; its error is the cause (KIP-334).

    ``record`` is the record as bytes, and ``part`` the part that failed: "key" or "value".
    """

    def __init__(self, message: str = "", *, record: Any, part: str) -> None:
        super().__init__(message, topic=record.topic, partition=record.partition, offset=record.offset)
        self.record = record
        self.part = part

    @property
    def lasts(self) -> bool:
        """Return True if retrying is pointless.

        A retry may help if the cause is ``retriable``, or if a schema registry is ``at_fault`` (`SchemaRegistryError`).
        """
        cause = self.__cause__
        return not (getattr(cause, "retriable", False) or getattr(cause, "at_fault", False))
