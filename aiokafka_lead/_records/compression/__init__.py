"""Compression of record batches: each codec framed as Java writes it, and bounded when read.

Each codec is a module with ``compress(data, level)``, ``decompress(data, max_bytes)`` and the ``ERRORS`` of its
library. It is imported on first use: together they take longer than the rest of this package. There are several for lz4
and zstd, because their fastest libraries do not support every Python: the first that can be imported is used.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from ...errors import CorruptRecordError

__all__ = ["compress", "compresses_slowly", "decompress"]

IMPLEMENTATIONS = {
    "gzip": ("gzip",),
    "snappy": ("snappy",),
    "lz4": ("lz4_by_lz4", "lz4_by_cramjam"),
    "zstd": ("zstd_by_zstandard", "zstd_by_stdlib", "zstd_by_cramjam"),
}
"""The fastest first, by ``python -m benchmarks.codecs``: for batches of 4 to 256 KiB, cramjam takes 1.03 to 1.13 times
the CPU of the package lz4 to compress, 1.1 to 1.6 times to decompress; Python's own zstd takes 1.0 to 1.2 times as much
as zstandard, and 1.2 to 2.4 times; cramjam's takes 1.1 to 2.2 times, and 1.8 to 2.6 times."""

_FIRST_SLOW_LEVEL = {"lz4": 3, "zstd": 5}


class _Codec(Protocol):
    ERRORS: tuple[type[Exception], ...]

    def compress(self, data: bytes | bytearray | memoryview, level: int | None) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_bytes: int) -> bytes: ...


@cache
def _codec(name: str) -> _Codec:
    *faster, last = (f"{__name__}.{module}" for module in IMPLEMENTATIONS[name])
    for module in faster:
        try:
            return cast("_Codec", import_module(module))
        except ImportError:
            continue
    try:
        return cast("_Codec", import_module(last))
    except ImportError as error:  # if only Python files were sent, as to Spark's executors
        raise ImportError(f"{name} needs the package {error.name} in this Python: {sys.executable}") from error


def compress(codec: str, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress ``data`` with "gzip", "snappy", "lz4" or "zstd"; ``level`` is the codec's own, None its default."""
    return _codec(codec).compress(data, level)


def compresses_slowly(codec: str, level: int | None) -> bool:
    """Return True if the codec takes 7 ns or more per byte (lz4 and zstd take 1 to 2.5 ns by default)."""
    if codec == "gzip":
        return level != 0  # which only stores
    return level is not None and codec in _FIRST_SLOW_LEVEL and level >= _FIRST_SLOW_LEVEL[codec]


def decompress(codec: str, data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress at most ``max_bytes``. Raises `BatchTooLargeError` and `CorruptRecordError`."""
    module = _codec(codec)
    try:
        return module.decompress(data, max_bytes)
    except module.ERRORS as error:
        # Neither of these two is itself in ERRORS.
        raise CorruptRecordError(f"a batch compressed with {codec} cannot be decompressed: {error}") from error
