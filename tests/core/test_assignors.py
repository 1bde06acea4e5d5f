"""Assignors: Java's results for range and round-robin; even, sticky and cooperative assignments for the rest."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lead import TopicPartition
from aiokafka_lead._core.group.assignors import ASSIGNORS, Assignment, MemberSubscription, TopicPartitions, builtin
from aiokafka_lead._core.metadata.types import Broker, ClusterSnapshot, PartitionMetadata, TopicMetadata
from aiokafka_lead.config import ASSIGNOR_NAMES

VECTORS = json.loads((Path(__file__).parent / "assignor_vectors.json").read_text())
STICKY = ("sticky", "cooperative-sticky")


def again(assignor: str, members: Sequence[MemberSubscription], assigned: Assignment, generation: int) -> Members:
    """Return the members as they rejoin after an assignment."""
    strategy = builtin(assignor)
    return [
        replace(
            member,
            owned=tuple(assigned.get(member.member_id, ())) if strategy.cooperative else (),
            generation=generation,
            user_data=strategy.user_data(member.topics, assigned.get(member.member_id, ()), generation),
        )
        for member in members
    ]


Members = list[MemberSubscription]


def settled(assignor: str, members: Sequence[MemberSubscription], topics: TopicPartitions) -> tuple[Assignment, int]:
    """Rebalance until the assignment is stable; return it and the number of rebalances."""
    current, before = list(members), builtin(assignor).assign(members, topics)
    for rounds in range(1, 10):
        current = again(assignor, current, before, 10 + rounds)
        assigned = builtin(assignor).assign(current, topics)
        if assigned == before:
            return assigned, rounds
        before = assigned
    raise AssertionError("rebalances without end")


@st.composite
def groups(draw: st.DrawFn, *, with_racks: bool = True) -> tuple[Members, TopicPartitions]:
    racks = st.frozensets(st.sampled_from("abc"), min_size=1) if with_racks and draw(st.booleans()) else None
    counts = draw(st.dictionaries(st.sampled_from(["t", "u", "v", "w"]), st.integers(1, 12), min_size=1))
    replicas = {} if racks is None else {name: [draw(racks) for _ in range(count)] for name, count in counts.items()}
    names = st.lists(st.sampled_from([*sorted(counts), "none"]), unique=True)
    members = [
        MemberSubscription(
            f"m{number}", tuple(draw(names)), rack=draw(st.sampled_from("abc")) if racks is not None else None
        )
        for number in range(draw(st.integers(1, 8)))
    ]
    return members, TopicPartitions(counts, replicas)


def check_complete(members: Members, topics: TopicPartitions, assigned: Assignment) -> None:
    """Check that each wanted partition has exactly one owner that wants it, and each member has an entry."""
    wanted = {topic for member in members for topic in member.topics} & topics.counts.keys()
    everything = sorted(TopicPartition(topic, index) for topic in wanted for index in range(topics.counts[topic]))
    assert sorted(partition for each in assigned.values() for partition in each) == everything
    assert assigned.keys() == {member.member_id for member in members}
    for member in members:
        assert {partition.topic for partition in assigned[member.member_id]} <= set(member.topics)


def check_even(members: Members, assigned: Assignment) -> None:
    """Check that no partition could move to a member that wants it and has two fewer."""
    for giver in members:
        for taker in members:
            if len(assigned[giver.member_id]) > len(assigned[taker.member_id]) + 1:
                assert not {partition.topic for partition in assigned[giver.member_id]} & set(taker.topics)


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["assignor"])
def test_as_java(row: dict[str, object]) -> None:
    racks = {name: [frozenset(each) for each in parts] for name, parts in row["topics"].items()}  # type: ignore[attr-defined]
    topics = TopicPartitions({name: len(parts) for name, parts in racks.items()}, racks)
    members = [
        MemberSubscription(m["id"], tuple(m["topics"]), group_instance_id=m["instance"], rack=m["rack"])
        for m in row["members"]  # type: ignore[attr-defined]
    ]
    expected = {
        member_id: sorted(TopicPartition(*each) for each in parts)
        for member_id, parts in row["assigned"].items()  # type: ignore[attr-defined]
    }
    assert builtin(str(row["assignor"])).assign(members, topics) == expected


@pytest.mark.parametrize("assignor", ASSIGNORS)
@given(group=groups(), order=st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_everything_once_whatever_the_order(
    assignor: str, group: tuple[Members, TopicPartitions], order: st.DataObject
) -> None:
    members, topics = group
    assigned = builtin(assignor).assign(members, topics)
    check_complete(members, topics, assigned)
    shuffled = list(members)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    assert builtin(assignor).assign(shuffled, topics) == assigned


@pytest.mark.parametrize("assignor", STICKY)
@given(group=groups(), data=st.data())
@settings(max_examples=60, deadline=None)
def test_even_and_settled_after_every_change(
    assignor: str, group: tuple[Members, TopicPartitions], data: st.DataObject
) -> None:
    members, topics = group
    assigned, rounds = settled(assignor, members, topics)
    # Matching racks may take a few more rebalances.
    assert rounds == 1 or topics.racks
    check_even(members, assigned)
    # Members leave and join.
    staying = [member for member in members if data.draw(st.booleans())]
    joined = [MemberSubscription("new", data.draw(st.sampled_from(members)).topics)]
    after, rounds = settled(assignor, [*again(assignor, staying, assigned, 5), *joined], topics)
    check_complete([*staying, *joined], topics, after)
    check_even([*staying, *joined], after)
    assert rounds <= 4


@given(
    counts=st.dictionaries(st.sampled_from("tuvw"), st.integers(1, 20), min_size=1),
    size=st.integers(2, 8),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_no_more_moves_than_needed(counts: dict[str, int], size: int, data: st.DataObject) -> None:
    """Among members with equal subscriptions, the remaining ones keep an equal share of their partitions."""
    topics = TopicPartitions(counts)
    members = [MemberSubscription(f"m{number}", tuple(counts)) for number in range(size)]
    assigned = builtin("sticky").assign(members, topics)
    staying = data.draw(st.lists(st.sampled_from(members), min_size=1, unique_by=lambda member: member.member_id))
    joining = [MemberSubscription(f"n{number}", tuple(counts)) for number in range(data.draw(st.integers(0, 3)))]
    after = builtin("sticky").assign([*again("sticky", staying, assigned, 1), *joining], topics)
    share, extras = divmod(sum(counts.values()), len(staying) + len(joining))
    before = sorted((len(assigned[member.member_id]) for member in staying), reverse=True)
    best = sum(min(had, share + (place < extras)) for place, had in enumerate(before))
    kept = sum(len(set(assigned[m.member_id]) & set(after[m.member_id])) for m in staying)
    assert kept == best


def test_a_chain_of_moves_evens_out() -> None:
    """m3's only topic belongs to m2, which has few partitions itself, but could take some from m1."""
    topics = TopicPartitions({"a": 6, "b": 1})
    members = [MemberSubscription("m1", ("a",)), MemberSubscription("m2", ("a", "b")), MemberSubscription("m3", ("b",))]
    had = {"m1": [TopicPartition("a", n) for n in range(6)], "m2": [TopicPartition("b", 0)]}
    assigned = builtin("sticky").assign(again("sticky", members, had, 1), topics)
    assert [len(assigned[member.member_id]) for member in members] == [3, 3, 1]


