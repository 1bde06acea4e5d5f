"""The codec zstd (RFC 8878) with the package zstandard. It is used if that package is installed."""

from __future__ import annotations

import threading

import zstandard

from . import first_step, too_large

ERRORS = (zstandard.ZstdError, ValueError)

_DEFAULT_LEVEL = 3
_MAX_WINDOW_BYTES = 128 * 1024 * 1024
"""libzstd's default limit in bytes. Java's highest level needs 8 MiB."""
_KEPT_BYTES = 16 * 1024 * 1024
"""A decompressor that has more memory than this, because of a large window, is not used again."""


class _Contexts(threading.local):
    """The compressors and the decompressor of each thread. If threads shared them, the process would crash."""

    def __init__(self) -> None:
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        self.decompressor: zstandard.ZstdDecompressor | None = None


_contexts = _Contexts()


def compress(data: bytes | bytearray | memoryview, level: int | None) -> bytes:
    """Return one frame that contains its content size."""
    level = _DEFAULT_LEVEL if level is None else level
    compressor = _contexts.compressors.get(level)
    if compressor is None:
        compressor = _contexts.compressors[level] = zstandard.ZstdCompressor(level=level)
    return compressor.compress(data)


def decompress(data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress all frames. Java's frames do not contain their content size.

    If the last frame is truncated, the result contains its content up to there, and decoding the records finds that
    they end early.
    """
    size = zstandard.frame_content_size(data)
    if size > max_bytes:
        raise too_large("zstd", max_bytes)
    parts: list[bytes] = []
    made = 0
    step = first_step(len(data))
    wanted = step if size < 0 else size + 1
    decompressor = _contexts.decompressor
    if decompressor is None:
        decompressor = _contexts.decompressor = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW_BYTES)
    try:
        with decompressor.stream_reader(data, read_across_frames=True) as reader:
            # Allow one more byte, to distinguish "too large" from "just fits".
            while part := reader.read(min(wanted, max_bytes - made + 1)):
                made += len(part)
                if made > max_bytes:
                    raise too_large("zstd", max_bytes)
                parts.append(part)
                wanted = step
    finally:
        if decompressor.memory_size() > _KEPT_BYTES:
            _contexts.decompressor = None
    return parts[0] if len(parts) == 1 else b"".join(parts)
