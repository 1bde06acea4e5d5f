"""`DefaultPartitioner`, and its hash function, the same as in the Java client."""

from __future__ import annotations

from collections.abc import Sequence

from .._core.chance import choice
from .._records.murmur2 import murmur2 as signed_murmur2

__all__ = ["DefaultPartitioner", "murmur2"]


class DefaultPartitioner:
    """Partitions by hash of the key. Without a key, returns a random available partition, or any if none is available.

    A producer with this class chooses partitions itself. Records with a key go to the partition that this class would
    choose; records without a key stay with a partition until a batch is full.
    """

    def __call__(self, key: bytes | None, all_partitions: Sequence[int], available: Sequence[int]) -> int:
        if key is None:
            return choice(available or all_partitions)
        return all_partitions[(murmur2(key) & 0x7FFFFFFF) % len(all_partitions)]


def murmur2(data: bytes | bytearray) -> int:
    """Return Kafka's MurmurHash2 as an unsigned 32-bit number."""
    return signed_murmur2(bytes(data)) & 0xFFFFFFFF
