"""Limits the size of a micro-batch. Pure: time is an argument, decisions are results."""

from __future__ import annotations

from collections.abc import Mapping

from ...types import TopicPartition

__all__ = ["capped", "waits"]


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


def waits(available: int, least: int | None, since_last_ms: float | None, longest_ms: float) -> bool:
    """Return True if a micro-batch should wait for ``least`` offsets, or ``longest_ms`` since the last one.

    ``since_last_ms`` is None before the first, which never waits.
    """
    return least is not None and available < least and since_last_ms is not None and since_last_ms < longest_ms
