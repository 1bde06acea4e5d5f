"""Caps of a micro-batch, and delays."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead import TopicPartition
from aiokafka_lead.spark.source.stream import capped, waits

PARTITIONS = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from(["a", "b"]), st.integers(0, 9)),
    st.tuples(st.integers(0, 2**62), st.integers(-10, 10**12)),
    max_size=12,
)


@given(PARTITIONS, st.integers(1, 10**6))
def test_a_cap_is_kept_used_and_shared(found: dict[TopicPartition, tuple[int, int]], limit: int) -> None:
    starts = {tp: start for tp, (start, _) in found.items()}
    ends = {tp: start + size for tp, (start, size) in found.items()}
    taken = capped(starts, ends, limit)
    sizes = {tp: ends[tp] - starts[tp] for tp in ends if ends[tp] > starts[tp]}
    shares = {tp: taken[tp] - starts[tp] for tp in sizes}
    assert taken.keys() == ends.keys()
    assert all(0 <= share <= sizes[tp] for tp, share in shares.items())
    assert sum(shares.values()) == min(limit, sum(sizes.values()))
    if limit >= len(sizes):
        assert all(share > 0 for share in shares.values())


def test_partitions_take_turns_where_there_are_more_than_the_cap() -> None:
    ends = {TopicPartition("t", partition): 10**6 for partition in range(10)}
    offsets = dict.fromkeys(ends, 0)
    for _ in range(20):
        offsets = capped(offsets, ends, 3)
    assert sum(offsets.values()) == 60
    assert all(offset > 0 for offset in offsets.values())


def test_shares_are_in_proportion() -> None:
    big, small = TopicPartition("t", 0), TopicPartition("t", 1)
    assert capped({big: 0, small: 0}, {big: 900, small: 100}, 100) == {big: 90, small: 10}


def test_waiting_for_enough() -> None:
    assert waits(5, 10, 1000, 60_000)
    assert not waits(10, 10, 1000, 60_000)
    assert not waits(5, 10, 60_000, 60_000), "the longest wait has passed"
    assert not waits(5, 10, None, 60_000), "the first micro-batch never waits"
    assert not waits(5, None, 1000, 60_000)
