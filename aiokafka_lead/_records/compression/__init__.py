"""Compression of record batches: each codec framed as Java writes it, and bounded when read.

Each codec is a module with ``compress(data, level)``, ``decompress(data, max_bytes)`` and the ``ERRORS`` of its
library. It is imported when it is first used: together they take longer than the rest of this package.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Protocol, cast

from ...errors import CorruptRecordError

__all__ = ["compress", "compresses_slowly", "decompress"]

_MODULES = {name: f"{__name__}.{name}" for name in ("gzip", "snappy", "lz4", "zstd")}

_FIRST_SLOW_LEVEL = {"lz4": 3, "zstd": 5}


class _Codec(Protocol):
    ERRORS: tuple[type[Exception], ...]

    def compress(self, data: bytes | bytearray | memoryview, level: int | None) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_bytes: int) -> bytes: ...


@cache
def _codec(name: str) -> _Codec:
    return cast("_Codec", import_module(_MODULES[name]))


def compress(codec: str, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """``data`` in one of "gzip", "snappy", "lz4", "zstd"; ``level`` is the codec's own, None its default.

    Snappy has no levels and ignores it.
    """
    return _codec(codec).compress(data, level)


def compresses_slowly(codec: str, level: int | None) -> bool:
    """Whether a byte takes this codec some 7 ns and more (lz4 and zstd take 1 to 2.5 by default, zstd 900 at most)."""
    if codec == "gzip":
        return level != 0  # which only stores
    return level is not None and codec in _FIRST_SLOW_LEVEL and level >= _FIRST_SLOW_LEVEL[codec]


def decompress(codec: str, data: bytes | memoryview, max_bytes: int) -> bytes:
    """The reverse; no more than ``max_bytes`` are ever made. Raises `BatchTooLargeError` and `CorruptRecordError`."""
    module = _codec(codec)
    try:
        return module.decompress(data, max_bytes)
    except module.ERRORS as error:
        # Those two themselves are none of them.
        raise CorruptRecordError(f"a batch compressed with {codec} cannot be decompressed: {error}") from error
