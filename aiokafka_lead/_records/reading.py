"""Splits the records of a Fetch response into batches."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from ..errors import CorruptRecordError
from .batch import BatchView
from .layout import (
    ATTRIBUTES_AT,
    DEFAULT_MAX_DECOMPRESSED_BYTES,
    HEADER,
    HEADER_SIZE,
    LENGTH_AT,
    LOG_OVERHEAD,
    MAGIC_AT,
    crc32c,
)
from .legacy import MIN_MESSAGE_SIZE, MessageSet, read_message

_LENGTH = struct.Struct(">i")
_MIN_LENGTH = HEADER_SIZE - LOG_OVERHEAD


def read_batches(
    buffer: bytes | memoryview,
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[BatchView]:
    """Yield the batches of `read_parts`, with sets of messages decompressed. That may raise `BatchTooLargeError`."""
    for part in read_parts(buffer, check_crcs=check_crcs, max_decompressed_bytes=max_decompressed_bytes):
        yield part.batch() if isinstance(part, MessageSet) else part


def read_parts(
    buffer: bytes | memoryview,
    *,
    check_crcs: bool = True,
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES,
) -> Iterator[BatchView | MessageSet]:
    """Yield the batches in a Fetch response in order. An incomplete batch at the end is left out (KIP-74).

    Raises `CorruptRecordError` at a batch that is not valid or has a wrong checksum. ``max_decompressed_bytes`` limits
    the decompressed size of a batch, and the memory of its records without their contents. Reading more raises
    `BatchTooLargeError`.
    """
    view = memoryview(buffer).toreadonly().cast("B")
    at = 0
    end = len(view)
    while end - at > MAGIC_AT:
        magic = view[at + MAGIC_AT]
        (length,) = _LENGTH.unpack_from(view, at + LENGTH_AT)
        if magic > 2:
            raise CorruptRecordError(f"a batch has the unknown message format {magic}")
        if length < (_MIN_LENGTH if magic == 2 else MIN_MESSAGE_SIZE):
            raise CorruptRecordError(f"a batch has an invalid length of {length} bytes")
        after = at + LOG_OVERHEAD + length
        if after > end:
            return
        if magic == 2:
            header = HEADER.unpack_from(view, at)
            if check_crcs and header[4] != crc32c(view[at + ATTRIBUTES_AT : after]):
                raise CorruptRecordError(f"the batch at offset {header[0]} does not match its checksum")
            yield BatchView(header, view[at + HEADER_SIZE : after], after - at, max_decompressed_bytes)
        else:
            yield read_message(view[at:after], check_crcs, max_decompressed_bytes)
        at = after
