"""Columns of the source, which are the same as in Spark's connector, and checks of a user's schema."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkTypeError
from pyspark.sql import types

from ...errors import InvalidSchemaError, KafkaError
from ..kafka_options import boolean
from ..schemas import Typed, registry_of, registry_of_tasks, resolved_at_once, schema_of, typed_columns, typed_field
from .bad_records import CORRUPT, BadRecordError, OnBadRecord, bad_records, corrupt_column
from .options import selection_of

if TYPE_CHECKING:
    import pyarrow as pa

    from ...consumer import RecordBatch
    from ...schema import Schema


def with_types(options: Mapping[str, str], schema: types.StructType) -> types.StructType:
    """Replace columns with typed columns as the options require.

    Requests the schemas from the registry. Raises ValueError if a schema or an option cannot be used.
    """
    typed = typed_columns(options)
    if typed is None:
        return schema
    selection = selection_of(options)
    topics = {*selection.topics, *(tp.topic for tp in selection.partitions)}
    topic = topics.pop() if len(topics) == 1 else None
    fields = (_field(typed, field, topic) if field.name in typed.schemas else field for field in schema.fields)
    return types.StructType(list(fields))


def batch_reader_of(
    options: Mapping[str, str], schema: types.StructType, mode: OnBadRecord
) -> Callable[[RecordBatch[Any, Any], int], Awaitable[pa.RecordBatch]] | None:
    """Return a function that converts record batches to Arrow with typed columns, or None if no column is typed."""
    typed = typed_columns(options)
    if typed is None:
        return None
    from pyspark.sql.pandas.types import to_arrow_schema

    from ...schema.columns import AvroColumns

    registry = registry_of_tasks(typed)
    kinds = to_arrow_schema(schema, timezone="UTC")
    readers = {
        field.name: AvroColumns(
            registry,
            found,
            values=field.name == "value",
            keys=field.name == "key",
            into=kinds.field(field.name).type,
        )
        for field in schema.fields
        if (found := schema_of(field)) is not None
    }

    async def to_arrow(batch: RecordBatch[Any, Any], count: int) -> pa.RecordBatch:
        made = batch.to_arrow()
        errors: dict[int, str] = {}
        for name, columns in readers.items():
            array, bad = (await columns.read(batch))[name]
            if mode is OnBadRecord.FAIL and (row := min(bad, default=count)) < count:
                raise BadRecordError(batch.topic_partition, batch.offsets[row], name, bad[row])
            for row, error in bad.items():
                before = f"{errors[row]}; " if row in errors else ""
                errors[row] = f"{before}cannot decode its {name}: {error}"
            made = made.set_column(made.schema.get_field_index(name), name, array)
        return made if mode is OnBadRecord.FAIL else made.append_column(CORRUPT, corrupt_column(batch, errors))

    return to_arrow


def _field(typed: Typed, field: types.StructField, topic: str | None) -> types.StructField:
    from ..client_loop import client_loop

    try:
        schema = client_loop().run(resolved_at_once, typed, field.name, topic)
        return typed_field(field.name, _type_of(schema, typed), schema)
    except (KafkaError, PySparkTypeError) as error:
        raise ValueError(f"option '{field.name}Schema': {error}") from None


def _type_of(schema: Schema, typed: Typed) -> types.DataType:
    """Return the Spark type for a schema. Requests referenced schemas from the registry."""
    from pyspark.sql.pandas.types import from_arrow_type

    from ...schema.arrow import ArrowReader
    from ...schema.types import ResolvedSchema
    from ..client_loop import client_loop

    resolved = ResolvedSchema(schema)
    if schema.references:
        resolved = client_loop().run(registry_of(typed).resolved, schema)
    kind = ArrowReader(resolved).type
    if "decimal256(" in str(kind):
        raise InvalidSchemaError(f"Spark's decimals have at most 38 digits, but the type of the schema is {kind}")
    made: types.DataType = from_arrow_type(kind, prefer_timestamp_ntz=True)
    return made


_HEADERS = types.StructField(
    "headers",
    types.ArrayType(
        types.StructType([types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())])
    ),
)
_CORRUPT = types.StructField(
    CORRUPT,
    types.StructType(
        [
            types.StructField("error", types.StringType()),
            types.StructField("key", types.BinaryType()),
            types.StructField("value", types.BinaryType()),
        ]
    ),
)
_COLUMNS = types.StructType(
    [
        types.StructField("key", types.BinaryType()),
        types.StructField("value", types.BinaryType()),
        types.StructField("topic", types.StringType()),
        types.StructField("partition", types.IntegerType()),
        types.StructField("offset", types.LongType()),
        types.StructField("timestamp", types.TimestampType()),
        types.StructField("timestampType", types.IntegerType()),
    ]
)

_MAY_BE_NULL = ("key", "value", "headers", CORRUPT)


def full_schema(options: Mapping[str, str]) -> types.StructType:
    """Return all columns for these options, including ``headers``, ``_corrupt`` and typed columns if requested."""
    fields = [*_COLUMNS.fields, _HEADERS] if boolean(options, "includeHeaders", False) else _COLUMNS.fields
    if bad_records(options).mode is OnBadRecord.NULL:
        fields = [*fields, _CORRUPT]
    return with_types(options, types.StructType(fields))


def check_schema(schema: types.StructType, options: Mapping[str, str]) -> None:
    """Raise ValueError unless all columns of a schema exist and have the right types.

    A schema may omit columns, which makes reading cheaper. A typed column must come from `full_schema`.
    """
    if not schema.fields:
        raise ValueError("a schema must have at least one column, such as 'offset bigint'")
    known = {field.name: field.dataType for field in [*_COLUMNS.fields, _HEADERS, _CORRUPT]}
    typed = typed_columns(options)
    for field in schema.fields:
        if field.name not in known:
            raise ValueError(f"there is no column '{field.name}'; the columns are {', '.join(known)}")
        is_typed = field.name in ("key", "value") and schema_of(field) is not None
        if field.dataType != known[field.name] and not is_typed:
            raise ValueError(f"column '{field.name}' must have the type {known[field.name].simpleString()}")
        if typed is not None and field.name in typed.schemas and not is_typed:
            raise ValueError(
                f"option '{field.name}Schema' conflicts with the given schema, in which column '{field.name}' is "
                "binary; call load() without a schema, or remove the option"
            )
        if field.name == CORRUPT and bad_records(options).mode is OnBadRecord.FAIL:
            raise ValueError(f"column '{CORRUPT}' needs the option 'onBadRecord'='null'")
        if not field.nullable and field.name in _MAY_BE_NULL:
            raise ValueError(f"column '{field.name}' may be null, so it must be nullable in the schema")
