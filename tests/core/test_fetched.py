"""One partition's part of an answer: batches, cursors, aborted transactions, what cannot be read."""

from __future__ import annotations

import gc
import json
import struct
import tracemalloc
import weakref
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import pytest
from crc32c import crc32c

from aiokafka_lead._core.consumer.aborted import AbortedFilter
from aiokafka_lead._core.consumer.chunk import Chunk
from aiokafka_lead._core.consumer.deserializers import Deserializers
from aiokafka_lead._core.consumer.fetched import LOADED_AT_ONCE_BYTES, NotLoaded
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._records import (
    BatchView,
    ControlType,
    StoredRecord,
    build_batch,
    compress,
    control_batch,
    read_batches,
)
from aiokafka_lead._wire.messages.fetch import AbortedTransaction
from aiokafka_lead.errors import (
    BatchTooLargeError,
    CorruptBatchError,
    CorruptRecordError,
    KafkaError,
    RecordDeserializationError,
)
from aiokafka_lead.types import TimestampType, TopicPartition

from ..records.bombs import bomb
from ..records.material import message
from .fetch_world import T0, T1, T2, World, batch


def marker(kind: ControlType, producer: int, offset: int) -> bytes:
    return control_batch(
        kind, base_offset=offset, timestamp_ms=1000, producer_id=producer, producer_epoch=0, leader_epoch=3
    )


def test_the_position_follows_what_was_taken() -> None:
    world = World(T0)
    state = world.state()
    world.hold(state, batch(0, [b"a", b"b", b"c"]), batch(3, [b"d"]))
    chunk = world.prefetch.chunk()
    assert chunk is not None
    assert state.position == Position(0, -1)
    assert next(chunk.remaining).offset == 0
    assert state.position == Position(1, 3)
    assert [record.offset for record in chunk.take(2)] == [1, 2]
    assert state.position == Position(3, 3)
    assert world.read() == [3]
    assert state.position == Position(4, 3)


T = TypeVar("T")


def loaded(call: Callable[[], T]) -> T:
    """What the call returns once the large batches that it meets are decompressed."""
    while True:
        try:
            return call()
        except NotLoaded as large:
            with suppress(KafkaError):  # which comes again
                large.view.load()


def chunks(world: World) -> list[list[int]]:
    """The offsets of all that is read, as it is decoded together."""
    found = []
    while (chunk := loaded(world.prefetch.chunk)) is not None:
        found.append([record.offset for record in chunk.take(None)])
    return found


def columns(world: World) -> list[list[int]]:
    """The offsets of all batches."""
    found = []
    while (taken := loaded(world.prefetch.batch)) is not None:
        assert world.state().position == Position(taken.next_offset, taken.leader_epoch or -1)
        found.append(taken.offsets)
    return found


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
    """Messages of format 1, in a compressed set."""
    inner = b"".join(message(1, at, None, bytes(size)) for at, size in enumerate(sizes))
    return message(1, offset + len(sizes) - 1, None, compress("gzip", inner), attributes=1)


@pytest.mark.parametrize("take", [lambda world: world.prefetch.chunk(), lambda world: world.prefetch.batch()])
def test_a_large_set_of_old_messages_is_decompressed_elsewhere(take: Callable[[World], Any]) -> None:
    def offsets() -> list[int]:
        taken = take(world)
        return [record.offset for record in taken.take(None)] if isinstance(taken, Chunk) else list(taken.offsets)

    world = World(T0)
    world.hold(world.state(), batch(0), message_set(1, [10, 10]), message_set(3, [100_000] * 3), batch(6))
    assert [*offsets(), *offsets()] == [0, 1, 2]  # other timestamps, another epoch: they stay apart
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
    """Each is read on for some records only; what was not handed out is decompressed again, and nothing is lost."""
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


def corrupt_record(offset: int) -> bytes:
    """A batch of one record, sound but for the length that the record announces."""
    broken = bytearray(batch(offset))
    broken[61] = 0x7E
    broken[17:21] = crc32c(broken[21:]).to_bytes(4, "big")
    return bytes(broken)


