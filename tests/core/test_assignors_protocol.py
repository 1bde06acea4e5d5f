"""Embedded protocol of a group's members, as written by Java, by other clients, and by broken ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead import TopicPartition
from aiokafka_lead._core.group.assignors import (
    LATEST_VERSION,
    MemberSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from aiokafka_lead._core.group.assignors.sticky import (
    decode_cooperative,
    decode_sticky,
    encode_cooperative,
    encode_sticky,
)
from aiokafka_lead.errors import MalformedMessageError

partitions = st.lists(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "topic"]), st.integers(0, 9)), unique=True
).map(sorted)


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), unique=True).map(sorted),
    partitions,
    st.integers(-1, 9),
    st.none() | st.binary(max_size=5),
    st.none() | st.just("rack"),
)
def test_subscriptions(topics: list[str], owned: list[TopicPartition], generation: int, data: bytes, rack: str) -> None:
    member = MemberSubscription("", tuple(topics), tuple(owned), generation, user_data=data, rack=rack)
    assert decode_subscription(encode_subscription(member)) == member


@pytest.mark.parametrize("version", range(LATEST_VERSION + 1))
def test_older_versions_leave_out_what_they_lack(version: int) -> None:
    owned = (TopicPartition("t", 1), TopicPartition("t", 2))
    member = MemberSubscription("m", ("t",), owned, 4, "i", b"data", "rack")
    found = decode_subscription(encode_subscription(member, version), "m", "i")
    assert found == MemberSubscription(
        "m",
        ("t",),
        owned if version >= 1 else (),
        4 if version >= 2 else -1,
        "i",
        b"data",
        "rack" if version >= 3 else None,
    )


@pytest.mark.parametrize("version", range(LATEST_VERSION + 1))
def test_assignments(version: int) -> None:
    given = [TopicPartition("t", 3), TopicPartition("u", 0), TopicPartition("t", 1)]
    assert set(decode_assignment(encode_assignment(given, version))) == set(given)


@pytest.mark.parametrize(
    ("metadata", "topics"),
    [
        # aiokafka and kafka-python: version 0, empty user data.
        (bytes.fromhex("0000 00000001 0001 74 00000000"), ("t",)),
        # confluent-kafka: version 3 with an empty rack.
        (bytes.fromhex("0003 00000001 0001 74 ffffffff 00000000 ffffffff 0000"), ("t",)),
        # Version 1 without the owned partitions, from older clients in other languages.
        (bytes.fromhex("0001 00000001 0001 74 00000000"), ("t",)),
        # Version 3 with owned partitions that are null.
        (bytes.fromhex("0003 00000001 0001 74 ffffffff ffffffff ffffffff ffff"), ("t",)),
        # A future version with an additional field.
        (bytes.fromhex("0009 00000001 0001 74 ffffffff 00000000 00000005 ffff 01020304"), ("t",)),
    ],
)
def test_subscriptions_of_others(metadata: bytes, topics: tuple[str, ...]) -> None:
    found = decode_subscription(metadata)
    assert (found.topics, found.owned, found.rack) == (topics, (), None)


def test_an_empty_assignment_has_nothing() -> None:
    assert decode_assignment(b"") == []


@pytest.mark.parametrize("data", [b"\0", b"\xff\xff\0\0\0\0", b"\0\0", b"\0\0\x7f\xff\xff\xff", b"\0\3\0\0\0\1\0\5t"])
def test_garbage(data: bytes) -> None:
    with pytest.raises(MalformedMessageError):
        decode_subscription(data)
    with pytest.raises(MalformedMessageError):
        decode_assignment(data)


@given(st.binary(max_size=60))
def test_random_bytes(data: bytes) -> None:
    for decoder in (decode_subscription, decode_assignment):
        try:
            decoder(data)
        except MalformedMessageError:
            pass
    decode_sticky(data)
    decode_cooperative(data)


@given(partitions, st.integers(-1, 2**31 - 1))
def test_sticky_user_data(owned: list[TopicPartition], generation: int) -> None:
    assert decode_sticky(encode_sticky(owned, generation)) == (owned, generation)
    assert decode_cooperative(encode_cooperative(generation)) == generation


def test_sticky_user_data_as_java_writes_it() -> None:
    owned = [TopicPartition("t", 1), TopicPartition("t", 0)]
    assert encode_sticky(owned, 7) == bytes.fromhex("00000001 0001 74 00000002 00000001 00000000 00000007")
    assert encode_cooperative(7) == bytes.fromhex("00000007")


def test_sticky_user_data_without_a_generation() -> None:
    """Version 0, before KIP-341."""
    assert decode_sticky(encode_sticky([TopicPartition("t", 1)], 7)[:-4]) == ([TopicPartition("t", 1)], -1)


@pytest.mark.parametrize("data", [None, b"", b"\0\0\0\5"])
def test_user_data_that_says_nothing(data: bytes | None) -> None:
    assert decode_sticky(data) == ([], -1)
