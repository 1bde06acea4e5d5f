"""Rule 34 without I/O: choice of followers to fetch from, and the return to the leader."""

from __future__ import annotations

import math

import pytest

from aiokafka_lead._core.consumer.followers import CONNECTS_WITHIN_S, Followers
from aiokafka_lead._core.trust import DOUBT_AFTER

from .fetch_world import T0, T1, World, data, response, snapshot

MAX_AGE_S = 300.0
LEADER, FOLLOWER = 1, 2


class Known:
    """Known followers, and the time when each broker was last reached."""

    def __init__(self) -> None:
        self.reached_at: dict[int, float] = {}
        self.followers = Followers(MAX_AGE_S, 2.0, 0.5, self.reached_since)

    def reached_since(self, node_id: int, at: float) -> bool:
        return self.reached_at.get(node_id, -math.inf) >= at


def test_one_that_fails_to_connect_is_left_at_once_and_one_that_hangs_soon() -> None:
    followers = Known().followers
    assert followers.connecting(FOLLOWER, 10.0, failed=True)
    followers = Known().followers
    assert not followers.connecting(FOLLOWER, 10.0, failed=False)
    assert followers.next_time() == 10.0 + CONNECTS_WITHIN_S
    assert not followers.connecting(FOLLOWER, 10.1, failed=False)
    assert followers.connecting(FOLLOWER, 10.0 + CONNECTS_WITHIN_S, failed=False)
    followers.leave(FOLLOWER, 10.5)
    assert followers.next_time() is None


def test_a_connection_in_time_ends_the_wait() -> None:
    followers = Known().followers
    followers.connecting(FOLLOWER, 10.0, failed=False)
    followers.connected(FOLLOWER)
    assert followers.next_time() is None
    assert not followers.connecting(FOLLOWER, 20.0, failed=False)


def test_one_that_was_left_is_not_taken_again_until_its_time_is_over() -> None:
    followers = Known().followers
    assert followers.follows(LEADER, FOLLOWER, T0, 10.0)
    followers.leave(FOLLOWER, 10.0)
    assert not followers.follows(LEADER, FOLLOWER, T0, 11.0)
    assert followers.hides_rack(LEADER, 11.0)
    assert not followers.hides_rack(3, 11.0)
    assert not followers.hides_rack(LEADER, 10.0 + MAX_AGE_S)
    assert followers.follows(LEADER, FOLLOWER, T0, 10.0 + MAX_AGE_S)


def test_one_that_was_reached_since_is_taken_again() -> None:
    known = Known()
    known.reached_at[FOLLOWER] = 9.0
    known.followers.leave(FOLLOWER, 10.0)
    assert not known.followers.follows(LEADER, FOLLOWER, T0, 11.0)
    known.reached_at[FOLLOWER] = 12.0
    assert not known.followers.hides_rack(LEADER, 13.0)
    assert known.followers.follows(LEADER, FOLLOWER, T0, 13.0)


def test_refusals_are_counted_by_partition_and_end_with_a_success() -> None:
    followers = Known().followers
    followers.follows(LEADER, FOLLOWER, T0, 10.0)
    for _ in range(DOUBT_AFTER - 1):
        followers.refused(FOLLOWER, T0, 10.0)
    followers.served(FOLLOWER, T0)
    for _ in range(DOUBT_AFTER - 1):
        followers.refused(FOLLOWER, T0, 10.0)
    assert followers.follows(LEADER, FOLLOWER, T0, 10.0)
    followers.refused(FOLLOWER, T0, 10.0)
    assert not followers.follows(LEADER, FOLLOWER, T0, 10.0)
    assert followers.follows(LEADER, FOLLOWER, T1, 10.0)


def test_a_leader_that_names_the_follower_whatever_the_rack_is_not_asked_in_a_circle() -> None:
    """Its answers are empty and immediate."""
    world = World(T0)
    for _ in range(DOUBT_AFTER):
        world.fetch(data(0, preferred=FOLLOWER))
        planned = world.plan_one()
        assert planned.node_id == FOLLOWER
        world.answer(planned, response(data(0, error=78)))
        world.now += 1.5
    world.fetch(data(0, preferred=FOLLOWER))
    assert world.plan() == []
    world.now += 1.5
    assert world.plan_one().node_id == LEADER


@pytest.mark.parametrize("offline", [(), (FOLLOWER,)], ids=["not in metadata", "offline"])
def test_one_that_metadata_does_not_know_is_asked_about_and_left_for_a_moment(offline: tuple[int, ...]) -> None:
    """The leader, which keeps naming it, would be asked in a loop."""
    world = World(T0)
    world.learn(snapshot([(LEADER, 3)] * 3, brokers=(1, 2) if offline else (1, 3), offline=offline))
    assert world.fetch(data(0, preferred=FOLLOWER)).refresh
    assert world.plan() == []
    assert world.followers.hides_rack(LEADER, world.now)
    world.learn(snapshot([(LEADER, 3)] * 3))
    world.now += 2.0
    assert not world.followers.hides_rack(LEADER, world.now)
    world.fetch(data(0, preferred=FOLLOWER))
    assert world.plan_one().node_id == FOLLOWER


def test_one_that_names_itself_is_left_for_the_leader() -> None:
    """Metadata has the leader's address for the follower."""
    world = World(T0)
    for _ in range(DOUBT_AFTER):
        world.fetch(data(0, preferred=FOLLOWER))
        planned = world.plan_one()
        assert planned.node_id == FOLLOWER
        assert world.answer(planned, response(data(0, preferred=FOLLOWER))).refresh
        assert world.plan() == []
        world.now += 1.5
    world.fetch(data(0, preferred=FOLLOWER))
    assert world.followers.hides_rack(LEADER, world.now)