@pytest.mark.parametrize("read", [chunks, columns])
def test_corrupt_records_are_raised_behind_the_batches_before_them(read: Callable[[World], list[list[int]]]) -> None:
    world = World(T0)
    world.hold(world.state(), batch(0), batch(1), corrupt_record(2), batch(3))
    first = world.prefetch.chunk() if read is chunks else world.prefetch.batch()
    assert first is not None
    if isinstance(first, Chunk):
        first.take(None)
    assert world.state().position == Position(2, 3)
    for _ in range(2):
        with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 2"):
            read(world)


def test_records_before_the_position_are_left_out() -> None:
    world = World(T0)
    state = world.state()
    state.move(2)
    world.hold(state, batch(0, [b"a", b"b", b"c", b"d"]))
    assert world.read() == [2, 3]


def test_the_position_passes_over_what_compaction_took() -> None:
    world = World(T0)
    state = world.state()
    tail = build_batch([StoredRecord(1, offset=6)], base_offset=5, leader_epoch=3, last_offset_delta=4)
    world.hold(state, batch(0, []), batch(1, [], last_offset_delta=3), tail, batch(10, [], last_offset_delta=9))
    assert world.read() == [6]
    assert state.position == Position(20, 3)


def test_a_batch_whose_rest_was_compacted_away_yields_nothing() -> None:
    world = World(T0)
    state = world.state()
    state.move(7)
    world.hold(state, build_batch([StoredRecord(1, offset=6)], base_offset=5, leader_epoch=3, last_offset_delta=4))
    assert world.read() == []
    assert state.position == Position(10, 3)


def test_control_batches_are_passed_over() -> None:
    world = World(T0)
    world.hold(world.state(), batch(0), marker(ControlType.COMMIT, 1, 1))
    assert world.read() == [0]
    assert world.state().position == Position(2, 3)


def views(*parts: bytes) -> list[BatchView]:
    return list(read_batches(b"".join(parts)))


def test_aborted_transactions_are_hidden_up_to_their_marker() -> None:
    def by(producer: int, offset: int, *, transactional: bool = True) -> bytes:
        return batch(offset, [b"x"], producer_id=producer, producer_epoch=0, transactional=transactional)

    aborted = AbortedFilter(
        [
            AbortedTransaction(producer_id=7, first_offset=4),
            AbortedTransaction(producer_id=5, first_offset=0),
            AbortedTransaction(producer_id=5, first_offset=6),
        ]
    )
    hidden = [
        aborted.hides(view)
        for view in views(
            by(5, 0),  # aborted
            by(6, 1),  # another producer's
            by(5, 2, transactional=False),  # not in the transaction
            marker(ControlType.ABORT, 5, 3),
            by(7, 4),  # aborted
            by(5, 5),  # committed: the next aborted one begins at 6
            by(5, 6),  # aborted
            marker(ControlType.COMMIT, 6, 7),
            by(7, 8),  # aborted still
            marker(ControlType.ABORT, 7, 9),
            by(7, 10),
        )
    ]
    assert hidden == [True, False, False, True, True, False, True, True, True, True, False]


def test_read_committed_goes_on_behind_an_aborted_tail() -> None:
    world = World(T0, read_committed=True)
    aborted = [AbortedTransaction(producer_id=5, first_offset=1)]
    world.hold(
        world.state(),
        batch(0),
        batch(1, [b"x", b"y"], producer_id=5, producer_epoch=0, transactional=True),
        marker(ControlType.ABORT, 5, 3),
        aborted=aborted,
    )
    assert world.read() == [0]
    assert world.state().position == Position(4, 3)


def test_a_corrupt_batch_is_raised_after_the_records_before_it_and_again() -> None:
    world = World(T0)
    state = world.state()
    broken = bytearray(batch(1))
    broken[-1] ^= 0xFF
    world.hold(state, batch(0), bytes(broken), batch(2))
    assert world.read(1) == [0]
    for _ in range(3):
        with pytest.raises(CorruptBatchError, match="t-0 cannot be read at offset 1") as caught:
            world.read()
        assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("t", 0, 1)
        assert isinstance(caught.value, CorruptRecordError)
        assert not caught.value.retriable
    assert state.position == Position(1, 3)


