"""Concurrent transactions: the order of commits, and the transactions that fail together."""

from __future__ import annotations

import random

import pytest

from aiokafka_lead._core.transactions.chain import TRANSITIONS, Chain, Chained, Event, Stage
from aiokafka_lead._core.transitions import IllegalTransitionError
from aiokafka_lead.errors import KafkaError, TransactionAbortedError


class Numbered(Chained):
    """A transaction of these tests."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def chain_of(count: int) -> tuple[Chain[Numbered], list[Numbered]]:
    chain: Chain[Numbered] = Chain()
    links = [Numbered(number) for number in range(count)]
    for link in links:
        chain.begin(link)
    return chain, links


def test_every_place_leads_to_the_end_and_nothing_leaves_it() -> None:
    ends = {stage for stage, row in TRANSITIONS.table.items() if not row}
    assert ends == {Stage.OVER}
    for start in Stage:
        reached, new = {start}, {start}
        while new:
            new = {after for stage in new for after in TRANSITIONS.table[stage].values()} - reached
            reached |= new
        assert Stage.OVER in reached


def test_only_the_first_one_is_committed_and_only_when_it_is_stored() -> None:
    chain, (first, second) = chain_of(2)
    assert chain.next() is None
    second.take(Event.STORE)
    assert chain.next() is None
    first.take(Event.STORE)
    assert chain.next() is first
    assert chain.next() is None  # already given
    chain.ended(first)
    assert chain.next() is second


def test_those_behind_one_that_is_not_committed_fall_and_those_before_it_do_not() -> None:
    chain, (first, second, third) = chain_of(3)
    first.take(Event.STORE)
    second.take(Event.STORE)
    reason = TransactionAbortedError()
    assert chain.doom_behind(second, reason) == [third]
    assert third.reason is reason
    assert not chain.calm
    assert chain.next() is first
    with pytest.raises(IllegalTransitionError):
        third.take(Event.STORE)
    chain.ended(third)
    assert chain.calm


@pytest.mark.parametrize("seed", range(20))
def test_at_random_no_commit_is_asked_for_behind_one_that_is_missing(seed: int) -> None:
    """Under any events, exactly the transactions before the first abort since the last calm are committed, in order."""
    rng = random.Random(seed)
    chain: Chain[Numbered] = Chain()
    committed: list[int] = []
    lost: list[int] = []
    number = 0
    for _ in range(500):
        links = list(chain)
        act = rng.choice(["begin", "store", "commit", "refuse", "abort", "end"])
        asked = [link for link in links if link.stage is Stage.COMMITTING]
        if act == "begin" and chain.calm and len(chain) < 4 and all(link.left for link in links):
            chain.begin(Numbered(number))
            number += 1
        elif act == "store" and links and links[-1].stage is Stage.OPEN:
            links[-1].take(Event.STORE)
        elif act == "commit" and asked:
            committed.append(asked[0].number)
            chain.ended(asked[0])
        elif act == "refuse" and asked:
            chain.doom_behind(asked[0], KafkaError())
            lost.append(asked[0].number)
            chain.ended(asked[0])
        elif act == "abort" and links and links[-1].stage is Stage.OPEN:
            links[-1].take(Event.DOOM)
        elif act == "end" and any(link.stage is Stage.DOOMED for link in links):
            doomed = rng.choice([link for link in links if link.stage is Stage.DOOMED])
            lost.append(doomed.number)
            chain.ended(doomed)
        given = chain.next()
        assert given is None or given.number > max(committed, default=-1)
        assert sum(link.stage is Stage.COMMITTING for link in chain) <= 1
        assert all(link.number > max(committed, default=-1) for link in chain)
    assert committed == sorted(committed)
    assert sorted(committed + lost + [link.number for link in chain]) == list(range(number))
    assert len(committed) > 3
    assert len(lost) > 3
