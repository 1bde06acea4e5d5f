"""Compression of record batches: each codec framed as Java writes it, and bounded when read.

Each codec is a module with ``compress(data, level)`` and ``decompress(data, max_bytes)``. Errors of the libraries, and
whatever would grow beyond ``max_bytes``, become `CorruptRecordError`.
"""

from __future__ import annotations

from typing import Protocol

from ...errors import CorruptRecordError
from . import gzip, lz4, snappy, zstd

__all__ = ["compress", "decompress"]


class _Codec(Protocol):
    def compress(self, data: bytes | bytearray | memoryview, level: int | None) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_bytes: int) -> bytes: ...


_CODECS: dict[str, _Codec] = {"gzip": gzip, "snappy": snappy, "lz4": lz4, "zstd": zstd}


def compress(codec: str, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """``data`` in one of "gzip", "snappy", "lz4", "zstd"; ``level`` is the codec's own, None its default.

    Snappy has no levels and ignores it.
    """
    return _CODECS[codec].compress(data, level)


def decompress(codec: str, data: bytes | memoryview, max_bytes: int) -> bytes:
    """The reverse; no more than ``max_bytes`` are ever made."""
    try:
        return _CODECS[codec].decompress(data, max_bytes)
    except CorruptRecordError:
        raise
    except (*gzip.ERRORS, *snappy.ERRORS, *lz4.ERRORS, *zstd.ERRORS) as error:
        raise CorruptRecordError(f"a batch compressed with {codec} cannot be decompressed: {error}") from error
