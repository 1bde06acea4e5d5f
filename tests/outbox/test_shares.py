"""Division of shards among relays: a simulation with the decisions of each relay alone."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from aiokafka_lead.outbox.store import Lease, share_out


class World:
    """The shards in the database, and relays that join, look and die."""

    def __init__(self, shards: int) -> None:
        self.leases = [Lease(shard, None, None) for shard in range(shards)]

    def look(self, relay: str) -> None:
        """Run one look of a relay."""
        held = [lease.shard for lease in self.leases if lease.owner == relay]
        for lease in self.leases:
            if lease.owner == relay and lease.wanted_by is not None:
                self.leases[lease.shard] = Lease(lease.shard, lease.wanted_by, None)
                held.remove(lease.shard)
        plan = share_out(self.leases, relay, held)
        for shard in plan.take:
            assert self.leases[shard].owner in (None, relay)
            self.leases[shard] = Lease(shard, relay, None)
        for lease in plan.ask:
            assert self.leases[lease.shard].wanted_by is None
            self.leases[lease.shard] = lease._replace(wanted_by=relay)

    def die(self, relay: str) -> None:
        """Expire its leases."""
        for lease in self.leases:
            if lease.owner == relay:
                self.leases[lease.shard] = lease._replace(owner=None)


def test_one_relay_takes_all() -> None:
    assert share_out([Lease(shard, None, None) for shard in range(4)], "a", ()).take == [0, 1, 2, 3]


def test_a_shard_that_was_handed_over_is_taken() -> None:
    leases = [Lease(0, "b", None), Lease(1, "a", None), Lease(2, "b", None)]
    assert share_out(leases, "a", [1]).take == []
    assert share_out(leases, "a", ()).take == [1]


def test_who_has_two_less_asks_for_one_and_who_has_one_less_does_not() -> None:
    assert share_out([Lease(0, "b", None), Lease(1, "b", None)], "a", ()).ask == [Lease(0, "b", None)]
    assert share_out([Lease(0, "b", None)], "a", ()).ask == []


def test_what_another_has_asked_for_is_not_asked_for() -> None:
    leases = [Lease(0, "b", "c"), Lease(1, "b", None), Lease(2, "b", None), Lease(3, "b", None)]
    assert [lease.shard for lease in share_out(leases, "a", ()).ask] == [1]


@pytest.mark.parametrize("seed", range(50))
def test_shares_are_even_whoever_comes_and_dies(seed: int) -> None:
    rng = random.Random(seed)
    world, alive = World(rng.randint(1, 20)), {"0"}
    for number in range(1, 12):
        if len(alive) > 1 and rng.random() < 0.4:
            gone = rng.choice(sorted(alive))
            alive.remove(gone)
            world.die(gone)
        else:
            alive.add(str(number))
        for _ in range(20):
            for relay in rng.sample(sorted(alive), len(alive)):
                world.look(relay)
        counts = Counter(dict.fromkeys(alive, 0))
        counts.update(str(lease.owner) for lease in world.leases)
        assert counts.keys() == alive
        assert max(counts.values()) - min(counts.values()) <= 1
