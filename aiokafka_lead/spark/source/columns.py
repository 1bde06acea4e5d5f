"""Spark's columns of record batches, as Arrow arrays: no Python object for any record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from ...types import TimestampType, TopicPartition

if TYPE_CHECKING:
    from ...consumer import RecordBatch

__all__ = ["ArrowColumns", "Piece"]

Piece = tuple["RecordBatch[bytes | None, bytes | None]", int]
"""A batch, and how many of its records belong to the range, from the first on."""

Kind = tuple[TopicPartition, TimestampType]
"""What is the same for all records of a batch."""

MAX_BYTES = 32 * 1024 * 1024
"""An Arrow batch is closed when it has become as large: the JVM holds it as a whole, and offsets have 32 bits."""


class ArrowColumns:
    """Turns record batches into Arrow batches of a schema that is made of Spark's columns."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)

    def empty(self) -> pa.RecordBatch:
        """A batch without rows: says nothing to Spark, but lets it see that its task is alive."""
        return self._empty

    def batches(self, pieces: Sequence[Piece]) -> Iterator[pa.RecordBatch]:
        """All records, in order, in as few batches as `MAX_BYTES` allows."""
        runs: list[tuple[Kind, list[pa.RecordBatch]]] = []
        size = 0
        for batch, count in pieces:
            arrow = batch.to_arrow()
            size += arrow.get_total_buffer_size()
            kind = (batch.topic_partition, batch.timestamp_type)
            if not runs or runs[-1][0] != kind:
                runs.append((kind, []))
            runs[-1][1].append(arrow if count == len(batch) else arrow.slice(0, count))
            if size > MAX_BYTES:
                yield self._joined(runs)
                runs, size = [], 0
        if runs:
            yield self._joined(runs)

    def _joined(self, runs: list[tuple[Kind, list[pa.RecordBatch]]]) -> pa.RecordBatch:
        """Batches of one kind are joined before they get the columns that are the same in all their rows."""
        parts = [[_column(field, kind, pa.concat_batches(arrows)) for field in self._schema] for kind, arrows in runs]
        columns = parts[0] if len(parts) == 1 else [pa.concat_arrays(same) for same in zip(*parts, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)


def _column(field: pa.Field, kind: Kind, arrow: pa.RecordBatch) -> pa.Array:
    (topic, partition), timestamp_type = kind
    match field.name:
        case "topic":
            return pa.repeat(pa.scalar(topic, field.type), len(arrow))
        case "partition":
            return pa.repeat(pa.scalar(partition, field.type), len(arrow))
        case "timestampType":
            return pa.repeat(pa.scalar(int(timestamp_type), field.type), len(arrow))
        case "timestamp":
            return _microseconds(arrow.column("timestamp"), field.type)
        case "headers":
            return _headers(arrow.column("headers"), field.type)
        case name:
            return arrow.column(name)


_NO_TIME = pa.scalar(-1, pa.timestamp("ms", tz="UTC"))


def _microseconds(timestamps: pa.Array, kind: pa.DataType) -> pa.Array:
    """Spark's unit; -1 ms, which is what Kafka stores, where a record has no time, as in Spark's connector."""
    if timestamps.null_count:
        timestamps = timestamps.fill_null(_NO_TIME)
    return timestamps.cast(kind)


def _headers(headers: pa.Array, kind: pa.DataType) -> pa.Array:
    """Null where a record has none, as in Spark's connector."""
    if not len(headers.flatten()):
        return pa.nulls(len(headers), kind)
    from pyarrow.compute import call_function  # takes a while, and is not needed where no record has headers

    none = call_function("equal", [call_function("list_value_length", [headers]), pa.scalar(0, pa.int32())])
    return call_function("if_else", [none, pa.scalar(None, headers.type), headers]).cast(kind)
