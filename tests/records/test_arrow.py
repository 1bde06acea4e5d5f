"""Columns for Apache Arrow."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead.types import TimestampType

from .material import SAMPLE, RecordTuple, built, records
from .variants import VARIANTS


@given(records, st.integers(0, 25))
def test_arrow_has_what_the_columns_have(wanted: list[RecordTuple], from_offset: int) -> None:
    for codec in VARIANTS.values():
        [view] = codec.read_batches(built(codec, wanted))
        columns = view.columns(from_offset)
        batch = codec.arrow.to_arrow(columns)
        batch.validate(full=True)
        assert batch.num_rows == len(columns)
        assert batch.column("offset").to_pylist() == columns.offsets
        assert batch.column("timestamp").cast(pa.int64()).to_pylist() == columns.timestamps_ms
        assert batch.column("key").to_pylist() == columns.keys
        assert batch.column("value").to_pylist() == columns.values
        headers = [tuple((h["key"], h["value"]) for h in row) for row in batch.column("headers").to_pylist()]
        assert headers == columns.headers


@pytest.mark.parametrize("number", [0, 1, 7, 8, 9])
def test_the_columns_outlive_the_batch(codec: Any, number: int) -> None:
    [view] = codec.read_batches(built(codec, SAMPLE))
    batch = codec.arrow.to_arrow(view.columns(len(SAMPLE) - number))
    del view
    batch.validate(full=True)
    assert batch.column("value").to_pylist() == [value for _, _, value, _ in SAMPLE[len(SAMPLE) - number :]]
    assert batch.schema == pa.schema(
        {
            "offset": pa.int64(),
            "timestamp": pa.timestamp("ms", tz="UTC"),
            "key": pa.binary(),
            "value": pa.binary(),
            "headers": pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
        }
    )


def test_no_timestamp_is_null(codec: Any) -> None:
    stored = [codec.StoredRecord(at_ms, b"k") for at_ms in (-1, 5, -2)]
    [view] = codec.read_batches(codec.build_batch(stored, timestamp_type=TimestampType.CREATE_TIME))
    found = codec.arrow.to_arrow(view.columns()).column("timestamp")
    assert found.cast(pa.int64()).to_pylist() == [None, 5, -2], "before 1970 is a time"
