from __future__ import annotations

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from aiokafka_lead._core.consumer.deserializers import Deserializers
from aiokafka_lead._core.consumer.record_batch import RecordBatch
from aiokafka_lead._records import StoredRecord, build_batch
from aiokafka_lead.errors import RecordDeserializationError

from .fetch_world import T0, World


def taken(deserializers: Deserializers | None = None, start: int = 0) -> RecordBatch[object, object]:
    world = World(T0, deserializers=deserializers)
    state = world.state()
    state.move(start)
    records = [
        StoredRecord(1000, b"k", b"1", [("h", b"x"), ("h", None)]),
        StoredRecord(2000, None, b"2"),
        StoredRecord(-1, b"k2", None, offset=17),
    ]
    world.hold(state, build_batch(records, base_offset=10, leader_epoch=4))
    batch = world.prefetch.batch()
    assert batch is not None
    return batch


def test_columns() -> None:
    batch = taken()
    assert (batch.topic, batch.partition, batch.topic_partition) == ("t", 0, T0)
    assert (len(batch), batch.base_offset, batch.next_offset, batch.leader_epoch) == (3, 10, 18, 4)
    assert batch.offsets == [10, 11, 17]
    assert batch.timestamps_ms == [1000, 2000, -1]
    assert batch.keys == [b"k", None, b"k2"]
    assert batch.values == [b"1", b"2", None]
    assert batch.headers == [(("h", b"x"), ("h", None)), (), ()]
    assert repr(batch) == "<RecordBatch t-0 offsets 10..17 records=3>"


def test_only_from_the_position_on() -> None:
    batch = taken(start=11)
    assert (batch.base_offset, batch.values) == (11, [b"2", None])


def test_content_is_deserialized_and_none_left_alone() -> None:
    batch = taken(Deserializers(key=bytes.decode, value=json.loads))
    assert batch.keys == ["k", None, "k2"]
    assert batch.values == [1, 2, None]
    assert batch.values is batch.values


def test_what_cannot_be_deserialized_is_named() -> None:
    batch = taken(Deserializers(key=int))
    with pytest.raises(RecordDeserializationError, match="key of the record at offset 10") as caught:
        _ = batch.keys
    assert caught.value.record.value == b"1"
    assert batch.values == [b"1", b"2", None]


def test_arrow() -> None:
    table = taken(Deserializers(value=json.loads)).to_arrow()
    assert table.schema.names == ["offset", "timestamp", "key", "value", "headers"]
    assert table.schema.field("timestamp").type == pa.timestamp("ms", tz="UTC")
    rows = table.to_pylist()
    assert rows[0] == {
        "offset": 10,
        "timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
        "key": b"k",
        "value": b"1",
        "headers": [{"key": "h", "value": b"x"}, {"key": "h", "value": None}],
    }
    assert (rows[2]["timestamp"], rows[2]["value"], rows[2]["headers"]) == (None, None, [])
