"""`DefaultPartitioner` and its hash function, which are the same as in the Java client."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.chance import choice
from .._records.murmur2 import murmur2 as signed_murmur2

__all__ = ["DefaultPartitioner", "murmur2"]


class DefaultPartitioner:
    """Partitioner that hashes the key. Without a key, it chooses a random partition, preferably an available one.

    A producer does not call this class. It chooses the same partitions for records with a key. Records without a key
    stay with a partition until a batch is full.
    """

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None:
            return choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


def murmur2(data: bytes | bytearray) -> int:
    """Return the MurmurHash2 of the Java client as an unsigned 32-bit integer."""
    return signed_murmur2(bytes(data)) & 0xFFFFFFFF
