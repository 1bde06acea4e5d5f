"""Offsets that an automatic commit covers: all except records that the application is processing."""

from __future__ import annotations

from aiokafka_lead._core.consumer.chunk import Chunk
from aiokafka_lead._core.consumer.in_hand import InHand
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead.types import OffsetAndMetadata

from .fetch_world import T0, T1, World, batch


def filled() -> tuple[World, InHand]:
    world = World(T0, T1)
    world.hold(world.state(T0), batch(0, [b"a"] * 5))
    return world, InHand()


def chunk_of(world: World) -> Chunk:
    chunk = world.prefetch.chunk()
    assert chunk is not None
    return chunk


def offsets(world: World, in_hand: InHand) -> dict[int, int]:
    return {tp.partition: offset.offset for tp, offset in in_hand.done(world.positions).items()}


def test_one_by_one_the_last_record_is_in_hand() -> None:
    world, in_hand = filled()
    chunk = chunk_of(world)
    in_hand.handing_out(chunk)
    assert offsets(world, in_hand) == {0: 0, 1: 0}
    for taken in range(1, 6):
        next(chunk.remaining)
        assert offsets(world, in_hand)[0] == taken - 1
    in_hand.release()
    assert in_hand.done(world.positions)[T0] == OffsetAndMetadata(5, leader_epoch=3)


def test_many_at_once_are_in_hand_until_the_application_comes_back() -> None:
    world, in_hand = filled()
    chunk = chunk_of(world)
    in_hand.handed_out(T0, chunk.position())
    chunk.take(3)
    in_hand.handed_out(T0, chunk.position())
    chunk.take(2)
    assert offsets(world, in_hand)[0] == 0
    in_hand.release()
    assert offsets(world, in_hand)[0] == 5


def test_a_record_stays_in_hand_when_its_partition_is_paused_or_moved() -> None:
    world, in_hand = filled()
    chunk = chunk_of(world)
    in_hand.handing_out(chunk)
    next(chunk.remaining)
    next(chunk.remaining)
    world.prefetch.pause(world.state(T0))
    assert offsets(world, in_hand)[0] == 1
    world.prefetch.drop(world.state(T0))
    world.state(T0).move(4)
    assert offsets(world, in_hand)[0] == 1
    world.state(T0).move(0)
    assert offsets(world, in_hand)[0] == 0


def test_a_record_that_the_application_has_committed_is_not_in_hand() -> None:
    world, in_hand = filled()
    chunk = chunk_of(world)
    in_hand.handing_out(chunk)
    next(chunk.remaining)
    next(chunk.remaining)
    in_hand.committed({T0: OffsetAndMetadata(1)}, world.positions)
    assert offsets(world, in_hand)[0] == 1
    in_hand.committed({T0: OffsetAndMetadata(2)}, world.positions)
    assert in_hand.last_taken() is None
    assert offsets(world, in_hand)[0] == 2
    next(chunk.remaining)
    assert in_hand.last_taken() == Position(2, 3)
    assert offsets(world, in_hand)[0] == 2


def test_what_is_stored_is_not_told_again() -> None:
    world, in_hand = filled()
    world.read(2)
    done = in_hand.done(world.positions)
    in_hand.stored(done.items())
    assert in_hand.done(world.positions) == {}
    world.read(1)
    assert list(in_hand.done(world.positions)) == [T0]


def test_a_chunk_that_was_withdrawn_twice_keeps_its_count() -> None:
    world, _ = filled()
    chunk = chunk_of(world)
    assert chunk.before_last_taken() is None
    chunk.take(2)
    for _ in range(2):
        chunk.withdraw()
        assert chunk.before_last_taken() == Position(1, 3)


def test_abandoned_records_are_not_waited_for_and_not_done() -> None:
    world, in_hand = filled()
    chunk = chunk_of(world)
    in_hand.handing_out(chunk)
    next(chunk.remaining)
    in_hand.abandon(T1)
    assert in_hand.may_be_working_on({T0})
    in_hand.abandon(T0)
    assert not in_hand.may_be_working_on({T0})
    assert offsets(world, in_hand)[0] == 0
    in_hand.release()
    next(chunk.remaining)
    assert in_hand.may_be_working_on({T0}), "the application has come back, and goes on"
