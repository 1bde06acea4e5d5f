"""Batches as stored by brokers, for the embedded cluster."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from .._values import NamedTuple
from ..errors import CorruptRecordError
from ..types import Header, TimestampType
from . import layout
from .compression import compress
from .encoder import encode_record

_BASE_OFFSET = struct.Struct(">q")
_LEADER_EPOCH = struct.Struct(">i")
_LEADER_EPOCH_AT = 12
_ATTRIBUTES = struct.Struct(">h")
_MAX_TIMESTAMP = struct.Struct(">q")
_MAX_TIMESTAMP_AT = 35


class StoredRecord(NamedTuple):
    """A record for `build_batch`. If ``offset`` is None, it gets the next offset."""

    timestamp_ms: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[Header] = ()
    offset: int | None = None


def build_batch(
    records: Iterable[StoredRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    compression: str = "none",
    compression_level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    transactional: bool = False,
    control: bool = False,
    last_offset_delta: int | None = None,
) -> bytes:
    """Return a batch with any header. Its offsets may have gaps, as after compaction.

    With ``LOG_APPEND_TIME``, readers assign the latest timestamp to every record. ``last_offset_delta`` defaults to the
    last record's delta. It differs from that if compaction has removed records at the end.
    """
    payload = bytearray()
    count = 0
    delta = -1
    first_ms = max_ms = -1
    for record in records:
        delta = delta + 1 if record.offset is None else record.offset - base_offset
        if count == 0:
            first_ms = record.timestamp_ms
        max_ms = max(max_ms, record.timestamp_ms)
        payload += encode_record(delta, record.timestamp_ms - first_ms, record.key, record.value, record.headers)
        count += 1
    attributes = layout.CODEC_IDS[compression]
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= layout.LOG_APPEND_TIME_BIT
    if transactional:
        attributes |= layout.TRANSACTIONAL_BIT
    if control:
        attributes |= layout.CONTROL_BIT
    batch = bytearray(layout.HEADER_SIZE)
    batch += payload if compression == "none" else compress(compression, payload, compression_level)
    layout.write_header(
        batch,
        base_offset,
        leader_epoch,
        attributes,
        max(delta, 0) if last_offset_delta is None else last_offset_delta,
        first_ms,
        max_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    return bytes(batch)


def assign_offsets(
    batch: bytes | memoryview, base_offset: int, leader_epoch: int, *, log_append_time_ms: int | None = None
) -> bytes:
    """Return a producer's batch as stored by a broker, with unchanged records.

    It must be a single, complete batch of format 2.

    The checksum does not cover the offset and the epoch. ``log_append_time_ms`` is for topics whose
    ``message.timestamp.type`` is ``LogAppendTime``. It changes the batch's timestamp type and maximum timestamp, and
    therefore also the checksum.
    """
    if len(batch) < layout.HEADER_SIZE or batch[layout.MAGIC_AT] != 2:
        raise CorruptRecordError("not a record batch of message format 2")
    length: int = layout.HEADER.unpack_from(batch)[1]
    if length != len(batch) - layout.LOG_OVERHEAD:
        raise CorruptRecordError("not exactly one record batch")
    stored = bytearray(batch)
    _BASE_OFFSET.pack_into(stored, 0, base_offset)
    _LEADER_EPOCH.pack_into(stored, _LEADER_EPOCH_AT, leader_epoch)
    if log_append_time_ms is not None:
        attributes: int = _ATTRIBUTES.unpack_from(stored, layout.ATTRIBUTES_AT)[0]
        _ATTRIBUTES.pack_into(stored, layout.ATTRIBUTES_AT, attributes | layout.LOG_APPEND_TIME_BIT)
        _MAX_TIMESTAMP.pack_into(stored, _MAX_TIMESTAMP_AT, log_append_time_ms)
        layout.write_crc(stored)
    return bytes(stored)


def control_batch(
    control_type: layout.ControlType,
    *,
    base_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the marker that ends a transaction (``EndTxnMarker``), which is a batch of a single record."""
    marker = StoredRecord(timestamp_ms, struct.pack(">hh", 0, control_type), struct.pack(">hi", 0, coordinator_epoch))
    return build_batch(
        [marker],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