def test_cooperative_members_give_up_first() -> None:
    topics = TopicPartitions({"t": 4})
    old, new = MemberSubscription("m1", ("t",)), MemberSubscription("m2", ("t",))
    everything = {"m1": [TopicPartition("t", n) for n in range(4)]}
    members = again("cooperative-sticky", [old, new], everything, 3)
    first = builtin("cooperative-sticky").assign(members, topics)
    assert first == {"m1": everything["m1"][:2], "m2": []}
    second = builtin("cooperative-sticky").assign(again("cooperative-sticky", members, first, 4), topics)
    assert second == {"m1": everything["m1"][:2], "m2": everything["m1"][2:]}


@pytest.mark.parametrize("assignor", STICKY)
def test_the_youngest_claim_counts(assignor: str) -> None:
    """A member that was away claims partitions that another member has received since (KIP-341)."""
    topics = TopicPartitions({"t": 2})
    claim = [TopicPartition("t", 0), TopicPartition("t", 1)]
    members = [
        *again(assignor, [MemberSubscription("away", ("t",))], {"away": claim}, 3),
        *again(assignor, [MemberSubscription("here", ("t",))], {"here": claim[:1]}, 4),
    ]
    assert builtin(assignor).assign(members, topics) == {"away": [claim[1]], "here": [claim[0]]}


