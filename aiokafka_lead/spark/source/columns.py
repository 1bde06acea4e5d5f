"""Converts record batches to Spark's columns as Arrow arrays, without a Python object for any record."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ...types import TimestampType, TopicPartition
from .bad_records import CORRUPT, DeadLetters

if TYPE_CHECKING:
    from ...consumer import RecordBatch

Piece = tuple["RecordBatch[bytes | None, bytes | None]", int]
"""A batch, and the number of its first records that belong to the range."""

TypedReader = Callable[["RecordBatch[Any, Any]", int], pa.RecordBatch]
"""Converts a batch to Arrow, given the number of records that belong to the range. The rest may be ignored."""

Kind = tuple[TopicPartition, TimestampType]
"""The properties common to all records of a batch."""

Run = tuple[Kind, int]
"""A kind, and the number of successive records of this kind."""

_INT = Struct("=i")

MOST_MS = (2**63 - 1) // 1000
"""Spark's latest timestamp in ms. Timestamps written in nanoseconds are beyond it."""

MAX_BYTES = 32 * 1024 * 1024
"""An Arrow batch is closed at this size: the JVM holds it as a whole, and offsets have 32 bits."""


class ArrowColumns:
    """Converts record batches to Arrow batches of a schema of Spark's columns.

    Neither `pyarrow.array` nor `pyarrow.scalar` is called for an ordinary record: the first call of either imports
    pandas, which takes longer than reading a hundred thousand records.
    """

    def __init__(
        self, schema: pa.Schema, read: TypedReader | None = None, bury: Callable[[DeadLetters], None] | None = None
    ) -> None:
        """Build batches of this schema; ``read`` converts a batch with typed keys or values.

        Unreadable records are left out, and passed to ``bury`` if given.
        """
        self._schema = schema
        self._read = read
        self._bury = bury
        self._empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)

    def empty(self) -> pa.RecordBatch:
        """Return a batch without rows: it has no data for Spark, but shows that its task is alive."""
        return self._empty

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Yield all records, in order, in as few batches as `MAX_BYTES` allows."""
        arrows: list[pa.RecordBatch] = []
        runs: list[Run] = []
        size = 0
        for batch, count in pieces:
            arrow = batch.to_arrow() if self._read is None else self._read(batch, count)
            size += arrow.get_total_buffer_size()
            kind = (batch.topic_partition, batch.timestamp_type)
            arrows.append(arrow if count == len(batch) else arrow.slice(0, count))
            before = runs.pop()[1] if runs and runs[-1][0] == kind else 0
            runs.append((kind, before + count))
            if size > MAX_BYTES:
                yield self._joined(arrows, runs)
                arrows, runs, size = [], [], 0
        if arrows:
            yield self._joined(arrows, runs)

    def _joined(self, arrows: list[pa.RecordBatch], runs: list[Run]) -> pa.RecordBatch:
        (arrow,) = pa.Table.from_batches(arrows).combine_chunks().to_batches()
        made = pa.RecordBatch.from_arrays([_column(field, arrow, runs) for field in self._schema], schema=self._schema)
        if self._bury is None or arrow.column(CORRUPT).null_count == len(arrow):
            return made
        places = [tp for (tp, _), count in runs for _ in range(count)]
        dead = arrow.select(["offset", "timestamp", "headers", CORRUPT])
        dead = dead.set_column(1, "timestamp", dead.column(1).cast(pa.int64())).to_pylist()
        self._bury([(tp, row) for tp, row in zip(places, dead, strict=True) if row[CORRUPT] is not None])
        return made.filter(arrow.column(CORRUPT).is_null())


def _column(field: pa.Field, arrow: pa.RecordBatch, runs: list[Run]) -> pa.Array:
    match field.name:
        case "topic":
            return _repeated([(_text(tp.topic), count) for (tp, _), count in runs])
        case "partition":
            return _repeated([(_number(tp.partition), count) for (tp, _), count in runs])
        case "timestampType":
            return _repeated([(_number(timestamp_type), count) for (_, timestamp_type), count in runs])
        case "timestamp":
            return _microseconds(arrow, field.type, runs)
        case "headers":
            return _headers(arrow.column("headers"), field.type)
        case name:
            column = arrow.column(name)
            return column if column.type == field.type else column.cast(field.type)


def _repeated(runs: list[tuple[pa.Scalar, int]]) -> pa.Array:
    """Return an array in which each value is repeated as often as given."""
    parts = [pa.repeat(scalar, count) for scalar, count in runs]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _text(text: str) -> pa.Scalar:
    content = text.encode()
    ends = _INT.pack(0) + _INT.pack(len(content))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(content)])[0]


def _number(number: int) -> pa.Scalar:
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(_INT.pack(number))])[0]


def _microseconds(arrow: pa.RecordBatch, kind: pa.DataType, runs: list[Run]) -> pa.Array:
    """Return timestamps in Spark's unit; -1 ms, as stored by Kafka, for a record without time."""
    timestamps = arrow.column("timestamp")
    if timestamps.null_count:
        timestamps = timestamps.fill_null(pa.scalar(-1, timestamps.type))
    try:
        return timestamps.cast(kind)
    except pa.ArrowInvalid:
        times_ms = timestamps.cast(pa.int64()).to_pylist()
        row = next(row for row, time_ms in enumerate(times_ms) if abs(time_ms) > MOST_MS)
        tp = [tp for (tp, _), count in runs for _ in range(count)][row]
        raise OverflowError(
            f"record of {tp} at offset {arrow.column('offset')[row]}: Spark has no time for its timestamp, "
            f"{times_ms[row]} ms (a .schema(...) without the column 'timestamp' reads on)"
        ) from None


def _headers(headers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return headers, with null for a record without any, as in Spark's connector."""
    if not len(headers.flatten()):
        return pa.nulls(len(headers), kind)
    from pyarrow.compute import call_function  # slow to import, and not needed if no record has headers

    none = call_function("equal", [call_function("list_value_length", [headers]), pa.scalar(0, pa.int32())])
    return call_function("if_else", [none, pa.scalar(None, headers.type), headers]).cast(kind)
