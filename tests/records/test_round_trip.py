"""Records are read as they were written, by both variants of the codec."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.types import TimestampType

from .material import CODECS, SAMPLE, RecordTuple, built, read, records
from .variants import VARIANTS


@given(records, st.sampled_from(CODECS))
def test_each_variant_reads_what_each_writes(wanted: list[RecordTuple], compression: str) -> None:
    batches = [built(codec, wanted, compression) for codec in VARIANTS.values()]
    assert all(batch == batches[0] for batch in batches)
    for codec in VARIANTS.values():
        assert read(codec, batches[0]) == wanted


@given(records, st.integers(0, 25))
def test_columns_are_the_records_turned(wanted: list[RecordTuple], from_offset: int) -> None:
    batch = built(next(iter(VARIANTS.values())), wanted)
    for codec in VARIANTS.values():
        [view] = codec.read_batches(batch)
        columns = view.columns(from_offset)
        assert len(columns) == len(wanted[from_offset:])
        assert columns.offsets == list(range(from_offset, len(wanted)))
        turned = zip(columns.timestamps_ms, columns.keys, columns.values, columns.headers, strict=True)
        assert list(turned) == wanted[from_offset:]
        assert read(codec, batch, from_offset) == wanted[from_offset:]


@pytest.mark.parametrize("compression", CODECS)
def test_header_of_a_producers_batch(codec: Any, compression: str) -> None:
    batch = built(
        codec,
        SAMPLE,
        compression,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=2**31 - 1,
        transactional=True,
        leader_epoch=3,
    )
    [view] = codec.read_batches(memoryview(batch))
    assert (view.base_offset, view.last_offset, view.next_offset) == (0, 199, 200)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (2**40, 7, 2**31 - 1)
    assert (view.leader_epoch, view.is_transactional, view.is_control) == (3, True, False)
    assert (view.magic, view.compression, view.record_count, view.size_bytes) == (2, compression, 200, len(batch))
    assert view.timestamp_type is TimestampType.CREATE_TIME
    assert view.max_timestamp_ms == max(timestamp for timestamp, *_ in SAMPLE)
    assert view.is_loaded is (compression == "none")
    [record] = view.records("topic", 12, 199)
    assert (record.topic, record.partition, record.offset, record.leader_epoch) == ("topic", 12, 199, 3)
    assert record.timestamp_type is TimestampType.CREATE_TIME
    assert view.is_loaded


def test_batches_follow_one_another_and_a_truncated_one_is_left_out(codec: Any) -> None:
    first, second = built(codec, SAMPLE[:3]), built(codec, SAMPLE[3:5], "lz4")
    stream = first + second
    for end in range(len(stream) + 1):
        whole = (end >= len(first)) + (end >= len(stream))
        assert len(list(codec.read_batches(stream[:end]))) == whole


def test_a_batch_before_a_corrupt_one_is_still_read(codec: Any) -> None:
    good = built(codec, SAMPLE[:3])
    bad = bytearray(good)
    bad[-1] ^= 1
    batches = codec.read_batches(good + bytes(bad))
    assert next(batches).record_count == 3
    with pytest.raises(codec.reading.CorruptRecordError, match="checksum"):
        next(batches)
    assert [batch.record_count for batch in codec.read_batches(good + bytes(bad), check_crcs=False)] == [3, 3]


def test_any_buffer_is_read(codec: Any) -> None:
    batch = built(codec, SAMPLE[:3])
    for buffer in (batch, bytearray(batch), memoryview(bytearray(batch)), memoryview(b"ab" + batch)[2:]):
        [view] = codec.read_batches(buffer)
        assert [record.value for record in view.records("t", 0)] == [value for _, _, value, _ in SAMPLE[:3]]
