"""A fetch answer's bytes into batches."""

from __future__ import annotations

from collections.abc import Iterator

from crc32c import crc32c

from ..errors import CorruptRecordError
from ..types import TimestampType
from .batch import BatchView
from .layout import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CODEC_NAMES,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    HEADER,
    HEADER_SIZE,
    INT64_MAX,
    LENGTH_AT,
    LOG_APPEND_TIME_BIT,
    LOG_OVERHEAD,
    MAGIC_AT,
)
from .legacy import MIN_MESSAGE_SIZE, read_message

__all__ = ["read_batches"]


def read_batches(
    buffer: bytes | memoryview,
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[BatchView]:
    """The batches in a fetch answer's bytes, in order; an incomplete one at the end is left out (KIP-74).

    Raises `CorruptRecordError` when it comes to a batch that is none, or whose checksum does not match.
    ``max_decompressed_bytes`` bounds what one batch may grow to; beyond it reading its records raises the same.
    """
    view = memoryview(buffer).toreadonly().cast("B")
    at = 0
    end = len(view)
    while end - at > MAGIC_AT:
        length = int.from_bytes(view[at + LENGTH_AT : at + LOG_OVERHEAD], "big", signed=True)
        magic = view[at + MAGIC_AT]
        if magic > 2:
            raise CorruptRecordError(f"a batch has the unknown message format {magic}")
        if length < (HEADER_SIZE - LOG_OVERHEAD if magic == 2 else MIN_MESSAGE_SIZE):
            raise CorruptRecordError(f"a batch announces a length of {length} bytes")
        total = LOG_OVERHEAD + length
        if total > end - at:
            return
        batch = view[at : at + total]
        at += total
        if magic == 2:
            yield _read_batch(batch, check_crcs, max_decompressed_bytes)
        else:
            yield read_message(batch, check_crcs, max_decompressed_bytes)


def _read_batch(batch: memoryview, check_crcs: bool, max_decompressed_bytes: int) -> BatchView:
    (
        base_offset, _, leader_epoch, _, crc, attributes, last_offset_delta, base_timestamp, max_timestamp,
        producer_id, producer_epoch, base_sequence, record_count,
    ) = HEADER.unpack_from(batch)  # fmt: skip
    if check_crcs and crc != crc32c(batch[ATTRIBUTES_AT:]):
        raise CorruptRecordError(f"the batch at offset {base_offset} does not match its checksum")
    if base_offset < 0 or last_offset_delta < 0 or base_offset > INT64_MAX - 1 - last_offset_delta:
        raise CorruptRecordError(f"a batch has impossible offsets: {base_offset} and {last_offset_delta} more")
    if record_count < 0 or record_count > last_offset_delta + 1:
        raise CorruptRecordError(f"the batch at offset {base_offset} announces {record_count} records")
    if attributes & CODEC_MASK >= len(CODEC_NAMES):
        raise CorruptRecordError(f"the batch at offset {base_offset} has an unknown compression codec")
    return BatchView(
        batch[HEADER_SIZE:],
        base_offset=base_offset,
        last_offset_delta=last_offset_delta,
        base_timestamp_ms=base_timestamp,
        max_timestamp_ms=max_timestamp,
        record_count=record_count,
        size_bytes=len(batch),
        attributes=attributes,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if attributes & LOG_APPEND_TIME_BIT else TimestampType.CREATE_TIME
        ),
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        compressed=attributes & CODEC_MASK != 0,
        max_decompressed_bytes=max_decompressed_bytes,
    )