def test_who_claims_the_same_at_once_owns_it_no_more() -> None:
    topics = TopicPartitions({"t": 2})
    claim = {"m1": [TopicPartition("t", 0)], "m2": [TopicPartition("t", 0)]}
    members = again(
        "cooperative-sticky", [MemberSubscription("m1", ("t",)), MemberSubscription("m2", ("t",))], claim, 3
    )
    assigned = builtin("cooperative-sticky").assign(members, topics)
    assert [partition.partition for each in assigned.values() for partition in each] == [1]


def test_generation_of_a_member_without_the_field() -> None:
    """Members below version 2 of the subscription send it in their user data."""
    topics = TopicPartitions({"t": 1})
    strategy = builtin("cooperative-sticky")
    claim = (TopicPartition("t", 0),)
    members = [
        MemberSubscription("m1", ("t",), claim, user_data=strategy.user_data((), (), 7)),
        MemberSubscription("m2", ("t",), claim, user_data=strategy.user_data((), (), 6)),
    ]
    assert strategy.assign(members, topics) == {"m1": list(claim), "m2": []}


@pytest.mark.parametrize("assignor", ["range", *STICKY])
def test_partitions_near_to_members(assignor: str) -> None:
    topics = TopicPartitions({"t": 6}, {"t": [frozenset(rack) for rack in "aabbcc"]})
    members = [MemberSubscription(f"m{number}", ("t",), rack=rack) for number, rack in enumerate("cba")]
    assigned = builtin(assignor).assign(members, topics)
    assert {m.member_id: {topics.partition_racks(*p) for p in assigned[m.member_id]} for m in members} == {
        m.member_id: {frozenset(m.rack or "")} for m in members
    }


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_odd_input(assignor: str) -> None:
    """Repeated and unknown topics, missing partitions, members without subscriptions, no members."""
    topics = TopicPartitions({"t": 2, "empty": 0})
    owned = (TopicPartition("t", -1), TopicPartition("t", 9), TopicPartition("gone", 0), TopicPartition("t", 1))
    odd = MemberSubscription("odd", ("t", "t", "none", "empty"), (*owned, *owned), 2, user_data=b"\xff" * 9)
    assigned = builtin(assignor).assign([odd, MemberSubscription("idle", ())], topics)
    assert assigned == {"odd": [TopicPartition("t", 0), TopicPartition("t", 1)], "idle": []}
    assert builtin(assignor).assign([], topics) == {}


@pytest.mark.parametrize("assignor", STICKY)
@pytest.mark.parametrize(("partitions", "size", "names"), [(500, 50, 5), (9000, 100, 90)])
def test_large_groups(assignor: str, partitions: int, size: int, names: int) -> None:
    """All at once, after half of the group has died, and after it has returned."""
    topics = TopicPartitions({f"t{number:04}": partitions // names for number in range(names)})
    members = [MemberSubscription(f"m{number:03}", tuple(topics.counts)) for number in range(size)]
    started = time.process_time()
    assigned = builtin(assignor).assign(members, topics)
    half = again(assignor, members[: size // 2], assigned, 1)
    assigned = builtin(assignor).assign(half, topics)
    assert {len(each) for each in assigned.values()} == {2 * partitions // size}
    builtin(assignor).assign([*again(assignor, half, assigned, 2), *members[size // 2 :]], topics)
    assert time.process_time() - started < 5


def test_partitions_of_a_snapshot() -> None:
    brokers = {1: Broker(1, "h", 1, "a"), 2: Broker(2, "h", 2, "b"), 3: Broker(3, "h", 3)}
    partitions = (PartitionMetadata("t", 0, replicas=(1, 2)), PartitionMetadata("t", 1, replicas=(3, 9)))
    snapshot = ClusterSnapshot(brokers=brokers, topics={"t": TopicMetadata("t", partitions=partitions)})
    found = TopicPartitions.from_snapshot(snapshot, ["t", "t", "none"])
    assert found == TopicPartitions({"t": 2}, {"t": [frozenset("ab"), frozenset()]})
    assert found.partition_racks("t", 0) == frozenset("ab")
    assert found.partition_racks("none", 0) == frozenset()


def test_the_names_that_the_option_takes() -> None:
    assert set(ASSIGNOR_NAMES) == set(ASSIGNORS)
