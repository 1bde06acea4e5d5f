"""The builder of one producer batch: limits, states, errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.errors import IllegalStateError
from aiokafka_lead.types import Header

from .material import CODECS, NOW, SAMPLE, RecordTuple, built, contents, headers, read, records
from .variants import VARIANTS


@given(records, st.integers(61, 20_000))
def test_a_batch_never_exceeds_its_size(wanted: list[RecordTuple], batch_size: int) -> None:
    for codec in VARIANTS.values():
        builder = codec.BatchBuilder(batch_size=batch_size)
        taken = 0
        for record in wanted:
            before = builder.size_bytes
            index = builder.append(*record)
            if index < 0:
                assert builder.size_bytes == before
                assert before + codec.estimated_size(*record[1:]) > batch_size
                break
            assert index == taken
            assert builder.size_bytes - before <= codec.estimated_size(*record[1:])
            taken += 1
        assert builder.record_count == taken >= 1
        batch = builder.build()
        assert len(batch) == builder.size_bytes
        assert len(batch) <= batch_size or taken == 1
        assert read(codec, bytes(batch)) == wanted[:taken]


@given(records, st.integers(61, 20_000), st.sampled_from(CODECS))
def test_a_split_batch_has_the_same_records_in_order(
    wanted: list[RecordTuple], max_bytes: int, compression: str
) -> None:
    for codec in VARIANTS.values():
        builder = codec.BatchBuilder(batch_size=10_000_000, compression=compression)
        for record in wanted:
            builder.append(*record)
        parts = builder.split(max_bytes)
        assert all(part.size_bytes <= max_bytes or part.record_count == 1 for part in parts)
        assert [record for part in parts for record in read(codec, bytes(part.build()))] == wanted


@given(st.lists(st.none() | st.binary(max_size=300), max_size=60), st.integers(61, 5_000), st.integers(0, 60))
def test_appending_values_is_appending_one_by_one(values: list[bytes | None], batch_size: int, start: int) -> None:
    for codec in VARIANTS.values():
        bulk, single = (codec.BatchBuilder(batch_size=batch_size) for _ in range(2))
        taken = bulk.append_values(NOW, values, start)
        for value in values[start:]:
            if single.append(NOW, None, value) < 0:
                break
        assert taken == bulk.record_count == single.record_count
        assert (bulk.size_bytes, bulk.max_timestamp_ms) == (single.size_bytes, single.max_timestamp_ms)
        if taken:
            assert bulk.build() == single.build()


@given(
    st.lists(headers, min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.booleans(), contents), min_size=1, max_size=40),
)
def test_headers_that_come_again_are_written_again(
    kinds: list[tuple[Header, ...]], wanted: list[tuple[int, bool, bytes | None]]
) -> None:
    """The same object, an equal one, or a list that changes afterwards."""
    for codec in VARIANTS.values():
        builder = codec.BatchBuilder(batch_size=10_000_000)
        changing: list[Header] = []
        expected: list[RecordTuple] = []
        for kind, by_list, value in wanted:
            one = kinds[kind % len(kinds)]
            changing[:] = one
            builder.append(NOW, None, value, changing if by_list else one)
            expected.append((NOW, None, value, one))
        assert read(codec, bytes(builder.build())) == expected


@pytest.mark.parametrize("compression", CODECS)
def test_a_batch_built_again_has_another_header_and_the_same_records(codec: Any, compression: str) -> None:
    builder = codec.BatchBuilder(batch_size=100_000, compression=compression)
    for record in SAMPLE:
        builder.append(*record)
    first = builder.build(producer_id=5, producer_epoch=0, base_sequence=10)
    kept = bytes(first)
    assert builder.build(producer_id=5, producer_epoch=0, base_sequence=10) is first
    second = builder.build(producer_id=5, producer_epoch=1, base_sequence=0, transactional=True)
    assert bytes(first) == kept
    assert first.readonly
    assert len(second) == len(first)
    [view] = codec.read_batches(second)
    assert (view.producer_epoch, view.base_sequence, view.is_transactional) == (1, 0, True)
    assert read(codec, bytes(second)) == SAMPLE == read(codec, kept)


def test_what_does_not_compress_is_sent_as_it_is_rather_than_exceed_the_batch_size(codec: Any) -> None:
    noise = bytes((i * i * 7919 >> 3) & 0xFF ^ (i * 31 & 0xFF) for i in range(32))
    value = b"".join(
        codec.murmur2(noise + bytes([i % 256, i // 256])).to_bytes(4, "big", signed=True) for i in range(4000)
    )
    for compression in CODECS[1:]:
        builder = codec.BatchBuilder(batch_size=61 + 16_020, compression=compression)
        builder.append(NOW, None, value)
        batch = builder.build()
        assert len(batch) <= builder.size_bytes <= builder.batch_size
        assert read(codec, bytes(batch)) == [(NOW, None, value, ())]
        [part] = builder.split(100)
        assert read(codec, bytes(part.build())) == [(NOW, None, value, ())]


def test_a_small_batch_is_compressed_though_it_grows(codec: Any) -> None:
    [view] = codec.read_batches(built(codec, [(NOW, None, b"x", ())], "gzip"))
    assert view.compression == "gzip"


def test_times_are_the_first_and_the_latest(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    assert (builder.base_timestamp_ms, builder.max_timestamp_ms) == (-1, -1)
    for timestamp_ms in (50, 70, 60, 0):
        builder.append(timestamp_ms, None, None)
    assert (builder.base_timestamp_ms, builder.max_timestamp_ms) == (50, 70)


def test_bytes_like_contents_are_taken(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    builder.append(NOW, bytearray(b"k"), memoryview(b"v"), [["h", bytearray(b"x")]])
    builder.append_values(NOW, (memoryview(b"w"), None), 0)
    assert read(codec, bytes(builder.build())) == [
        (NOW, b"k", b"v", (("h", b"x"),)),
        (NOW, None, b"w", ()),
        (NOW, None, None, ()),
    ]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((NOW, "key", b""), TypeError, "key must be bytes or None, not str"),
        ((NOW, None, 5), TypeError, "value must be bytes or None, not int"),
        ((NOW, None, b"", [("h", "x")]), TypeError, "header value must be bytes or None, not str"),
        ((NOW, None, b"", [(b"h", b"x")]), TypeError, "header's key must be str, not bytes"),
        ((NOW, None, b"", [(None, b"x")]), TypeError, "header's key must be str, not NoneType"),
        ((NOW, None, b"", [("h",)]), ValueError, "unpack"),
        ((NOW, None, b"", [("\ud800", b"")]), UnicodeEncodeError, "surrogates"),
        ((-1, None, b""), ValueError, "timestamp_ms must not be negative: -1"),
        ((2**63, None, b""), OverflowError, "too large|64 bits"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_leaves_the_batch_as_it_was(
    codec: Any, arguments: tuple[Any, ...], error: type[Exception], text: str
) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    builder.append(NOW, None, b"before")
    with pytest.raises(error, match=text):
        builder.append(*arguments)
    builder.append(NOW, None, b"after")
    assert [value for _, _, value, _ in read(codec, bytes(builder.build()))] == [b"before", b"after"]


def test_an_error_among_many_values_keeps_those_before_it(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    with pytest.raises(TypeError, match="not str"):
        builder.append_values(NOW, [b"a", "b", b"c"], 0)
    assert builder.record_count == 1


def test_states(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    with pytest.raises(IllegalStateError, match="empty"):
        builder.build()
    builder.append(NOW, None, None)
    builder.build()
    with pytest.raises(IllegalStateError, match="built"):
        builder.append(NOW, None, None)
    with pytest.raises(IllegalStateError, match="built"):
        builder.append_values(NOW, [b""], 0)
    with pytest.raises(KeyError):
        codec.BatchBuilder(batch_size=1000, compression="brotli")


def test_a_build_that_fails_can_be_repeated(codec: Any) -> None:
    for compression in CODECS:
        builder = codec.BatchBuilder(batch_size=100_000, compression=compression)
        for record in SAMPLE:
            builder.append(*record)
        with pytest.raises(OverflowError):
            builder.build(producer_epoch=2**15)
        with pytest.raises(IllegalStateError, match="built"):
            builder.append(NOW, None, b"x" * 100_000)
        assert read(codec, bytes(builder.build(producer_epoch=2**15 - 1))) == SAMPLE


def test_a_level_that_the_codec_does_not_have(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=100_000, compression="gzip", compression_level=99)
    builder.append(NOW, None, b"v")
    for _ in range(2):
        with pytest.raises(ValueError, match=r"[Ii]nvalid|level"):
            builder.build()
        builder.append(NOW, None, b"x" * 5000)


def test_a_value_is_read_by_its_buffer_and_none_of_its_own_methods_is_run(codec: Any) -> None:
    class Value(bytearray):
        """Bytes-like, and would execute code if it were asked for its bytes."""

        def __bytes__(self) -> bytes:
            values.clear()
            return b"other"

    values: list[Any] = [Value(b"v"), b"w", b"x"]
    builder = codec.BatchBuilder(batch_size=1000)
    assert builder.append_values(NOW, values, 0) == 3
    assert [value for _, _, value, _ in read(codec, bytes(builder.build()))] == [b"v", b"w", b"x"]


def test_values_are_taken_from_a_place_within_them(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=1000)
    with pytest.raises(ValueError, match="start must not be negative"):
        builder.append_values(NOW, [b"v"], -1)
    assert builder.append_values(NOW, [b"v"], 5) == 0


def test_a_batch_built_while_a_record_is_read_takes_it_no_more(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=10_000)
    builder.append(NOW, None, b"v")

    class Building(list[Any]):
        """Builds the batch when it is read."""

        def __iter__(self) -> Any:
            builder.build()
            return super().__iter__()

    with pytest.raises(IllegalStateError, match="built"):
        builder.append(NOW, None, b"v", Building([("h", b"")]))


def test_a_first_record_larger_than_the_batch_is_taken_alone(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=100)
    value = b"x" * 1_000_000
    assert builder.append(NOW, None, value) == 0
    assert builder.append(NOW, None, b"") == -1
    assert read(codec, bytes(builder.build())) == [(NOW, None, value, ())]


def test_headers_that_change_while_they_are_read_do_no_harm(codec: Any) -> None:
    builder = codec.BatchBuilder(batch_size=10_000)

    class Growing(list[Any]):
        """Grows with each reading."""

        def __iter__(self) -> Any:
            self.append(("h", b"x" * 1000))
            return super().__iter__()

    for _ in range(3):
        builder.append(NOW, None, b"v", Growing([("h", b"")]))
    assert all(headers for *_, headers in read(codec, bytes(builder.build())))
