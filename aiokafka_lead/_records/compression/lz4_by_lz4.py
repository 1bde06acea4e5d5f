"""The codec lz4 with the package lz4. It is used if that package is installed."""

from __future__ import annotations

import lz4.frame

from . import first_step, too_large, truncated

ERRORS = (RuntimeError, ValueError)


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one frame without content size and checksums."""
    compressed: bytes = lz4.frame.compress(
        data,
        compression_level=0 if level is None else level,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
    )
    return compressed


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress one frame. The result may have at most ``max_bytes``."""
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size = 0
    step = first_step(len(data))
    rest: bytes | memoryview = data
    while not frame.eof:
        # Allow one more byte, to distinguish "too large" from "just fits".
        part = frame.decompress(rest, max_length=min(step, max_bytes - size + 1))
        size += len(part)
        if size > max_bytes:
            raise too_large("lz4", max_bytes)
        if not frame.eof and frame.needs_input:
            raise truncated("lz4")
        parts.append(part)
        rest = b""
    return parts[0] if len(parts) == 1 else b"".join(parts)
