"""The hash function by which Java's producer assigns keys to partitions."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SIGN = 0x80000000
_RANGE = 0x100000000


def murmur2(key: bytes) -> int:
    """Return the 32-bit murmur2 hash of a key as a signed number, like Java's ``Utils.murmur2``.

    The partition of a key is ``(murmur2(key) & 0x7fffffff) % partitions``.
    """
    data = key
    length = len(key)
    h = (_SEED ^ length) & _MASK
    at = 0
    whole = length & ~3
    while at < whole:
        k = data[at] | (data[at + 1] << 8) | (data[at + 2] << 16) | (data[at + 3] << 24)
        k = (k * _M) & _MASK
        k ^= k >> 24
        k = (k * _M) & _MASK
        h = ((h * _M) & _MASK) ^ k
        at += 4
    rest = length - whole
    if rest:
        if rest == 3:
            h ^= data[at + 2] << 16
        if rest >= 2:
            h ^= data[at + 1] << 8
        h ^= data[at]
        h = (h * _M) & _MASK
    h ^= h >> 13
    h = (h * _M) & _MASK
    h ^= h >> 15
    return h - _RANGE if h >= _SIGN else h
