"""The codec gzip (RFC 1952), with Python's module zlib."""

from __future__ import annotations

import zlib

from . import too_large, truncated

ERRORS = (zlib.error,)

_GZIP = 31
_MAGIC = b"\x1f\x8b"


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one gzip member without a name or time."""
    compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _GZIP)
    return compressor.compress(data) + compressor.flush()


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all members, like Java's ``GZIPInputStream``."""
    parts: list[bytes] = []
    size = 0
    rest = bytes(data)
    while True:
        member = zlib.decompressobj(_GZIP)
        # Allow one more byte, to distinguish "too large" from "just fits". 0 would mean no limit.
        part = member.decompress(rest, max_bytes - size + 1)
        size += len(part)
        if size > max_bytes:
            raise too_large("gzip", max_bytes)
        if not member.eof:
            raise truncated("gzip")
        parts.append(part)
        rest = member.unused_data
        if not rest:
            return parts[0] if len(parts) == 1 else b"".join(parts)
