"""Compression of record batches, with Java's framing for each codec and with limits on the decompressed size.

Each codec is a module with ``compress(data, level)``, ``decompress(data, max_bytes)``, and the ``ERRORS`` of its
library. It is imported on first use, because importing all codecs takes longer than importing the rest of this package.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Protocol, cast

from ..._values import NamedTuple
from ...errors import BatchTooLargeError, CorruptRecordError

__all__ = ["CODECS", "compress", "compresses_slowly", "decompress"]


class Codec(NamedTuple):
    """A compression codec, with the modules that implement it."""

    implementations: tuple[str, ...]
    """Modules of this package, the fastest first. The first one that can be imported is used.

    The fastest libraries do not support every version of Python.
    """
    is_slow: Callable[[int | None], bool]
    """Returns True for levels that take 7 ns or more per byte. By default, lz4 and zstd take 1 to 2.5 ns."""
    produce_version: int = 0
    """First version of Produce that allows the codec."""


CODECS = {
    "gzip": Codec(("gzip",), lambda level: level != 0),  # level 0 only stores
    "snappy": Codec(("snappy",), lambda _: False),
    "lz4": Codec(("lz4_by_lz4", "lz4_by_cramjam"), lambda level: level is not None and level >= 3),
    "zstd": Codec(
        ("zstd_by_zstandard", "zstd_by_stdlib", "zstd_by_cramjam"),
        lambda level: level is not None and level >= 5,
        produce_version=7,  # KIP-110
    ),
}
"""The codecs by name.

Measured with batches of 4 to 256 KiB (``python -m benchmarks.codecs``): compared with the package lz4, cramjam's lz4
takes 1.03 to 1.13 times the CPU time to compress, and 1.1 to 1.6 times to decompress. Compared with the package
zstandard, Python's own module takes 1.0 to 1.2 and 1.2 to 2.4 times, and cramjam takes 1.1 to 2.2 and 1.8 to 2.6 times.
"""


class _Implementation(Protocol):
    ERRORS: tuple[type[Exception], ...]

    def compress(self, data: bytes | bytearray | memoryview, level: int | None) -> bytes: ...
    def decompress(self, data: bytes | memoryview, max_bytes: int) -> bytes: ...


@cache
def _implementation(name: str) -> _Implementation:
    *faster, last = (f"{__name__}.{module}" for module in CODECS[name].implementations)
    for module in faster:
        try:
            return cast("_Implementation", import_module(module))
        except ImportError:
            continue
    try:
        return cast("_Implementation", import_module(last))
    except ImportError as error:  # if only the Python files have been sent, for example to Spark's executors
        raise ImportError(f"{name} needs the package {error.name} in this Python: {sys.executable}") from error


def compress(codec: str, data: bytes | bytearray | memoryview, level: int | None = None) -> bytes:
    """Compress ``data`` with "gzip", "snappy", "lz4" or "zstd", at a level of that codec.

    None means its default level.
    """
    return _implementation(codec).compress(data, level)


def compresses_slowly(codec: str, level: int | None) -> bool:
    """Return True if batches should be compressed in a thread. ``codec`` may be "none"."""
    return codec in CODECS and CODECS[codec].is_slow(level)


def decompress(codec: str, data: bytes | memoryview, max_bytes: int) -> bytes:
    """Decompress to at most ``max_bytes``. Raises `BatchTooLargeError` or `CorruptRecordError`."""
    module = _implementation(codec)
    try:
        return module.decompress(data, max_bytes)
    except module.ERRORS as error:
        # The module raises `BatchTooLargeError` and `CorruptRecordError` itself, so they are not in ERRORS.
        raise CorruptRecordError(f"a batch compressed with {codec} cannot be decompressed: {error}") from error


_LEAST_STEP = 64 * 1024


def first_step(compressed_size: int) -> int:
    """Return the size of the first output buffer if the total is unknown.

    For a small input, it is far below the limit.
    """
    return max(_LEAST_STEP, 4 * compressed_size)


def too_large(codec: str, max_bytes: int) -> BatchTooLargeError:
    """Return the error for a result that is larger than the reader allows."""
    return BatchTooLargeError(f"the batch, compressed with {codec}, is larger than {max_bytes} bytes when decompressed")


def truncated(codec: str) -> CorruptRecordError:
    """Return the error for data that ends before its end mark."""
    return CorruptRecordError(f"a batch compressed with {codec} ends too early")