@pytest.mark.parametrize("read", [chunks, columns])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_is_too_large_is_told_by_its_own_error(
    codec: str, read: Callable[[World], list[list[int]]]
) -> None:
    world = World(T0, max_decompressed_batch_bytes=16_000_000)
    state = world.state()
    world.hold(state, batch(0), bomb(codec, 32_000_000, 1, 2), batch(4))
    assert world.read(1) == [0]
    for _ in range(3):
        with pytest.raises(BatchTooLargeError, match="larger than 16000000 bytes when decompressed") as caught:
            read(world)
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 1, 4)
        assert "max_decompressed_batch_bytes" in str(error)
        assert not isinstance(error, CorruptRecordError)
        assert not error.retriable
    assert state.position == Position(1, 3)
    roomy = World(T0, max_decompressed_batch_bytes=33_000_000)
    roomy.hold(roomy.state(), bomb(codec, 32_000_000))
    assert read(roomy) == [[0]]


@pytest.mark.parametrize("read", [chunks, columns])
@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("place", [0, 1])
def test_what_cannot_be_read_leaves_nothing_in_memory(
    place: int, codec: str, read: Callable[[World], list[list[int]]]
) -> None:
    """Neither in a reference cycle nor in an error that is kept, whether it is the first batch or not."""
    world = World(T0, max_decompressed_batch_bytes=16_000_000)
    world.hold(world.state(), *[batch(0)][:place], bomb(codec, 32_000_000, place))
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(3):
            with suppress(KafkaError):
                read(world)
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert peak - before > 10_000_000
    assert after - before < 1_000_000


def test_an_error_that_comes_again_keeps_nothing_of_those_who_met_it() -> None:
    world = World(T0)
    broken = bytearray(batch(0))
    broken[-1] ^= 0xFF
    world.hold(world.state(), bytes(broken))

    class Held:
        pass

    def reader() -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(CorruptBatchError):
            world.read()
        return weakref.ref(held)

    gc.disable()
    try:
        assert [reader()() for _ in range(2)] == [None, None]
    finally:
        gc.enable()


def test_a_record_that_cannot_be_deserialized_is_raised_in_its_turn_and_again() -> None:
    world = World(T0, deserializers=Deserializers(value=json.loads))
    state = world.state()
    world.hold(state, batch(0, [b"1", b"{", b"3"]), batch(3, [b"4"]))
    chunk = world.prefetch.chunk()
    assert chunk is not None
    assert [record.value for record in chunk.take(None)] == [1]
    assert state.position == Position(1, 3)
    for _ in range(2):
        with pytest.raises(RecordDeserializationError, match="value of the record at offset 1 of t-0") as caught:
            world.prefetch.chunk()
        assert caught.value.record.value == b"{"
        assert caught.value.part == "value"
        assert isinstance(caught.value.__cause__, json.JSONDecodeError)
    world.prefetch.drop(state)
    state.move(2)
    world.hold(state, batch(0, [b"1", b"{", b"3"]), batch(3, [b"4"]))
    assert world.read() == [2, 3]


def test_a_deserializer_that_recovers_loses_nothing() -> None:
    broken = True

    def decode(content: bytes) -> str:
        if broken and content == b"b":
            raise ValueError("not now")
        return content.decode()

    world = World(T0, deserializers=Deserializers(value=decode))
    world.hold(world.state(), batch(0, [b"a", b"b", b"c"]))
    assert world.read(1) == [0]
    with pytest.raises(RecordDeserializationError):
        world.read()
    broken = False
    assert world.read() == [1, 2]


def test_deserializers_leave_none_alone_and_say_which_part_failed() -> None:
    (view,) = views(build_batch([StoredRecord(1, key=b"k", value=None), StoredRecord(1, key=None, value=b"v")]))
    records, error = Deserializers(key=bytes.decode, value=bytes.decode).apply(view.records("t", 0))
    assert error is None
    assert [(record.key, record.value) for record in records] == [("k", None), (None, "v")]
    _, error = Deserializers(key=int).apply(view.records("t", 0))
    assert error is not None
    assert error.part == "key"
