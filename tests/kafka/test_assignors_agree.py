"""The assignors agree with the Java client's, on the same random groups."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from aiokafka_lead import TopicPartition
from aiokafka_lead._core.group.assignors import MemberSubscription, builtin, decode_subscription, encode_subscription
from aiokafka_lead._core.group.assignors.sticky import decode_sticky
from tests.kafka.assignor_cases import Case, Result, ask_java, assigned_in, make_case, member_in, partitions_in

from .harness import JavaUnavailableError, require_java

_CASES = 400

Compared = list[tuple[Case, Result]]


@pytest.fixture(scope="module")
def compared() -> dict[str, Compared]:
    """Every assignor's cases with Java's results: one Java process for all."""
    try:
        require_java()
    except JavaUnavailableError as error:
        pytest.skip(str(error))
    names = ("range", "roundrobin", "sticky", "cooperative-sticky")
    cases = [make_case(seed, name) for name in names for seed in range(_CASES)]
    results = list(zip(cases, ask_java(cases), strict=True))
    return {name: results[index * _CASES : (index + 1) * _CASES] for index, name in enumerate(names)}


def joining(case: Case) -> list[MemberSubscription]:
    """Return the members as their leader sees them: eager ones without the partitions given up."""
    assignor = builtin(case["assignor"])
    members = [member_in(given) for given in case["members"]]
    with_data = [replace(m, user_data=assignor.user_data(m.topics, m.owned, m.generation)) for m in members]
    return with_data if assignor.cooperative else [replace(m, owned=(), generation=-1) for m in with_data]


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_the_same_assignment(compared: dict[str, Compared], name: str) -> None:
    for case, result in compared[name]:
        ours = builtin(name).assign(joining(case), partitions_in(case))
        assert ours == {member_id: sorted(each) for member_id, each in assigned_in(result).items()}


@pytest.mark.parametrize("name", ["range", "roundrobin", "cooperative-sticky"])
def test_the_same_subscriptions(compared: dict[str, Compared], name: str) -> None:
    for case, result in compared[name]:
        ours = {member.member_id: encode_subscription(member).hex() for member in joining(case)}
        assert ours == result["subscriptions"]


def test_the_same_sticky_user_data(compared: dict[str, Compared]) -> None:
    """Except the order of the topics, which comes from a hash table in Java."""
    for case, result in compared["sticky"]:
        for member in joining(case):
            theirs = bytes.fromhex(result["subscriptions"][member.member_id])
            ours = encode_subscription(member)
            assert len(ours) == len(theirs)
            java_data = decode_subscription(theirs).user_data
            partitions, generation = decode_sticky(member.user_data)
            assert (java_data is None) == (member.user_data is None)
            assert decode_sticky(java_data)[1] == generation
            assert sorted(decode_sticky(java_data)[0]) == sorted(partitions)


def test_never_less_even_and_as_sticky(compared: dict[str, Compared]) -> None:
    kept, kept_by_java, near, near_by_java = 0, 0, 0, 0
    for case, result in compared["sticky"]:
        members, theirs = joining(case), assigned_in(result)
        ours = builtin("sticky").assign(members, partitions_in(case))
        assert sorted(p for each in ours.values() for p in each) == sorted(p for each in theirs.values() for p in each)
        assert unevenness(ours) <= unevenness(theirs)
        if unevenness(ours) == unevenness(theirs):
            kept += owned_before(case, ours)
            kept_by_java += owned_before(case, theirs)
            near += in_rack(case, ours)
            near_by_java += in_rack(case, theirs)
    assert kept >= 0.97 * kept_by_java
    assert near >= 0.97 * near_by_java


def test_cooperative_members_keep_what_they_have_at_java(compared: dict[str, Compared]) -> None:
    """Neither gives a partition to a member while another one has it."""
    for case, result in compared["cooperative-sticky"]:
        owner = {TopicPartition(*each): given["id"] for given in case["members"] for each in given["owned"]}
        ours = builtin("cooperative-sticky").assign(joining(case), partitions_in(case))
        for assigned in (ours, assigned_in(result)):
            for member_id, partitions in assigned.items():
                assert all(owner.get(partition, member_id) == member_id for partition in partitions)


def unevenness(assigned: dict[str, list[TopicPartition]]) -> int:
    """Return Java's balance score: the differences between all pairs of members, summed."""
    return sum(abs(len(one) - len(other)) for one, other in combinations(assigned.values(), 2))


def owned_before(case: Case, assigned: dict[str, list[TopicPartition]]) -> int:
    return sum(
        len(set(assigned[given["id"]]) & {TopicPartition(*each) for each in given["owned"]})
        for given in case["members"]
    )


def in_rack(case: Case, assigned: dict[str, list[TopicPartition]]) -> int:
    return sum(
        given["rack"] in case["topics"][partition.topic][partition.partition]
        for given in case["members"]
        for partition in assigned[given["id"]]
    )
