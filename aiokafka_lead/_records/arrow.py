"""A batch's columns for Apache Arrow, without a Python object for any record. Needs pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .columns import Columns

if TYPE_CHECKING:
    import pyarrow

    from .decoder import Packed

__all__ = ["to_arrow"]


def to_arrow(columns: Columns) -> pyarrow.RecordBatch:
    """``offset`` int64, ``timestamp`` in ms and UTC (null for none), ``key``, ``value`` binary, ``headers`` list."""
    import pyarrow as pa

    index = columns.index
    count = len(columns)
    return pa.record_batch(
        {
            "offset": pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(index.offsets)]),
            "timestamp": _timestamps(columns),
            "key": _binary(count, index.packed_keys()),
            "value": _binary(count, index.packed_values()),
            "headers": _headers(columns),
        }
    )


def _binary(count: int, packed: Packed) -> pyarrow.Array:
    import pyarrow as pa

    ends, contents, validity = packed
    bits = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(pa.binary(), count, [bits, pa.py_buffer(ends), pa.py_buffer(contents)])


def _timestamps(columns: Columns) -> pyarrow.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    times = pa.Array.from_buffers(pa.int64(), len(columns), [None, pa.py_buffer(columns.index.timestamps_ms)])
    lowest = pc.call_function("min", [times]).as_py()
    if lowest is not None and lowest < 0:
        known = pc.call_function("greater_equal", [times, 0])
        times = pc.call_function("if_else", [known, times, pa.scalar(None, pa.int64())])
    return times.view(pa.timestamp("ms", tz="UTC"))


def _headers(columns: Columns) -> pyarrow.Array:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    if not columns.index.has_headers():
        ends = pa.py_buffer(bytes(4 * (len(columns) + 1)))
        return pa.ListArray.from_buffers(pa.list_(header), len(columns), [None, ends], children=[pa.array([], header)])
    rows = [[{"key": key, "value": value} for key, value in headers] for headers in columns.headers]
    return pa.array(rows, pa.list_(header))
