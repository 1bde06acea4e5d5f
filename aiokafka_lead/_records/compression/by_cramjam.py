"""Decompression of lz4 and zstd with cramjam."""

from __future__ import annotations

from collections.abc import Callable

import cramjam

from . import first_step, too_large

ERRORS = (cramjam.DecompressionError, ValueError)

_FULL = "failed to write whole buffer"
"""The message of Rust's standard library if the buffer is too small."""


def decompress_bounded(
    codec: str,
    decompress_into: Callable[[bytes | memoryview, bytearray], int],
    data: bytes | memoryview,
    max_bytes: int,
) -> bytes:
    """Decompress all frames.

    If the buffer is too small, start again with a larger one, because cramjam cannot pause.
    """
    room = first_step(len(data))
    while True:
        # Allow one more byte, to distinguish "too large" from "just fits".
        made = bytearray(min(room, max_bytes + 1))
        try:
            size = decompress_into(data, made)
        except cramjam.DecompressionError as error:
            if _FULL not in str(error):
                raise
            size = max_bytes + 1 if len(made) > max_bytes else -1
        if size > max_bytes:
            raise too_large(codec, max_bytes)
        if size >= 0:
            return bytes(memoryview(made)[:size])
        room *= 4
