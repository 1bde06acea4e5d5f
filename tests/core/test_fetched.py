"""One partition's part of an answer: batches, cursors, aborted transactions, unreadable data."""

from __future__ import annotations

import gc
import json
import tracemalloc
import weakref
from collections.abc import Callable
from contextlib import suppress

import pytest
from crc32c import crc32c

from aiokafka_lead._core.consumer.chunk import Chunk
from aiokafka_lead._core.consumer.deserializers import Deserializers
from aiokafka_lead._core.consumer.fetched import AbortedFilter
from aiokafka_lead._core.consumer.position import Position
from aiokafka_lead._records import (
    BatchView,
    ControlType,
    StoredRecord,
    build_batch,
    offset_past,
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

from ..records.bombs import bomb
from .fetch_world import T0, World, batch, chunks, columns, marker


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


def corrupt_record(offset: int) -> bytes:
    """Return a batch of one record, valid except for the length of the record."""
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
            by(5, 2, transactional=False),  # outside the transaction
            marker(ControlType.ABORT, 5, 3),
            by(7, 4),  # aborted
            by(5, 5),  # committed: the next aborted one begins at 6
            by(5, 6),  # aborted
            marker(ControlType.COMMIT, 6, 7),
            by(7, 8),  # still aborted
            marker(ControlType.ABORT, 7, 9),
            by(7, 10),
        )
    ]
    assert hidden == [True, False, False, True, True, False, True, True, True, True, False]


def test_compaction_may_leave_a_marker_without_its_record() -> None:
    empty = batch(3, [], control=True, transactional=True, producer_id=5, producer_epoch=0, last_offset_delta=0)
    aborted = AbortedFilter([AbortedTransaction(producer_id=5, first_offset=0)])
    assert [view.control_type() for view in views(empty)] == [ControlType.UNKNOWN]
    assert [aborted.hides(view) for view in views(batch(0), empty)] == [False, True]


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
        error = caught.value
        assert (error.topic, error.partition, error.offset, error.next_offset) == ("t", 0, 1, 2)
        assert isinstance(error, CorruptRecordError)
        assert not error.retriable
    assert state.position == Position(1, 3)


def corrupted(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


@pytest.mark.parametrize(
    ("batches", "offset", "past"),
    [
        ([batch(0, [b"a"] * 5), batch(5)], 0, 5),
        ([batch(0, [b"a"] * 5), batch(5)], 3, 5),
        ([batch(0, [b"a"] * 5), batch(8, [b"a"] * 3)], 5, 11),
        ([batch(0, [b"a"] * 5)], 5, -1),
        ([corrupted(batch(0, [b"a"] * 5), 23, b"\x7f\xff\xff\xff"), batch(5)], 0, 5),
        ([corrupted(batch(0, [b"a"] * 5), 23, b"\xff\xff\xff\xff"), batch(5)], 0, 5),
        ([corrupted(batch(0, [b"a"] * 5), 23, b"\0\0\0\0")], 0, -1),
        ([corrupted(batch(0), 8, b"\0\0\0\1"), batch(1)], 0, -1),
        ([corrupted(batch(0), 16, b"\7"), batch(1)], 0, -1),
        ([b"\0" * 40], 0, -1),
        ([], 0, -1),
    ],
)
def test_the_offset_past_a_corrupt_batch(batches: list[bytes], offset: int, past: int) -> None:
    assert offset_past(memoryview(b"".join(batches)), offset) == past


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
    """Neither in a reference cycle nor in an error that is kept, for the first batch and later ones."""
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
