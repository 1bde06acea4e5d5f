"""Turns of partitions, and the records that are kept, dropped and counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.consumer.chunk import Chunk
from aiokafka_lead._core.consumer.fetched import FetchedData
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead.errors import KafkaError, TopicAuthorizationFailedError
from aiokafka_lead.types import TopicPartition

from .fetch_world import T0, T1, T2, World, batch


def filled() -> World:
    world = World(T0, T1)
    world.hold(world.state(T0), batch(0, [b"a"] * 3), batch(3, [b"a"] * 2))
    world.hold(world.state(T1), batch(0, [b"b"] * 2))
    world.hold(world.state(T0), batch(5, [b"a"] * 2))
    return world


def chunk_of(world: World) -> Chunk:
    chunk = world.prefetch.chunk()
    assert chunk is not None
    return chunk


def test_partitions_take_turns_by_answer_and_keep_their_order() -> None:
    world = filled()
    turns: list[tuple[TopicPartition, int]] = []
    while (chunk := world.prefetch.chunk()) is not None:
        turns += [(TopicPartition(r.topic, r.partition), r.offset) for r in chunk.take(None)]
    assert [offset for tp, offset in turns if tp == T0] == [0, 1, 2, 3, 4, 5, 6]
    assert [tp.partition for tp, _ in turns] == [0] * 5 + [1] * 2 + [0] * 2
    assert world.prefetch.total_bytes == 0
    assert world.prefetch.records_taken == 9


def test_what_was_not_taken_is_still_there() -> None:
    world = filled()
    chunk_of(world)
    chunk_of(world)
    assert world.prefetch.records_taken == 0
    assert world.read(1) == [0]
    assert world.prefetch.records_taken == 1
    assert world.state(T0).position == Position(1, 3)


def test_only_the_partitions_asked_for_are_read() -> None:
    world = filled()
    assert world.read(tp=T1) == [0, 1]
    assert world.read(tp=T1) == []
    assert world.read(tp=T2) == []
    assert len(world.read()) == 7


def test_a_drop_ends_the_loop_that_is_reading() -> None:
    world = filled()
    state = world.state(T0)
    chunk = chunk_of(world)
    assert next(chunk.remaining).offset == 0
    world.prefetch.drop(state)
    state.move(40)
    assert list(chunk.remaining) == []
    assert state.position == Position(40, -1)
    assert world.read() == [0, 1]  # the other partition's
    assert world.prefetch.records_taken == 3
    assert world.prefetch.total_bytes == 0


def test_a_paused_partition_keeps_what_it_has() -> None:
    world = filled()
    state = world.state(T0)
    chunk = chunk_of(world)
    assert next(chunk.remaining).offset == 0
    held = world.prefetch.total_bytes
    world.prefetch.pause(state)
    assert list(chunk.remaining) == []
    assert state.position == Position(1, 3)
    assert world.read() == [0, 1]
    world.prefetch.resume(state)
    assert world.read() == [1, 2, 3, 4, 5, 6]
    assert held > world.prefetch.total_bytes == 0


def test_pausing_twice_or_resuming_twice_changes_nothing() -> None:
    world = filled()
    state = world.state(T0)
    for _ in range(2):
        world.prefetch.pause(state)
    for _ in range(2):
        world.prefetch.resume(state)
    assert sorted(world.read()) == [0, 0, 1, 1, 2, 3, 4, 5, 6]


def test_records_that_arrive_while_paused_wait() -> None:
    world = World(T0)
    state = world.state()
    world.prefetch.pause(state)
    world.hold(state, batch(0))
    assert world.read() == []
    world.prefetch.resume(state)
    assert world.read() == [0]


def test_eviction_gives_up_what_nobody_reads_and_goes_back() -> None:
    world = filled()
    first, second = world.state(T0), world.state(T1)
    assert world.read(2) == [0, 1]
    first.received(7, 3)
    world.prefetch.pause(first)
    world.prefetch.evict(None)
    assert (first.fetch_offset, first.position) == (2, Position(2, 3))
    assert second.buffered_bytes == world.prefetch.total_bytes > 0
    world.prefetch.evict({T0})
    assert world.prefetch.total_bytes == 0
    assert second.fetch_offset == 0


def test_an_eviction_makes_answers_to_what_was_read_ahead_void() -> None:
    world = World(T0)
    state = world.state()
    world.hold(state, batch(0))
    state.received(1, 3)
    before = state.incarnation
    world.prefetch.pause(state)
    world.prefetch.evict(None)
    assert state.incarnation > before


def test_a_partitions_error_comes_behind_its_records_and_does_not_stop_others() -> None:
    world = filled()
    state = world.state(T0)
    world.prefetch.fail(state, KafkaError("ailing"))
    seen: list[object] = []
    for _ in range(12):
        try:
            seen += world.read(1)
        except KafkaError as error:
            seen.append(str(error))
    assert seen[:9] == [0, 1, 2, 3, 4, 0, 1, 5, 6]
    assert seen[9:] == ["ailing"] * 3
    world.prefetch.drop(state)
    state.move(9)
    assert state.error is None
    assert world.read() == []


def test_a_report_is_raised_once_and_the_latest_of_its_kind() -> None:
    world = World(T0)
    world.prefetch.report("topic", TopicAuthorizationFailedError("old"))
    world.prefetch.report("topic", TopicAuthorizationFailedError("new"))
    assert world.ready == 2
    with pytest.raises(TopicAuthorizationFailedError, match="new"):
        world.prefetch.raise_report()
    world.prefetch.raise_report()


def test_batches_go_on_where_records_stopped() -> None:
    world = World(T0)
    world.hold(world.state(), batch(0, [b"a", b"b", b"c"]), batch(3, [b"d"]))
    assert world.read(1) == [0]
    found = []
    while (taken := world.prefetch.batch()) is not None:
        found.append((taken.base_offset, taken.values))
        assert world.state().position == Position(taken.next_offset, 3)
    assert found == [(1, [b"b", b"c", b"d"])]
    assert world.prefetch.records_taken == 4
    assert world.prefetch.total_bytes == 0


def test_records_go_on_where_batches_stopped() -> None:
    world = World(T0, joined_records=2)
    world.hold(world.state(), batch(0, [b"a", b"b"]), batch(2, [b"c"]))
    taken = world.prefetch.batch()
    assert taken is not None
    assert len(taken) == 2
    assert world.read() == [2]


@given(
    st.lists(st.tuples(st.sampled_from("rbpush"), st.integers(0, 1), st.integers(1, 4)), max_size=40),
    st.sampled_from([1, 3, 500]),
)
def test_every_record_once_and_in_order_whatever_the_order_of_calls(
    steps: list[tuple[str, int, int]], joined_records: int
) -> None:
    """Reads, batches, pauses, resumptions, evictions and arrivals in any order."""
    world = World(T0, T1, joined_records=joined_records)
    states = [world.state(T0), world.state(T1)]
    got: dict[int, list[int]] = {0: [], 1: []}
    for step, which, size in steps:
        state = states[which]
        match step:
            case "p":
                world.prefetch.pause(state)
            case "u":
                world.prefetch.resume(state)
            case "s":
                if len(state.fetched) < 3:
                    offset = state.fetch_offset
                    world.hold(state, batch(offset, [b"v"] * size), batch(offset + size, [b"v"]))
                    state.received(offset + size + 1, 3)
            case "h":
                world.prefetch.evict(None)
            case "b":
                taken = world.prefetch.batch()
                if taken is not None:
                    got[taken.partition] += taken.offsets
            case _:
                chunk = world.prefetch.chunk()
                if chunk is not None:
                    records = chunk.take(size)
                    got[records[0].partition] += [record.offset for record in records]
        for partition, offsets in got.items():
            position = states[partition].position
            assert position is not None
            assert offsets == list(range(position.offset))
        assert world.prefetch.total_bytes == sum(s.buffered_bytes for s in states)
        assert world.prefetch.records_taken == sum(map(len, got.values()))


def test_a_paused_partition_does_not_keep_the_whole_answer_in_memory() -> None:
    world = World(T0)
    state = world.state()
    own = batch(0, [b"a"]) + batch(1, [b"b", b"c"])
    answer = bytearray(own + b"other partitions' records" * 1000)
    world.prefetch.add(state, FetchedData(state, memoryview(answer)[: len(own)], None, check_crcs=True))
    assert world.read(2) == [0, 1]
    world.prefetch.pause(state)
    answer.clear()  # refused while a view of it exists
    world.prefetch.resume(state)
    assert world.read() == [2]
