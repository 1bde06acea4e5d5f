"""Limits the size of a micro-batch. Pure: time is an argument, decisions are results."""

from __future__ import annotations

from collections.abc import Mapping

from ...types import TopicPartition
from .ranges import OffsetRange

__all__ = ["capped", "samples", "waits"]

SAMPLED_PARTITIONS, SAMPLED_OFFSETS = 4, 100


def capped(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Return ends with at most ``limit`` offsets in total, distributed in proportion to the available ones.

    Every partition gets a share if the limit allows that; otherwise they take turns, so that none starves. Partitions
    that ``starts`` lacks keep their end.
    """
    sizes = {tp: end - starts[tp] for tp, end in sorted(ends.items()) if tp in starts and end > starts[tp]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    if limit < len(sizes):
        # The offsets read so far advance by the limit with each batch, and the turns with them.
        first = sum(starts[tp] for tp in sizes) % len(sizes)
        turns = [*sizes][first:] + [*sizes][:first]
        shares = {tp: int(at < limit) for at, tp in enumerate(turns)}
    else:
        rest = limit - len(sizes)
        spare = total - len(sizes)
        shares = {tp: 1 + rest * (size - 1) // spare for tp, size in sizes.items()}
        left = limit - sum(shares.values())
        for tp in sorted(sizes, key=lambda tp: (shares[tp] - sizes[tp], tp)):
            extra = min(left, 1, sizes[tp] - shares[tp])
            shares[tp] += extra
            left -= extra
    return {tp: starts[tp] + shares[tp] if tp in shares else end for tp, end in ends.items()}


def samples(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> tuple[OffsetRange, ...]:
    """Return the first offsets of the partitions with the most: their records show how large one is."""
    found = [OffsetRange(*tp, starts[tp], end) for tp, end in ends.items() if tp in starts and end > starts[tp]]
    largest = sorted(found, key=lambda one: (-one.size, one))[:SAMPLED_PARTITIONS]
    return tuple(one.within(0, one.start + SAMPLED_OFFSETS) for one in largest)


def waits(available: int, least: int | None, since_last_ms: float | None, longest_ms: float) -> bool:
    """Return True if a micro-batch should wait for ``least`` offsets, or ``longest_ms`` since the last one.

    ``since_last_ms`` is None before the first, which never waits.
    """
    return least is not None and available < least and since_last_ms is not None and since_last_ms < longest_ms
