"""Conversion of Arrow batches to arguments of `Producer.send_many`, column by column."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby, pairwise, repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructField, StructType

from ...types import Header
from ..kafka_options import mention_column
from ..schemas import Typed

_HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
_TYPES: dict[str, tuple[DataType, ...]] = {
    "topic": (StringType(),),
    "partition": (IntegerType(),),
    "key": (StringType(), BinaryType()),
    "value": (StringType(), BinaryType()),
    "headers": (_HEADERS,),
}


class RecordColumns(NamedTuple):
    """The index of the column for each part of a record, or None if there is no such column."""

    value: int
    key: int | None
    headers: int | None
    partition: int | None
    """If it is null in a row, the producer chooses the partition."""
    topic: int | str
    """Number of the column, or the topic if the option ``topic`` is set, which takes precedence over the column."""
    typed: Typed | None = None
    """Definition of typed columns; None if keys and values are bytes."""


def record_columns(schema: StructType, topic: str | None, typed: Typed | None = None) -> RecordColumns:
    """Find the columns for the parts of a record in a schema, and ignore other columns.

    ``topic`` is the value of the option. Raises ValueError if a column is missing or has a wrong type.
    """
    free = () if typed is None else typed.schemas
    numbers = {name: _find(schema, name, any_type=name in free) for name in _TYPES if name != "topic" or topic is None}
    if topic is None and numbers["topic"] is None:
        raise ValueError("a column 'topic' or the option 'topic' is required")
    value = numbers["value"]
    if value is None:
        raise ValueError("a column 'value' is required")
    target = numbers["topic"] if topic is None else topic
    assert target is not None
    return RecordColumns(value, numbers["key"], numbers["headers"], numbers["partition"], target, typed)


def _find(schema: StructType, name: str, *, any_type: bool) -> int | None:
    """Return the index of the first column with this name, or None. Raises ValueError if its type is wrong."""
    for number, field in enumerate(schema.fields):
        if field.name == name:
            if not any_type and not any(_same(field.dataType, allowed) for allowed in _TYPES[name]):
                types = " or ".join(allowed.simpleString() for allowed in _TYPES[name])
                raise ValueError(f"column '{name}' must be {types}, not {field.dataType.simpleString()}")
            return number
    for field in schema.fields:
        if field.name.lower() == name:  # Spark finds columns in any case, but neither this sink nor Spark's connector
            mention_column(field.name, name)
    return None


def _same(given: DataType, wanted: DataType) -> bool:
    """Return True if the types are equal, apart from nullability and the collation of strings."""
    if isinstance(wanted, ArrayType):
        return isinstance(given, ArrayType) and _same(given.elementType, wanted.elementType)
    if isinstance(wanted, StructType):
        return (
            isinstance(given, StructType)
            and given.names == wanted.names
            and all(_same(mine.dataType, other.dataType) for mine, other in zip(given, wanted, strict=True))
        )
    return type(given) is type(wanted)


PIECE_BYTES = 4 * 1024 * 1024
"""Approximate size in bytes of the slices of an Arrow batch that are converted to Python objects."""


class RowError(Exception):
    """A row cannot be written as a record."""

    def __init__(self, index: int, why: str) -> None:
        super().__init__(why)
        self.index = index
        """Index of the row in its batch."""
        self.why = why


class Bulk(NamedTuple):
    """Records for one topic in row order, either all with the same partition or all without one."""

    topic: str
    partition: int | None
    indices: Sequence[int]
    """Index of each record's row in the batch."""
    values: list[Any]
    """Bytes or None, or Python objects for a typed column."""
    keys: list[Any] | None
    headers: list[list[Header] | None] | None


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split a batch into slices of about `PIECE_BYTES`, to limit the memory for Python objects."""
    rows = max(1, batch.num_rows * PIECE_BYTES // max(batch.nbytes, PIECE_BYTES))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def bulks(batch: pa.RecordBatch, columns: RecordColumns) -> Iterator[Bulk]:
    """Group the rows of a batch by topic and partition. Raises `RowError` for a null topic or header key."""
    if isinstance(columns.topic, int) and (topics := batch.column(columns.topic)).null_count:
        raise RowError(
            pc.index(topics.is_null(), True).as_py(), "topic is null; set the option 'topic', or fill the column"
        )
    every = range(batch.num_rows)
    keys = None if columns.key is None else batch.column(columns.key)
    headers = None if columns.headers is None else batch.column(columns.headers)
    typed = () if columns.typed is None else columns.typed.schemas
    every_value = _contents(batch.column(columns.value), every, typed="value" in typed)
    no_keys = keys is None or keys.null_count == len(keys)
    every_key = None if no_keys else _contents(keys, every, typed="key" in typed)
    every_header = None if headers is None or headers.null_count == len(headers) else _headers(headers, every)
    for topic, partition, rows in _targets(batch, columns):
        yield Bulk(
            topic,
            partition,
            rows,
            every_value if len(rows) == len(every) else [every_value[row] for row in rows],
            None if every_key is None else [every_key[row] for row in rows],
            None if every_header is None else [every_header[row] for row in rows],
        )


def _targets(batch: pa.RecordBatch, columns: RecordColumns) -> Iterator[tuple[str, int | None, Sequence[int]]]:
    """Yield each topic and partition, with the indices of its rows in order."""
    by: dict[str, pa.Array] = {}
    if isinstance(columns.topic, int):
        by["topic"] = batch.column(columns.topic)
    if columns.partition is not None:
        by["partition"] = batch.column(columns.partition)
    if not by:
        yield str(columns.topic), None, range(batch.num_rows)
        return
    if columns.partition is not None and 0 < by["partition"].null_count < batch.num_rows:
        yield from _mixed(batch, columns)
        return
    rows = pa.table({**by, "row": pa.array(range(batch.num_rows), pa.int64())})
    # With several threads, the rows of a group would lose their order.
    groups = rows.group_by(list(by), use_threads=False).aggregate([("row", "list")])
    for group in groups.to_pylist():
        yield group.get("topic", columns.topic), group.get("partition"), group["row_list"]


def _mixed(batch: pa.RecordBatch, columns: RecordColumns) -> Iterator[tuple[str, int | None, Sequence[int]]]:
    """Yield groups of rows for the producer from a batch in which only some rows have a partition.

    Successive rows with a partition form groups, and so do successive rows without one. This keeps the order of rows,
    because the producer may choose the same partition for rows without one.
    """
    partitions = batch.column(columns.partition).to_pylist()
    topics = batch.column(columns.topic).to_pylist() if isinstance(columns.topic, int) else repeat(columns.topic)
    targets = enumerate(zip(topics, partitions, strict=False))
    for _, run in groupby(targets, key=lambda row: row[1][1] is None):
        groups: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
        for row, target in run:
            groups[target].append(row)
        for (topic, partition), rows in groups.items():
            yield topic, partition, rows


def _contents(column: pa.Array, indices: Sequence[int], *, typed: bool = False) -> list[Any]:
    """Return the values of a binary or string column as bytes, or the values of a typed column as Python objects.

    Bytes are sliced from one copy of the column, which is faster than converting Arrow scalars. ``indices`` contains
    the row indices for errors.
    """
    if typed:
        return _objects(column, indices)
    column = column.cast(pa.large_binary())
    if len(column) == 0:
        return []
    _, offsets, data = column.buffers()
    cuts = memoryview(offsets)[column.offset * 8 : (column.offset + len(column) + 1) * 8].cast("q").tolist()
    start = cuts[0]
    content = b"" if data is None else data.slice(start, cuts[-1] - start).to_pybytes()
    if start:
        cuts = [cut - start for cut in cuts]
    found: list[bytes | None] = [content[begin:end] for begin, end in pairwise(cuts)]
    if column.null_count:
        for index in pc.call_function("indices_nonzero", [column.is_null()]).to_pylist():
            found[index] = None
    return found


def _objects(column: pa.Array, indices: Sequence[int]) -> list[Any]:
    column = column.cast(_in_utc(column.type))
    made = _with_dicts(column.type)
    try:
        return [made(value) for value in column.to_pylist()]
    except _NOT_WRITTEN:
        for index, value in zip(indices, column, strict=True):
            try:
                made(value.as_py())
            except _NOT_WRITTEN as error:
                raise RowError(index, f"a typed column cannot be converted: {error}") from None
        raise


_NOT_WRITTEN = (OverflowError, ValueError, TypeError)
"""Errors of a time beyond the year 9999, of a duplicate key in a map, and of a key that is a struct or an array."""


def _with_dicts(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return a function that converts maps, which Arrow returns as pairs, to dicts in values of this type.

    Arrow itself can do this from 20.0 on, and in lists of structs from 22.0 on.
    """
    if pa.types.is_map(kind):
        item = _with_dicts(kind.item_type)

        def of_pairs(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
            found = {key: item(value) for key, value in pairs}
            if len(found) < len(pairs):
                raise ValueError("a map has duplicate keys")
            return found

        return _or_none(of_pairs)
    if pa.types.is_list(kind):
        item = _with_dicts(kind.value_type)
        return _unchanged if item is _unchanged else _or_none(lambda values: [item(value) for value in values])
    if pa.types.is_struct(kind):
        parts = {field.name: part for field in kind if (part := _with_dicts(field.type)) is not _unchanged}
        fields = parts.items()
        return _unchanged if not parts else _or_none(lambda v: v | {name: part(v[name]) for name, part in fields})
    return _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _or_none(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else function(value)


def _in_utc(kind: pa.DataType) -> pa.DataType:
    """Return the type with all times in UTC, because Python does not know all names of time zones in Spark."""
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, tz="UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), kind.item_field.with_type(_in_utc(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    return kind


def _headers(column: pa.Array, indices: Sequence[int]) -> list[list[Header] | None]:
    """Return the headers of each row. ``indices`` contains the row indices for errors. Raises `RowError`."""
    counts = pc.call_function("list_value_length", [column]).to_pylist()
    names, contents = column.flatten().flatten()
    names, contents = names.to_pylist(), _contents(contents, indices)
    found: list[list[Header] | None] = []
    at = 0
    for count, index in zip(counts, indices, strict=True):
        if count is None:
            found.append(None)
            continue
        if None in names[at : at + count]:
            raise RowError(index, "the key of a header is null")
        found.append(list(zip(names[at : at + count], contents[at : at + count], strict=True)))
        at += count
    return found
