"""Batches of one partition's answer: handed out together, decompressed on demand or ahead."""

from __future__ import annotations

import struct
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from aiokafka_lead._core.consumer.chunk import Chunk
from aiokafka_lead._core.consumer.fetched import LOADED_AT_ONCE_BYTES, NotLoaded
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._records import (
    BatchView,
    ControlType,
    StoredRecord,
    build_batch,
    compress,
)
from aiokafka_lead._wire.messages.fetch import AbortedTransaction
from aiokafka_lead.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    CorruptRecordError,
)
from aiokafka_lead.types import TimestampType, TopicPartition

from ..records.bombs import bomb
from ..records.material import message
from .fetch_world import T0, T1, T2, World, batch, chunks, columns, loaded, marker


@pytest.mark.parametrize("read", [chunks, columns])
def test_successive_batches_are_joined_up_to_a_number_of_records(read: Callable[[World], list[list[int]]]) -> None:
    world = World(T0, joined_records=5)
    parts = [batch(0), batch(1, [b"a", b"b"]), batch(3, [b"c"] * 3), batch(6, [b"d"] * 7), batch(13), batch(14)]
    world.hold(world.state(), *parts)
    assert read(world) == [[0, 1, 2], [3, 4, 5], [*range(6, 13)], [13, 14]]


@pytest.mark.parametrize("read", [chunks, columns])
def test_batches_of_different_epochs_or_timestamps_stay_apart(read: Callable[[World], list[list[int]]]) -> None:
    world = World(T0)
    appended = build_batch(
        [StoredRecord(1, b"")], base_offset=3, leader_epoch=4, timestamp_type=TimestampType.LOG_APPEND_TIME
    )
    parts = [batch(0), batch(1), build_batch([StoredRecord(1, b"")], base_offset=2, leader_epoch=4), appended]
    world.hold(world.state(), *parts)
    assert read(world) == [[0, 1], [2], [3]]
    assert world.state().position == Position(4, 4)


@pytest.mark.parametrize("read", [chunks, columns])
def test_a_batch_that_is_hidden_parts_nothing(read: Callable[[World], list[list[int]]]) -> None:
    world = World(T0, read_committed=True)
    hidden = batch(1, [b"x"], producer_id=5, producer_epoch=0, transactional=True)
    parts = [batch(0), hidden, marker(ControlType.ABORT, 5, 2), batch(3), marker(ControlType.COMMIT, 6, 4)]
    world.hold(world.state(), *parts, aborted=[AbortedTransaction(producer_id=5, first_offset=1)])
    assert read(world) == [[0, 3]]
    assert world.state().position == Position(5, 3)


def test_joined_columns_are_those_of_their_batches() -> None:
    world = World(T0)
    stored = [
        [StoredRecord(1, b"k", b"v", [("h", b"1")]), StoredRecord(2, None, b"", ())],
        [StoredRecord(3, b"", None, ())],
        [StoredRecord(4, b"key", b"value", [("a", None), ("b", b"2")])],
    ]
    state = world.state()
    state.move(1)
    world.hold(
        state,
        build_batch(stored[0], base_offset=0, leader_epoch=3),
        build_batch(stored[1], base_offset=2, leader_epoch=3, compression="zstd"),
        build_batch(stored[2], base_offset=5, leader_epoch=3),
    )
    taken = world.prefetch.batch()
    assert taken is not None
    assert (taken.base_offset, taken.next_offset, len(taken)) == (1, 6, 3)
    assert taken.offsets == [1, 2, 5]
    assert taken.timestamps_ms == [2, 3, 4]
    assert taken.keys == [None, b"", b"key"]
    assert taken.values == [b"", None, b"value"]
    assert taken.headers == [(), (), (("a", None), ("b", b"2"))]
    assert taken.to_arrow().column("value").to_pylist() == taken.values


def test_batches_that_decompress_to_much_stay_apart() -> None:
    world = World(T0)
    large = [
        build_batch([StoredRecord(1, None, bytes(400_000))], base_offset=at, compression="zstd") for at in range(4)
    ]
    world.hold(world.state(), *large)
    assert columns(world) == [[0, 1], [2, 3]]
    world.state().move(0)
    world.hold(world.state(), *large)
    assert chunks(world) == [[0, 1, 2], [3]]


