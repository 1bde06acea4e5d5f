"""The codec lz4 with cramjam. It is used if the package lz4 is not installed."""

from __future__ import annotations

import cramjam

from .by_cramjam import ERRORS as ERRORS
from .by_cramjam import decompress_bounded

BLOCK_SIZE = 64 * 1024
HEADER = b"\x04\x22\x4d\x18\x60\x40\x82"
"""A frame's header as Java writes it.

Version 1, independent blocks of `BLOCK_SIZE`, no content size, and no checksum except the header's.
"""
_FIRST_HIGH_LEVEL = 3
"""Level from which on lz4 uses its "high compression" mode. Levels below 0 trade size for speed."""
_STORED_BIT = 0x80000000
_END = bytes(4)


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one frame without content size and checksums.

    Frames made by cramjam would have a checksum for each block.
    """
    level = 0 if level is None else level
    view = memoryview(data)
    parts: list[bytes | memoryview] = [HEADER]
    for at in range(0, len(view), BLOCK_SIZE):
        plain = view[at : at + BLOCK_SIZE]
        block = _compress_block(plain, level)
        if len(block) < len(plain):
            parts += [len(block).to_bytes(4, "little"), block]
        else:
            parts += [(len(plain) | _STORED_BIT).to_bytes(4, "little"), plain]
    parts.append(_END)
    return b"".join(parts)


def _compress_block(plain: memoryview, level: int) -> bytes:
    if level >= _FIRST_HIGH_LEVEL:
        made = cramjam.lz4.compress_block(plain, mode="high_compression", compression=level, store_size=False)
    else:
        made = cramjam.lz4.compress_block(plain, mode="fast", acceleration=1 - min(level, 0), store_size=False)
    return bytes(made)


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all frames. The result may have at most ``max_bytes``."""
    return decompress_bounded("lz4", cramjam.lz4.decompress_into, data, max_bytes)
