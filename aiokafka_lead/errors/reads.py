"""Errors at a consumer's position in a partition, and errors of schemas and schema registries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import KafkaError
from .log import CorruptRecordError, OffsetOutOfRangeError

__all__ = [
    "BatchTooLargeError",
    "CorruptBatchError",
    "FetchOffsetOutOfRangeError",
    "IncompatibleSchemaError",
    "InvalidSchemaError",
    "LogTruncationError",
    "PartitionReadError",
    "RecordDeserializationError",
    "SchemaContentError",
    "SchemaNotFoundError",
    "SchemaNotReadyError",
    "SchemaRegistryAuthenticationError",
    "SchemaRegistryError",
    "SchemaRegistryUnavailableError",
    "SchemaRulesError",
]


class PartitionReadError(KafkaError):
    """The consumer cannot read past its position in a partition.

    ``topic``, ``partition`` and ``offset`` name the position, which this error does not change: without a call of
    `Consumer.seek`, the next read of the partition raises the error again. Each subclass says where to continue. Other
    partitions are not affected.
    """

    def __init__(
        self, message: str = "", *, topic: str = "", partition: int = -1, offset: int = -1, broker: str | None = None
    ) -> None:
        super().__init__(message, broker=broker)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """Position of the consumer in the partition, which the error does not change."""


class _BatchReadError(PartitionReadError):
    """A whole record batch cannot be read."""

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
        """Offset after the batch, or -1 if it is unknown."""


class CorruptBatchError(_BatchReadError, CorruptRecordError):
    """The bytes at the position are not a valid record batch.

    To skip the batch, seek to ``next_offset``. If that is -1, the length of the batch is unknown; seek to a later
    offset.
    """

    retriable = False


class BatchTooLargeError(_BatchReadError):
    """The decompressed size of the record batch at the position exceeds ``max_decompressed_batch_bytes``.

    A consumer with a higher limit can read the batch. To skip it, seek to ``next_offset``.
    """


class FetchOffsetOutOfRangeError(PartitionReadError, OffsetOutOfRangeError):
    """The position is outside the partition's log, and ``auto_offset_reset`` is "none".

    Retention may have deleted the records. Call `Consumer.seek`, `Consumer.seek_to_beginning` or `Consumer.seek_to_end`
    to continue.
    """


class LogTruncationError(FetchOffsetOutOfRangeError):
    """Records before the position are no longer part of the log, and ``auto_offset_reset`` is "none" (KIP-320).

    This happens after an unclean leader election. ``diverging_offset`` is the first offset where the log differs from
    the records already read, or None if it is unknown. Seek to it to continue. ``diverging_epoch`` is the leader epoch
    before that offset, or None if the broker did not return it.
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
    """The application's deserializer raised an error, which is the cause (KIP-334).

        except RecordDeserializationError as error:
            consumer.seek(TopicPartition(error.topic, error.partition), error.offset + 1)  # skips the record

    ``record`` is the record before deserialization, with its key and value as bytes. ``part`` is the part that failed:
    "key" or "value". If the cause is temporary, for example an unreachable schema registry, read again instead of
    skipping.

    With ``on_bad_record="skip"`` or ``"dead_letter"``, the consumer skips the record automatically. A share consumer
    releases the record, unless the application acknowledges ``record``.
    """

    def __init__(self, message: str = "", *, record: Any, part: str) -> None:
        super().__init__(message, topic=record.topic, partition=record.partition, offset=record.offset)
        self.record = record
        self.part = part

    @property
    def lasts(self) -> bool:
        """True if a retry cannot help.

        A retry may help if the cause is ``retriable``, or if it is a `SchemaRegistryError` with ``at_fault``.
        """
        cause = self.__cause__
        return not (getattr(cause, "retriable", False) or getattr(cause, "at_fault", False))


class SchemaRegistryError(KafkaError):
    """The schema registry rejected a request.

    ``status`` is the HTTP status, or None without an HTTP response. ``error_code`` is the registry's code, or None if
    it sent none.
    """

    at_fault: bool = True
    """True if the registry or the network failed. The schema and the record may be valid."""

    def __init__(self, message: str = "", *, status: int | None = None, error_code: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_code = error_code


class SchemaRegistryUnavailableError(SchemaRegistryError):
    """No registry returned a usable response in time. The same call may succeed later."""

    retriable = True


class SchemaRegistryAuthenticationError(SchemaRegistryError):
    """The registry rejected the client's user name and secret, its token, or its certificate."""


class SchemaNotFoundError(SchemaRegistryError):
    """The registry has no such schema, subject or version."""

    at_fault = False


class IncompatibleSchemaError(SchemaRegistryError):
    """The schema is incompatible with earlier versions of its subject, under the subject's compatibility level.

    ``reasons`` are the registry's reasons, if it sent any.
    """

    at_fault = False

    def __init__(
        self,
        message: str = "",
        *,
        status: int | None = None,
        error_code: int | None = None,
        reasons: Sequence[str] = (),
    ) -> None:
        super().__init__(message, status=status, error_code=error_code)
        self.reasons = tuple(reasons)


class InvalidSchemaError(SchemaRegistryError, ValueError):
    """The registry, or this client, rejected the schema as invalid."""

    at_fault = False


class SchemaRulesError(SchemaRegistryError):
    """The schema has rules that this client cannot apply, for example field encryption.

    The records are valid, so `Consumer.run` keeps them waiting, as it does while a registry rejects the client. With
    ``ignore_rules=True``, a `SchemaRegistry` reads and writes values without the rules.
    """


class SchemaNotReadyError(KafkaError, RuntimeError):
    """A serializer or deserializer of a schema registry was called before it had the schema.

    Await it instead, or call `SchemaSerializer.ready` before `Producer.send_nowait`.
    """


class SchemaContentError(KafkaError, ValueError):
    """A value does not fit the schema, or bytes do not match their schema."""

    schema_id: int | str | None = None
    """Id or GUID of the schema that the bytes name."""

    def __init__(self, message: str = "", quoting: str = "") -> None:
        """Create the error. ``quoting`` is appended to the message, and may contain part of the value."""
        super().__init__(f"{message}: {quoting}" if quoting else message)
        self.unquoted = message
        """The message without any part of the value, for logs."""
