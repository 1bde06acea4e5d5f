"""How relays share the shards of an outbox out among themselves: each decides alone, from what the database says.

A relay takes every shard that nobody has. Where another one has at least two more than it has itself, it asks for half
of the difference; who is asked finishes its batch and hands over. A shard that is asked for counts as handed over, so
that two relays that come at once ask for different ones. In the end no relay has two more than another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple

__all__ = ["Lease", "Plan", "share_out"]


class Lease(NamedTuple):
    """A shard, and who has it."""

    shard: int
    owner: str | None
    """None where the lease has expired, or was given back."""
    wanted_by: str | None
    """Who has asked the owner for it."""


class Plan(NamedTuple):
    """What a relay does."""

    take: list[int]
    """Shards that are free, or have been handed to it."""
    ask: list[Lease]
    """Those whose owner is to hand them over."""


def share_out(leases: Iterable[Lease], relay: str, held: Collection[int]) -> Plan:
    """Decide for the relay of this name, which works on the shards that it has ``held``."""
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
