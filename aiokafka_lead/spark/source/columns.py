"""Spark's columns of record batches, as Arrow arrays: no Python object for any record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ...consumer import RecordBatch

__all__ = ["ArrowColumns", "Piece"]

Piece = tuple[RecordBatch[bytes | None, bytes | None], int]
"""A batch, and how many of its records belong to the range, from the first on."""

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
        held: list[list[pa.Array]] = []
        size = 0
        for batch, count in pieces:
            arrays = self._arrays(batch, count)
            held.append(arrays)
            size += sum(array.nbytes for array in arrays)
            if size > MAX_BYTES:
                yield self._joined(held)
                held, size = [], 0
        if held:
            yield self._joined(held)

    def _joined(self, held: list[list[pa.Array]]) -> pa.RecordBatch:
        columns = held[0] if len(held) == 1 else [pa.concat_arrays(parts) for parts in zip(*held, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _arrays(self, batch: RecordBatch[bytes | None, bytes | None], count: int) -> list[pa.Array]:
        arrow = batch.to_arrow()
        if count < len(batch):
            arrow = arrow.slice(0, count)
        return [self._column(field, batch, arrow, count) for field in self._schema]

    def _column(
        self, field: pa.Field, batch: RecordBatch[bytes | None, bytes | None], arrow: pa.RecordBatch, count: int
    ) -> pa.Array:
        match field.name:
            case "topic":
                return pa.repeat(pa.scalar(batch.topic, field.type), count)
            case "partition":
                return pa.repeat(pa.scalar(batch.partition, field.type), count)
            case "timestampType":
                return pa.repeat(pa.scalar(int(batch.timestamp_type), field.type), count)
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
    return pc.if_else(pc.equal(pc.list_value_length(headers), 0), pa.scalar(None, headers.type), headers).cast(kind)
