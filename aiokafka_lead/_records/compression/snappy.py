"""The codec snappy in xerial's framing, as Java writes it. Raw blocks from other clients can also be read."""

from __future__ import annotations

import struct

import cramjam

from ...errors import CorruptRecordError
from . import too_large, truncated

ERRORS = (cramjam.DecompressionError, ValueError)

_MAGIC = b"\x82SNAPPY\x00"
_HEADER = _MAGIC + struct.pack(">ii", 1, 1)
"""Header with version 1, and 1 as the lowest compatible version."""
_BLOCK_SIZE = 32 * 1024
"""Block size in bytes, the default of Java's ``SnappyOutputStream``."""
_MAX_RATIO = 22
"""Largest possible ratio of sizes: in snappy, a copy of 3 bytes produces at most 64 bytes."""


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return blocks of 32 KiB in xerial's framing. snappy has no levels."""
    view = memoryview(data)
    parts: list[bytes] = [_HEADER]
    for at in range(0, len(view), _BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[at : at + _BLOCK_SIZE]))
        parts.append(len(block).to_bytes(4, "big"))
        parts.append(block)
    return b"".join(parts)


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress one or several consecutive xerial streams, or a raw block."""
    view = memoryview(data)
    if view[: len(_MAGIC)] != _MAGIC:
        return _decompress_block(view, max_bytes, max_bytes)
    parts: list[bytes] = []
    size = 0
    at = 0
    end = len(view)
    while at < end:
        if view[at : at + len(_MAGIC)] == _MAGIC:
            at += len(_HEADER)
            if at > end:
                raise truncated("snappy")
            continue
        length = int.from_bytes(view[at : at + 4], "big", signed=True)
        at += 4
        if length < 0 or length > end - at:
            raise truncated("snappy")
        part = _decompress_block(view[at : at + length], max_bytes - size, max_bytes)
        parts.append(part)
        size += len(part)
        at += length
    return b"".join(parts)


def _decompress_block(block: memoryview, room: int, max_bytes: int) -> bytes:
    if not block:
        raise truncated("snappy")
    size = cramjam.snappy.decompress_raw_len(block)
    if size > len(block) * _MAX_RATIO:
        raise CorruptRecordError(f"a snappy block of {len(block)} bytes has an invalid decompressed size of {size}")
    if size > room:
        raise too_large("snappy", max_bytes)
    return bytes(cramjam.snappy.decompress_raw(block))
