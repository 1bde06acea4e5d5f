"""Converts the columns of a batch to Apache Arrow, without creating an object for each record. Needs pyarrow."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

from .batch import Columns
from .decoder import Packed

_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_HEADERS = pa.list_(_HEADER)
_NO_HEADERS = pa.nulls(0, _HEADER)
_INT64 = pa.int64()
_BINARY = pa.binary()
_TIMESTAMP = pa.timestamp("ms", tz="UTC")

SCHEMA = pa.schema(
    [("offset", _INT64), ("timestamp", _TIMESTAMP), ("key", _BINARY), ("value", _BINARY), ("headers", _HEADERS)]
)
"""The columns of the result.

``timestamp`` is null if a record has no timestamp, which Kafka represents as -1. Other negative numbers are times
before 1970.
"""


def to_arrow(columns: Columns) -> pa.RecordBatch:
    """Return the records in the columns of `SCHEMA`."""
    index = columns.index
    count = len(columns)
    columns_in_order = [
        pa.Array.from_buffers(_INT64, count, [None, pa.py_buffer(index.offsets)]),
        _timestamps(columns),
        _binary(count, index.packed_keys()),
        _binary(count, index.packed_values()),
        _headers(columns),
    ]
    return pa.RecordBatch.from_arrays(columns_in_order, schema=SCHEMA)


def _binary(count: int, packed: Packed) -> pa.Array:
    ends, contents, validity = packed
    bits = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(_BINARY, count, [bits, pa.py_buffer(ends), pa.py_buffer(contents)])


def _timestamps(columns: Columns) -> pa.Array:
    index = columns.index
    if index.has_missing_times():
        return pa.array([None if time == -1 else time for time in columns.timestamps_ms], _TIMESTAMP)
    return pa.Array.from_buffers(_TIMESTAMP, len(columns), [None, pa.py_buffer(index.timestamps_ms)])


def _headers(columns: Columns) -> pa.Array:
    if columns.index.has_headers():
        rows = [[{"key": key, "value": value} for key, value in headers] for headers in columns.headers]
        return pa.array(rows, _HEADERS)
    return _no_headers(len(columns))


@lru_cache(maxsize=64)
def _no_headers(count: int) -> pa.Array:
    # The usual case, because batches often have the same length.
    ends = pa.py_buffer(bytes(4 * (count + 1)))
    return pa.Array.from_buffers(_HEADERS, count, [None, ends], children=[_NO_HEADERS])
