"""The codec zstd (RFC 8878) with cramjam. It is used if no faster library is installed."""

from __future__ import annotations

import cramjam

from .by_cramjam import ERRORS as ERRORS
from .by_cramjam import decompress_bounded

_DEFAULT_LEVEL = 3


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one frame that contains its content size."""
    return bytes(cramjam.zstd.compress(data, level=_DEFAULT_LEVEL if level is None else level))


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all frames. The result may have at most ``max_bytes``."""
    return decompress_bounded("zstd", cramjam.zstd.decompress_into, data, max_bytes)
