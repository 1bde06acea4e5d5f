"""Record batches as stored by a broker: the producer's bytes, with the offset written into them.

Records are decoded only if necessary (`first_record_at`, `without_key`, `outside`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from ... import errors
from ..._records import ConsumerRecord, ControlType, assign_offsets, control_batch, layout, read_batches
from ..._records.compression import CODECS

_MAGIC = 2


class NotOneBatchError(errors.InvalidRecordError):
    """The records of a Produce request are not one valid batch. A broker notices this before it looks up the log."""


class BatchHeader(NamedTuple):
    """The fixed part of a record batch (message format 2, KIP-98)."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & layout.TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & layout.CONTROL_BIT)


class StoredBatch:
    """A batch in the log of a partition."""

    __slots__ = ("base_offset", "data", "header", "last_offset", "leader_epoch", "max_timestamp_ms", "size")

    def __init__(
        self, header: BatchHeader, data: bytes, base_offset: int, leader_epoch: int, max_timestamp_ms: int
    ) -> None:
        # The header from the producer. The attributes below replace its offset, epoch and timestamps.
        self.header = header
        self.data = data
        self.base_offset = base_offset
        self.last_offset = base_offset + header.last_offset_delta
        self.leader_epoch = leader_epoch
        self.max_timestamp_ms = max_timestamp_ms
        self.size = len(data)


def validate(records: memoryview, *, max_bytes: int, produce_version: int) -> BatchHeader:
    """Check, like a broker, that the records of a Produce request are one whole batch of format 2 with a correct CRC.

    Raises the error of the broker's response (Java: ``ProduceRequest.validateRecords``,
    ``LogValidator.validateBatch``).
    """
    size = len(records)
    if size > layout.MAGIC_AT and records[layout.MAGIC_AT] > _MAGIC:
        raise errors.CorruptRecordError(f"record batches of format {records[layout.MAGIC_AT]} do not exist")
    if size < layout.HEADER_SIZE or records[layout.MAGIC_AT] != _MAGIC:
        raise NotOneBatchError("Produce must have exactly one record batch of format 2 for a partition")
    header = BatchHeader._make(layout.HEADER.unpack_from(records))
    if header.batch_length + layout.LOG_OVERHEAD != size:
        raise NotOneBatchError(
            f"the header of the batch says {header.batch_length + layout.LOG_OVERHEAD} bytes, but there are {size}"
        )
    if size > max_bytes:
        raise errors.MessageTooLargeError(f"the batch has {size} bytes, but the topic allows {max_bytes}")
    if crc32c(records[layout.ATTRIBUTES_AT :]) != header.crc:
        raise errors.CorruptRecordError("the batch's CRC does not match its bytes")
    codec = header.attributes & layout.CODEC_MASK
    if codec >= len(layout.CODEC_NAMES):
        # A real broker returns the same error, caused by an unexpected exception.
        raise errors.UnknownServerError(f"compression codec {codec} does not exist")
    name = layout.CODEC_NAMES[codec]
    if name in CODECS and produce_version < CODECS[name].produce_version:
        raise errors.UnsupportedCompressionTypeError(f"{name} needs Produce version {CODECS[name].produce_version}")
    if header.base_offset != 0:
        raise errors.InvalidRecordError(f"the batch of a producer must start at offset 0, not {header.base_offset}")
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise errors.InvalidRecordError(
            f"the batch has {header.record_count} records, but the last offset delta {header.last_offset_delta}"
        )
    if header.is_control:
        raise errors.InvalidRecordError("producers must not write control batches")
    if header.producer_id >= 0 and header.base_sequence < 0:
        raise errors.InvalidRecordError(
            f"invalid sequence number {header.base_sequence} of producer {header.producer_id}"
        )
    return header


def transactional_header(records: memoryview | None) -> BatchHeader | None:
    """Return the header of a batch in a transaction, which has not been validated, or None for other batches."""
    if records is None or len(records) < layout.HEADER_SIZE or records[layout.MAGIC_AT] != _MAGIC:
        return None
    header = BatchHeader._make(layout.HEADER.unpack_from(records))
    return header if header.is_transactional and header.producer_id >= 0 else None


def store(
    records: memoryview, header: BatchHeader, base_offset: int, leader_epoch: int, append_time_ms: int | None
) -> StoredBatch:
    """Return a validated batch with its offset and epoch written into it.

    ``append_time_ms`` is the timestamp for a topic with log-append time, and otherwise None.
    """
    data = assign_offsets(records, base_offset, leader_epoch, log_append_time_ms=append_time_ms)
    max_timestamp_ms = header.max_timestamp_ms if append_time_ms is None else append_time_ms
    return StoredBatch(header, data, base_offset, leader_epoch, max_timestamp_ms)


def marker(
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    *,
    committed: bool,
    coordinator_epoch: int,
) -> StoredBatch:
    """Return the control batch that ends a producer's transaction: a commit marker if ``committed``, else an abort
    marker.
    """
    data = control_batch(
        ControlType.COMMIT if committed else ControlType.ABORT,
        base_offset=base_offset,
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        leader_epoch=leader_epoch,
    )
    return StoredBatch(
        BatchHeader._make(layout.HEADER.unpack_from(data)), data, base_offset, leader_epoch, timestamp_ms
    )


def first_record_at(batch: StoredBatch, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
    """Return the first record at or after a time and an offset, as a pair of offset and timestamp.

    Returns None if the batch has no such record.
    """
    for record in _records(batch.data):
        if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
            return record.offset, record.timestamp_ms
    return None


def without_key(records: memoryview) -> list[int]:
    """Return the indices of the records without a key, which a compacted topic refuses."""
    return [index for index, record in enumerate(_records(records)) if record.key is None]


def outside(records: memoryview, from_ms: int, to_ms: int) -> list[int]:
    """Return the indices of the records with a timestamp before ``from_ms`` or after ``to_ms``.

    Records with the timestamp -1 are ignored.
    """
    times = (record.timestamp_ms for record in _records(records))
    return [index for index, time_ms in enumerate(times) if time_ms != -1 and not from_ms <= time_ms <= to_ms]


def _records(buffer: bytes | memoryview) -> Iterator[ConsumerRecord[bytes | None, bytes | None]]:
    for view in read_batches(buffer, check_crcs=False):
        try:
            yield from view.records("", 0)
        except errors.BatchTooLargeError as error:  # a real broker would allocate the memory, or crash
            raise errors.MessageTooLargeError(error.message) from None
