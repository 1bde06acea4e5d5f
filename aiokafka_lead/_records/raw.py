"""Bytes as the codec's hot loops see them: Python's own here, raw memory in compiled modules.

A compiled module takes the functions of the same names from ``raw.pxd`` instead; this file is what the same source
means without a compiler. Positions and lengths are checked by the callers.
"""

from __future__ import annotations


def readable(data: bytes | memoryview) -> bytes:
    """What the decoder indexes and slices; slices are bytes."""
    return bytes(data)


def copy(target: bytearray, at: int, source: bytes, length: int) -> None:
    """Write all ``length`` bytes of ``source`` at ``at``."""
    target[at : at + length] = source
