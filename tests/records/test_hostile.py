"""Batches that lie or are too large: each is refused with a specific error, by the compiled codec too."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.errors import BatchTooLargeError, CorruptRecordError
from aiokafka_lead.types import TimestampType

from .material import CODECS, NOW, SAMPLE, built
from .variants import VARIANTS

# Record fields as in a batch: zigzag varints of 0, 1, -1, -2 and the largest and smallest numbers.
ZERO, ONE, NULL, MINUS_TWO = b"\x00", b"\x02", b"\x01", b"\x03"
INT32_MAX, INT32_MIN = b"\xfe\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x0f"
INT64_MAX, INT64_MIN = b"\xfe" + b"\xff" * 8 + b"\x01", b"\xff" * 9 + b"\x01"


def record(
    *,
    length: bytes | None = None,
    timestamp: bytes = ZERO,
    offset: bytes = ZERO,
    key: bytes = NULL,
    value: bytes = NULL,
    headers: bytes = ZERO,
) -> bytes:
    body = b"\x00" + timestamp + offset + key + value + headers
    return (bytes([2 * len(body)]) if length is None else length) + body


def batch_of(codec: Any, payload: bytes, count: int = 1, base_timestamp: int = NOW, last_delta: int = 0) -> bytes:
    batch = bytearray(61) + payload
    codec.layout.write_header(batch, 10, -1, 0, last_delta, base_timestamp, NOW, -1, -1, -1, count)
    return bytes(batch)


def records(codec: Any, batch: bytes, **options: Any) -> list[Any]:
    return [found for view in codec.read_batches(batch, **options) for found in view.records("t", 0)]


def assert_corrupt(codec: Any, batch: bytes, text: str) -> None:
    with pytest.raises(CorruptRecordError, match=text):
        records(codec, batch)
    for from_offset in (0, 10**9):
        with pytest.raises(CorruptRecordError, match=text):
            [view.columns(from_offset) for view in codec.read_batches(batch)]


def test_the_records_these_tests_bend_are_valid(codec: Any) -> None:
    payload = record(timestamp=ONE, key=ZERO, value=ONE + b"v", headers=ONE + ONE + b"h" + NULL)
    [view] = codec.read_batches(batch_of(codec, payload))
    [found] = view.records("t", 0)
    assert (found.offset, found.timestamp_ms, found.key, found.value, found.headers) == (
        10, NOW + 1, b"", b"v", (("h", None),),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (record(length=ZERO), "no body"),
        (record(length=NULL), "no body"),
        (record(length=MINUS_TWO), "longer than the record"),
        (record(length=INT32_MIN), "longer than the record"),
        (record(length=INT32_MAX), "longer than the record"),
        (record(length=b"\x0a") + b"\x00", "ends within a varint"),
        (record(length=b"\x0e") + b"\x00", "longer than its fields"),
        (record(length=b"\x80" * 6), "no body"),
        (record(length=b"\xff" * 12), "too large"),
        (record(length=b"\xff\xff\xff\xff\x1f"), "too large"),
        (record(timestamp=b"\xff" * 9 + b"\x02"), "too large"),
        (record(timestamp=b"\xff" * 10 + b"\x01"), "too large"),
        (record(timestamp=INT64_MAX), "timestamp is out of range"),
        (record(offset=NULL), "outside its batch"),
        (record(offset=ONE), "outside its batch"),
        (record(offset=INT32_MAX), "outside its batch"),
        (record(offset=INT64_MAX), "too large"),
        (record(key=MINUS_TWO), "longer than the record"),
        (record(key=b"\x08"), "longer than the record"),
        (record(key=INT32_MAX), "longer than the record"),
        (record(value=MINUS_TWO), "longer than the record"),
        (record(value=INT32_MAX), "longer than the record"),
        (record(value=INT32_MIN), "longer than the record"),
        (record(headers=NULL), "number of headers"),
        (record(headers=ONE), "number of headers"),
        (record(headers=INT32_MAX + b"\x00" * 20), "number of headers"),
        (record(headers=ONE + NULL + NULL), "header without key"),
        (record(headers=ONE + MINUS_TWO + NULL), "longer than the record"),
        (record(headers=ONE + ZERO + MINUS_TWO), "longer than the record"),
        (record(headers=ONE + ZERO + b"\x7e"), "longer than the record"),
        (record(headers=ONE + ZERO + NULL + b"\x00"), "longer than its fields"),
        (record(headers=ZERO + b"\x00"), "longer than its fields"),
        (record() + b"\x00", "longer than its records"),
        (record() + record(), "longer than its records"),
        (b"", "invalid number of records: 1"),
        (record()[:-1], "invalid number of records: 1"),
    ],
)
def test_bent_records(codec: Any, payload: bytes, text: str) -> None:
    assert_corrupt(codec, batch_of(codec, payload), text)


@pytest.mark.parametrize("base_timestamp", [2**63 - 1, -(2**63), 0])
def test_times_stay_within_64_bits(codec: Any, base_timestamp: int) -> None:
    for delta, number in ((INT64_MAX, 2**63 - 1), (INT64_MIN, -(2**63)), (ONE, 1), (NULL, -1)):
        batch = batch_of(codec, record(timestamp=delta), base_timestamp=base_timestamp)
        if -(2**63) <= base_timestamp + number < 2**63:
            [view] = codec.read_batches(batch)
            [found] = view.records("t", 0)
            assert found.timestamp_ms == base_timestamp + number == view.columns().timestamps_ms[0]
        else:
            assert_corrupt(codec, batch, "timestamp is out of range")


def test_records_missing(codec: Any) -> None:
    assert_corrupt(codec, batch_of(codec, record(value=b"\x0e1234567"), 2, last_delta=1), "ends within a varint")


@pytest.mark.parametrize("count", [-1, -(2**31), 2, 2**31 - 1])
def test_impossible_counts(codec: Any, count: int) -> None:
    assert_corrupt(codec, batch_of(codec, record(), count), f"invalid number of records: {count}")
    assert_corrupt(codec, batch_of(codec, record(), count, last_delta=2**31 - 1), f"invalid number of records: {count}")


@pytest.mark.parametrize(
    ("at", "field", "text"),
    [
        (0, struct.pack(">q", -1), "invalid offsets"),
        (0, struct.pack(">q", 2**63 - 1), "invalid offsets"),
        (8, struct.pack(">i", -1), "length of -1"),
        (8, struct.pack(">i", 48), "length of 48"),
        (8, struct.pack(">i", 49), "invalid number of records: 1"),
        (16, b"\x03", "unknown message format 3"),
        (16, b"\xff", "unknown message format 255"),
        (16, b"\x01", "longer than its fields|field of"),
        (16, b"\x00", "longer than its fields|field of"),
        (21, b"\x00\x05", "unknown compression codec 5"),
        (21, b"\x00\x07", "unknown compression codec 7"),
        (21, b"\x00\x01", "gzip"),
        (21, b"\x00\x02", "snappy"),
        (21, b"\x00\x03", "lz4"),
        (21, b"\x00\x04", "zstd"),
        (23, struct.pack(">i", -1), "invalid offsets"),
        (23, struct.pack(">i", -(2**31)), "invalid offsets"),
    ],
)
def test_bent_headers(codec: Any, at: int, field: bytes, text: str) -> None:
    batch = bytearray(batch_of(codec, record(value=ONE + b"v")))
    batch[at : at + len(field)] = field
    with pytest.raises(CorruptRecordError, match=text):
        records(codec, bytes(batch), check_crcs=False)


def test_a_length_beyond_the_buffer_is_a_batch_cut_off(codec: Any) -> None:
    batch = bytearray(batch_of(codec, record()))
    batch[8:12] = struct.pack(">i", 2**31 - 1)
    assert list(codec.read_batches(bytes(batch))) == []


def test_every_bit_counts(codec: Any) -> None:
    """Everything except base offset, leader epoch and length is covered by the checksum or checked otherwise."""
    batch = built(codec, SAMPLE[:2])
    for at in range(16, len(batch)):
        bent = bytearray(batch)
        bent[at] ^= 0x40
        with pytest.raises(CorruptRecordError):
            list(codec.read_batches(bytes(bent)))


def test_the_delete_horizon_bit_changes_nothing(codec: Any) -> None:
    batch = bytearray(built(codec, SAMPLE))
    batch[22] |= 0x40
    [view] = codec.read_batches(bytes(batch), check_crcs=False)
    assert [r.timestamp_ms for r in view.records("t", 0)] == [timestamp for timestamp, *_ in SAMPLE]


def test_a_header_key_that_is_no_text_is_read_as_java_reads_it(codec: Any) -> None:
    [view] = codec.read_batches(batch_of(codec, record(headers=ONE + b"\x04a\xff" + ZERO)))
    assert view.records("t", 0)[0].headers == (("a\ufffd", b""),)


@pytest.mark.parametrize("name", CODECS[1:])
def test_decompression_is_bounded(codec: Any, name: str) -> None:
    batch = codec.build_batch([codec.StoredRecord(NOW, None, bytes(1_000_000))], compression=name)
    [view] = codec.read_batches(batch, max_decompressed_bytes=100_000)
    with pytest.raises(BatchTooLargeError, match="larger than 100000 bytes"):
        view.records("t", 0)
    with pytest.raises(BatchTooLargeError, match="larger than 100000 bytes"):
        view.columns()


@pytest.mark.parametrize("name", CODECS)
def test_records_are_bounded_by_their_number_too(codec: Any, name: str) -> None:
    """A record takes seven bytes, and one compressed byte can hold hundreds; each becomes an object."""
    batch = codec.build_batch([codec.StoredRecord(NOW, None, None)] * 2000, compression=name)
    for bound, refused in ((150_000, True), (250_000, False)):
        [view] = codec.read_batches(batch, max_decompressed_bytes=bound)
        for read in (lambda view=view: view.records("t", 0), view.columns):
            if refused:
                with pytest.raises(BatchTooLargeError, match="of 2000 records, is larger than 150000 bytes in memory"):
                    read()
            else:
                assert len(read()) == 2000


def test_what_is_no_flat_buffer_is_refused(codec: Any) -> None:
    with pytest.raises(TypeError):
        list(codec.read_batches("text" * 20))
    batch = built(codec, SAMPLE[:3])
    with pytest.raises((TypeError, ValueError)):
        list(codec.read_batches(memoryview(batch + batch)[::2]))


def test_released_memory_is_not_read(codec: Any) -> None:
    frame = memoryview(bytearray(built(codec, SAMPLE[:3])))
    [view] = codec.read_batches(frame)
    view.load().release()
    with pytest.raises(ValueError, match="released"):
        view.records("t", 0)


def everything(codec: Any, data: bytes) -> list[Any]:
    """Return all results of the codec for ``data``, including errors in their places."""
    seen: list[Any] = []
    try:
        for view in codec.read_batches(data, check_crcs=False, max_decompressed_bytes=1 << 20):
            seen.append(repr(view))
            try:
                seen.append([repr(found) for found in view.records("t", 0)])
                seen.append(view.columns().headers)
            except (BatchTooLargeError, CorruptRecordError) as error:
                seen.append(str(error))
    except (BatchTooLargeError, CorruptRecordError) as error:
        seen.append(str(error))
    return seen


@given(
    st.sampled_from(CODECS),
    st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
    st.integers(0, 400),
)
def test_bent_anywhere_both_variants_say_the_same(
    compression: str, kind: TimestampType, changes: list[tuple[int, int]], end: int
) -> None:
    codec = next(iter(VARIANTS.values()))
    wanted = [codec.StoredRecord(*found) for found in SAMPLE[:6]]
    batch = bytearray(codec.build_batch(wanted, base_offset=5, compression=compression, timestamp_type=kind))
    for at, byte in changes:
        batch[at % len(batch)] = byte
    for data in (bytes(batch), bytes(batch) + bytes(batch)[:end]):
        first, *others = [everything(variant, data) for variant in VARIANTS.values()]
        assert all(other == first for other in others)