@pytest.mark.parametrize("take", [lambda world: world.prefetch.chunk(), lambda world: world.prefetch.batch()])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_large_batch_is_not_decompressed_where_it_is_asked_for(codec: str, take: Callable[[World], object]) -> None:
    world = World(T0)
    world.state().move(1)
    world.hold(world.state(), bomb(codec, LOADED_AT_ONCE_BYTES, 1), bomb(codec, 400_000, 2))
    with pytest.raises(NotLoaded):
        take(world)
    with pytest.raises(NotLoaded) as large:
        take(world)
    assert isinstance(large.value.view, BatchView)
    assert large.value.view.base_offset == 1
    assert not large.value.view.is_loaded
    large.value.view.load()
    assert take(world) is not None


def message_set(offset: int, sizes: list[int]) -> bytes:
    """Return messages of format 1, in a compressed set."""
    inner = b"".join(message(1, at, None, bytes(size)) for at, size in enumerate(sizes))
    return message(1, offset + len(sizes) - 1, None, compress("gzip", inner), attributes=1)


@pytest.mark.parametrize("take", [lambda world: world.prefetch.chunk(), lambda world: world.prefetch.batch()])
def test_a_large_set_of_old_messages_is_decompressed_elsewhere(take: Callable[[World], Any]) -> None:
    def offsets() -> list[int]:
        taken = take(world)
        return [record.offset for record in taken.take(None)] if isinstance(taken, Chunk) else list(taken.offsets)

    world = World(T0)
    world.hold(world.state(), batch(0), message_set(1, [10, 10]), message_set(3, [100_000] * 3), batch(6))
    assert [*offsets(), *offsets()] == [0, 1, 2]  # different timestamps and epoch: not joined
    with pytest.raises(NotLoaded):
        offsets()
    with pytest.raises(NotLoaded) as large:
        offsets()
    assert not large.value.view.is_loaded
    large.value.view.load()
    assert [*offsets(), *offsets()] == [3, 4, 5, 6]
    assert world.state().position == Position(7, 3)


def test_a_large_set_that_cannot_be_read_comes_behind_what_is_before_it() -> None:
    broken = bytearray(message_set(1, [100_000] * 3))
    broken[200:210] = bytes(10)
    struct.pack_into(">I", broken, 12, zlib.crc32(broken[16:]))
    world = World(T0)
    world.hold(world.state(), batch(0), bytes(broken), batch(4))
    assert world.read(1) == [0]
    with pytest.raises(NotLoaded) as large:
        world.read()
    with pytest.raises(CorruptRecordError):
        large.value.view.load()
    for _ in range(2):
        with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 1"):
            world.read()


def test_old_messages_beyond_the_bound_say_how_to_go_on() -> None:
    world = World(T0, max_decompressed_batch_bytes=200_000)
    world.hold(world.state(), message_set(0, [100_000] * 3), batch(3))
    with pytest.raises(BatchTooLargeError, match="seek to offset 3"):
        loaded(world.read)


def test_partitions_that_wait_give_up_what_they_have_decompressed() -> None:
    """Each is read for a few records only; the rest is decompressed again, without losing any."""
    world = World(T0, T1, T2, max_decompressed_bytes=1_000_000)
    for tp in (T0, T1, T2):
        world.hold(world.state(tp), batch(0, [bytes(100_000)] * 4, compression="zstd"))
    found: dict[TopicPartition, list[int]] = {}
    for _ in range(4):
        for tp in (T0, T1, T2):
            found.setdefault(tp, []).extend(world.read(1, tp))
            chunks_held = [world.state(other).chunk for other in (T0, T1, T2)]
            assert sum(chunk.size_bytes for chunk in chunks_held if chunk is not None) <= 1_000_000 + 410_000
            assert sum(chunk is not None for chunk in chunks_held) <= 3
    assert found == {tp: [0, 1, 2, 3] for tp in (T0, T1, T2)}


def test_one_partition_at_a_time_holds_a_batch_that_was_decompressed_elsewhere() -> None:
    world = World(T0, T1)
    for tp in (T0, T1):
        world.hold(world.state(tp), bomb("gzip", 2_000_000))
        with pytest.raises(NotLoaded) as large:
            world.read(1, tp)
        large.value.view.load()
    with pytest.raises(NotLoaded):
        world.read(1, T0)
    for tp in (T0, T1):
        assert loaded(partial(world.read, 1, tp)) == [0]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_what_is_too_large_is_decompressed_once(codec: str) -> None:
    world = World(T0, max_decompressed_batch_bytes=16_000_000)
    world.hold(world.state(), bomb(codec, 32_000_000))
    with pytest.raises(NotLoaded) as large:
        world.prefetch.chunk()
    view = large.value.view
    with pytest.raises(BatchTooLargeError):
        view.load()
    tracemalloc.start()
    try:
        for again in (view.load, world.prefetch.chunk, world.prefetch.batch):
            with pytest.raises(BatchTooLargeError):
                again()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
