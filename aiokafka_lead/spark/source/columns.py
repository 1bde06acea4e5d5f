"""Conversion of record batches to Arrow batches with Spark's columns, without a Python object for each record."""

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
"""A record batch, and the number of records at its start that belong to the range."""

TypedReader = Callable[["RecordBatch[Any, Any]", int], pa.RecordBatch]
"""Function that converts a batch to Arrow, given the number of records at its start that belong to the range."""

Kind = tuple[TopicPartition, TimestampType]
"""Properties that all records of a batch have in common."""

Run = tuple[Kind, int]
"""Number of successive records of the same kind."""

_INT = Struct("=i")

MOST_MS = (2**63 - 1) // 1000
"""Latest timestamp that Spark can represent, in ms. Timestamps that a producer wrote in nanoseconds are later."""

MAX_BYTES = 32 * 1024 * 1024
"""Size in bytes at which an Arrow batch is completed. The JVM holds a batch in memory, and its offsets have 32 bits."""


class ArrowColumns:
    """Converts record batches to Arrow batches with the columns of a schema.

    The code avoids `pyarrow.array` and `pyarrow.scalar` for ordinary records. The first call of either imports pandas,
    which takes longer than reading a hundred thousand records.
    """

    def __init__(
        self, schema: pa.Schema, read: TypedReader | None = None, bury: Callable[[DeadLetters], None] | None = None
    ) -> None:
        """Create a converter.

        ``read`` converts batches with typed keys or values. With ``bury``, bad records are passed to this function
        instead of being included.
        """
        self._schema = schema
        self._read = read
        self._bury = bury
        self._empty = pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)

    def empty(self) -> pa.RecordBatch:
        """Return a batch without rows, which lets a task notice its cancellation while no records arrive."""
        return self._empty

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """Yield all records, in order, in Arrow batches of about `MAX_BYTES` at most."""
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
    """Return an array that repeats each scalar the given number of times."""
    parts = [pa.repeat(scalar, count) for scalar, count in runs]
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _text(text: str) -> pa.Scalar:
    content = text.encode()
    ends = _INT.pack(0) + _INT.pack(len(content))
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(ends), pa.py_buffer(content)])[0]


def _number(number: int) -> pa.Scalar:
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(_INT.pack(number))])[0]


def _microseconds(arrow: pa.RecordBatch, kind: pa.DataType, runs: list[Run]) -> pa.Array:
    """Return the timestamps as the type ``kind``, in microseconds. Records without one get -1 ms, as in Kafka.

    Raises OverflowError, which names the record, for a time that Spark cannot represent.
    """
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
            f"record of {tp} at offset {arrow.column('offset')[row]}: Spark cannot represent its timestamp, "
            f"{times_ms[row]} ms; to continue, omit the column 'timestamp' with .schema(...)"
        ) from None


def _headers(headers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return the headers of each record, or null if it has none, as in Spark's connector."""
    if not len(headers.flatten()):
        return pa.nulls(len(headers), kind)
    from pyarrow.compute import call_function  # imported here, because it is slow to import and rarely needed

    none = call_function("equal", [call_function("list_value_length", [headers]), pa.scalar(0, pa.int32())])
    return call_function("if_else", [none, pa.scalar(None, headers.type), headers]).cast(kind)
