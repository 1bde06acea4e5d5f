"""Batches as brokers build them."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead.errors import CorruptRecordError
from aiokafka_lead.types import TimestampType

from .material import CODECS, NOW, SAMPLE, built, read


@pytest.mark.parametrize("compression", CODECS)
def test_offsets_and_epoch_are_given_without_touching_the_records(codec: Any, compression: str) -> None:
    batch = built(codec, SAMPLE, compression, producer_id=4, producer_epoch=1, base_sequence=9)
    stored = codec.assign_offsets(batch, 2**40, 17)
    assert stored[12:12] + stored[16:] == batch[16:]
    [view] = codec.read_batches(stored)
    assert (view.base_offset, view.last_offset, view.leader_epoch) == (2**40, 2**40 + 199, 17)
    assert (view.producer_id, view.producer_epoch, view.base_sequence) == (4, 1, 9)
    found = view.records("t", 0, 2**40 + 150)
    assert [r.offset for r in found] == [2**40 + i for i in range(150, 200)]
    assert {r.leader_epoch for r in found} == {17}


@pytest.mark.parametrize("compression", CODECS)
def test_log_append_time(codec: Any, compression: str) -> None:
    stored = codec.assign_offsets(built(codec, SAMPLE, compression), 5, 0, log_append_time_ms=NOW + 999)
    [view] = codec.read_batches(stored)
    assert (view.timestamp_type, view.max_timestamp_ms) == (TimestampType.LOG_APPEND_TIME, NOW + 999)
    assert {r.timestamp_ms for r in view.records("t", 0)} == set(view.columns().timestamps_ms) == {NOW + 999}
    assert [record[1:] for record in read(codec, stored)] == [record[1:] for record in SAMPLE]


def test_only_one_whole_batch_is_stored(codec: Any) -> None:
    batch = built(codec, SAMPLE[:2])
    for wrong in (b"", batch[:60], batch[:-1], batch + b"\x00", batch + batch, batch[:16] + b"\x01" + batch[17:]):
        with pytest.raises(CorruptRecordError):
            codec.assign_offsets(wrong, 0, 0)


@pytest.mark.parametrize("name", ["COMMIT", "ABORT"])
def test_transaction_markers(codec: Any, name: str) -> None:
    kind = codec.ControlType[name]
    marker = codec.control_batch(
        kind, base_offset=77, timestamp_ms=NOW, producer_id=5, producer_epoch=3, coordinator_epoch=9, leader_epoch=2
    )
    [view] = codec.read_batches(marker)
    assert (view.is_control, view.is_transactional, view.control_type()) == (True, True, kind)
    assert (view.base_offset, view.last_offset, view.producer_id, view.producer_epoch) == (77, 77, 5, 3)
    [record] = view.records("t", 0)
    assert record.key == (b"\x00\x00\x00\x01" if name == "COMMIT" else b"\x00\x00\x00\x00")
    assert record.value == b"\x00\x00\x00\x00\x00\x09"


def test_control_records_of_the_future(codec: Any) -> None:
    def kind(key: bytes | None) -> Any:
        [view] = codec.read_batches(codec.build_batch([codec.StoredRecord(NOW, key)], control=True))
        return view.control_type()

    assert kind(b"\x00\x00\x00\x63") is codec.ControlType.UNKNOWN
    assert kind(b"\x00\x05\x00\x01more") is codec.ControlType.COMMIT
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x01"):
        with pytest.raises(CorruptRecordError, match="control record"):
            kind(key)


def test_a_batch_of_records_has_no_control_type(codec: Any) -> None:
    [view] = codec.read_batches(built(codec, SAMPLE[:1]))
    with pytest.raises(ValueError, match="not a control batch"):
        view.control_type()


def test_compacted_batches(codec: Any) -> None:
    kept = [codec.StoredRecord(NOW, b"a", offset=12), codec.StoredRecord(NOW, b"b", offset=15)]
    [view] = codec.read_batches(codec.build_batch(kept, base_offset=10, last_offset_delta=9))
    assert (view.base_offset, view.last_offset, view.next_offset, view.record_count) == (10, 19, 20, 2)
    assert [r.offset for r in view.records("t", 0)] == view.columns().offsets == [12, 15]
    assert view.columns(13).keys == [b"b"]
    [empty] = codec.read_batches(codec.build_batch([], base_offset=10, last_offset_delta=9))
    assert (empty.next_offset, empty.records("t", 0), empty.columns().values) == (20, [], [])
