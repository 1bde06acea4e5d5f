"""Metadata answers read in steps give the same result as the plain decoder, whatever answers came before."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.metadata.answer import PARTITIONS_A_STEP, ClusterAnswer, MetadataReader
from aiokafka_lead._wire import encode_response
from aiokafka_lead._wire.messages.metadata import MetadataResponse, MetadataResponsePartition
from aiokafka_lead.errors import MalformedMessageError

from .cluster_answers import VERSION, answer, finished, read_whole, topic

names = st.sampled_from(["a", "b", "c", "d"])
topics = st.builds(
    lambda name, leaders, code: topic(*leaders, name=name, error_code=code),
    names,
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 5)), max_size=3),
    st.sampled_from([0, 0, 0, 3, 5]),
)
answers = st.lists(st.lists(topics, max_size=4, unique_by=lambda entry: entry.name), min_size=1, max_size=6)


def frame_of(response: MetadataResponse, version: int = VERSION) -> bytes:
    return b"".join(encode_response(response, version, 7))[4:]


def read(reader: MetadataReader, frame: bytes, version: int = VERSION) -> ClusterAnswer:
    return finished(reader.read(frame, version))


@given(answers, st.sampled_from([8, 9, 12, 13]))
def test_an_answer_says_the_same_whatever_came_before(told_before: list[list[object]], version: int) -> None:
    reader = MetadataReader()
    for entries in told_before:
        response = answer(*entries)  # type: ignore[arg-type]
        if version < 10:
            for entry in response.topics:
                entry.topic_id = type(entry.topic_id)(int=0)
        response.error_code = 0
        assert read(reader, frame_of(response, version), version) == read_whole(response, version)


def test_what_is_not_new_is_the_same_object() -> None:
    reader = MetadataReader()
    same = [topic((1, 5), name=name) for name in "abcd"]
    first = read(reader, frame_of(answer(*same)))
    moved = topic((2, 6), name="b")
    second = read(reader, frame_of(answer(same[0], moved, same[2], same[3])))
    assert [new is old for new, old in zip(second.topics, first.topics, strict=True)] == [True, False, True, True]
    # One deleted topic, and one new topic.
    third = read(reader, frame_of(answer(same[0], topic((1, 1), name="bb"), same[2], same[3])))
    assert third.topics[0] is first.topics[0]
    assert [entry.name for entry in third.topics] == ["a", "bb", "c", "d"]


def test_each_topic_is_a_step() -> None:
    steps = MetadataReader().read(frame_of(answer(*(topic((1, 1), name=f"t{n}") for n in range(100)))), VERSION)
    assert sum(1 for _ in steps) >= 100


def test_many_partitions_are_many_steps() -> None:
    large = answer(
        topic(*((number % 3, number) for number in range(10 * PARTITIONS_A_STEP + 7))), topic((1, 1), name="u")
    )
    assert sum(1 for _ in MetadataReader().read(frame_of(large), VERSION)) >= 10
    assert read(MetadataReader(), frame_of(large)) == read_whole(large, VERSION)


def test_an_answer_that_is_cut_off_is_malformed_and_changes_nothing() -> None:
    reader = MetadataReader()
    frame = frame_of(answer(topic((1, 5), (2, 5)), topic((1, 5), name="u")))
    before = read(reader, frame)
    for size in range(5, len(frame)):
        with pytest.raises(MalformedMessageError):
            read(reader, frame[:size])
    assert all(new is old for new, old in zip(read(reader, frame).topics, before.topics, strict=True))


def test_partitions_that_are_missing_have_no_leader() -> None:
    odd = topic((1, 1))
    odd.partitions.append(MetadataResponsePartition(partition_index=5, leader_id=1, leader_epoch=1))
    (entry,) = read(MetadataReader(), frame_of(answer(odd))).topics
    assert [partition.leader_id for partition in entry.partitions] == [1, -1]
