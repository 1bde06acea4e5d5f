"""The codec zstd (RFC 8878) with Python's own module, available from 3.14 on, or with its backport."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from . import first_step, too_large, truncated

if TYPE_CHECKING:
    from backports import zstd
else:
    try:
        from compression import zstd
    except ImportError:
        from backports import zstd

ERRORS = (zstd.ZstdError, ValueError)

_DEFAULT_LEVEL = 3


class _Compressors(threading.local):
    """The compressors of each thread, by level. Creating one takes longer than compressing a small batch."""

    def __init__(self) -> None:
        self.by_level: dict[int, zstd.ZstdCompressor] = {}


_compressors = _Compressors()


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one frame that contains its content size."""
    level = _DEFAULT_LEVEL if level is None else level
    # If a compressor fails within a frame, it is not used again.
    compressor = _compressors.by_level.pop(level, None) or zstd.ZstdCompressor(level)
    compressed = compressor.compress(data, zstd.ZstdCompressor.FLUSH_FRAME)
    _compressors.by_level[level] = compressor
    return compressed


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all frames. Java's frames do not contain their content size."""
    view = memoryview(data)
    parts: list[bytes] = []
    made = 0
    step = first_step(len(view))
    while True:
        end = zstd.get_frame_size(view)
        size = cast("int | None", zstd.get_frame_info(view).decompressed_size)  # the stubs omit the None
        if size is not None and size > max_bytes - made:
            raise too_large("zstd", max_bytes)
        wanted = step if size is None else size + 1
        frame = zstd.ZstdDecompressor()
        rest: bytes | memoryview = view[:end]
        while True:
            # Allow one more byte, to distinguish "too large" from "just fits".
            part = frame.decompress(rest, min(wanted, max_bytes - made + 1))
            made += len(part)
            if made > max_bytes:
                raise too_large("zstd", max_bytes)
            parts.append(part)
            if frame.eof:
                break
            if not part:
                raise truncated("zstd")
            rest = b""
        view = view[end:]
        if not view:
            return parts[0] if len(parts) == 1 else b"".join(parts)
