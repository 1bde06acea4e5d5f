"""The hash by which Java's producer maps keys to partitions."""

from __future__ import annotations

__all__ = ["murmur2"]


def murmur2(key: bytes) -> int:
    """Java's ``Utils.murmur2``: 32 bits, signed. A key's partition is ``(murmur2(key) & 0x7fffffff) % partitions``."""
    data = key
    length = len(key)
    h = (0x9747B28C ^ length) & 0xFFFFFFFF
    at = 0
    whole = length & ~3
    while at < whole:
        k = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)
        k = (k * 0x5BD1E995) & 0xFFFFFFFF
        k ^= k >> 24
        k = (k * 0x5BD1E995) & 0xFFFFFFFF
        h = ((h * 0x5BD1E995) & 0xFFFFFFFF) ^ k
        at += 4
    rest = length - whole
    if rest:
        if rest == 3:
            h ^= data[at + 2] << 16
        if rest >= 2:
            h ^= data[at + 1] << 8
        h ^= data[at]
        h = (h * 0x5BD1E995) & 0xFFFFFFFF
    h ^= h >> 13
    h = (h * 0x5BD1E995) & 0xFFFFFFFF
    h ^= h >> 15
    return h - 0x100000000 if h >= 0x80000000 else h
