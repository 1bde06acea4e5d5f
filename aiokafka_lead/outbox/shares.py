"""The distribution of an outbox's shards among its relays. Each relay decides alone, from the leases in the database.

A relay takes every free shard. If another relay has at least two shards more than itself, it asks for half of the
difference; the owner finishes its batch and hands over. A requested shard counts as handed over, so that two relays
that start at once ask for different shards. In the end no relay has two shards more than another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

__all__ = ["Lease", "Plan", "share_out"]


class Lease(NamedTuple):
    """A shard and its owner."""

    shard: int
    owner: str | None
    """None if the lease has expired, or was given back."""
    wanted_by: str | None
    """The relay that has asked the owner for it."""


class Plan(NamedTuple):
    """The next steps of a relay."""

    take: list[int]
    """Shards that are free, or that were handed to it."""
    ask: list[Lease]
    """Shards to ask the owner for."""


def share_out(leases: Iterable[Lease], relay: str, held: Collection[int]) -> Plan:
    """Decide for the relay of this name, which works on the shards in ``held``."""
    leases = list(leases)
    take = [lease.shard for lease in leases if lease.owner in (None, relay) and lease.shard not in held]
    future = {lease.shard: relay if lease.shard in take else lease.wanted_by or lease.owner for lease in leases}
    counts = Counter(future.values())
    ask: list[Lease] = []
    while counts:
        richest, most = max(counts.items(), key=lambda item: item[1])
        found = next((lease for lease in leases if lease.owner == richest == future[lease.shard]), None)
        if most - counts[relay] < 2 or found is None:
            break
        ask.append(found)
        future[found.shard] = relay
        counts[richest] -= 1
        counts[relay] += 1
    return Plan(take, ask)
