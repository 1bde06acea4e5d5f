"""Lanes are independent: a request held on one does not delay another."""

from __future__ import annotations

from itertools import combinations

from aiokafka_lead._io.connection.settings import AnyLane, CoordinatorLane, FetchLane, HeldLane, Lane, ShareLane


def test_lanes_of_different_kinds_are_never_the_same() -> None:
    lanes: list[AnyLane] = [
        *Lane,
        *(kind(0) for kind in (FetchLane, HeldLane, ShareLane, CoordinatorLane)),
        HeldLane(1),
    ]
    assert all(one != other for one, other in combinations(lanes, 2))
    assert len(set(lanes)) == len(lanes)
    assert len({lane.value for lane in lanes}) == len(lanes)
