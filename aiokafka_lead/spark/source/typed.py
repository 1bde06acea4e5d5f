"""Typed columns of a source: their types for the planner, their content for tasks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkTypeError
from pyspark.sql.types import DataType, StructField, StructType

from ...errors import InvalidSchemaError, KafkaError
from ..schemas import Typed, registry_of, resolved_at_once, schema_of, typed_columns, typed_field
from .bad_records import CORRUPT, BadRecordError, OnBadRecord, corrupt_column

if TYPE_CHECKING:
    import pyarrow as pa

    from ...consumer import RecordBatch
    from ...schema import Schema


def with_types(options: Mapping[str, str], schema: StructType) -> StructType:
    """Return the columns, typed as the options require. Asks the registry; raises ValueError."""
    typed = typed_columns(options)
    if typed is None:
        return schema
    subscribed = options.get("subscribe", "").split(",")
    topic = subscribed[0].strip() if len(subscribed) == 1 and subscribed[0].strip() else None
    fields = (_field(typed, field, topic) if field.name in typed.schemas else field for field in schema.fields)
    return StructType(list(fields))


def batch_reader_of(
    options: Mapping[str, str], schema: StructType, mode: OnBadRecord
) -> Callable[[RecordBatch[Any, Any], int], Awaitable[pa.RecordBatch]] | None:
    """Return the conversion of a record batch with typed columns to Arrow; None if no column is typed."""
    typed = typed_columns(options)
    if typed is None:
        return None
    registry = registry_of(typed)
    readers = {
        field.name: registry.columns(found, values=field.name == "value", keys=field.name == "key")
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
            errors |= {row: f"its {name} cannot be read by its schema: {error}" for row, error in bad.items()}
            made = made.set_column(made.schema.get_field_index(name), name, array)
        return made if mode is OnBadRecord.FAIL else made.append_column(CORRUPT, corrupt_column(batch, errors))

    return to_arrow


def _field(typed: Typed, field: StructField, topic: str | None) -> StructField:
    from ..client_loop import client_loop

    try:
        schema = client_loop().run(resolved_at_once, typed, field.name, topic)
        return typed_field(field.name, _type_of(schema, typed), schema)
    except (KafkaError, PySparkTypeError) as error:
        raise ValueError(f"option '{field.name}Schema': {error}") from None


def _type_of(schema: Schema, typed: Typed) -> DataType:
    """Return Spark's type of a column. Requests the schema's references."""
    from pyspark.sql.pandas.types import from_arrow_type

    from ...schema.arrow import ArrowReader
    from ...schema.resolved import ResolvedSchema
    from ..client_loop import client_loop

    resolved = ResolvedSchema(schema)
    if schema.references:
        resolved = client_loop().run(registry_of(typed).resolved, schema)
    kind = ArrowReader(resolved).type
    if "decimal256(" in str(kind):
        raise InvalidSchemaError(f"Spark's decimals have at most 38 digits, the schema's type is {kind}")
    made: DataType = from_arrow_type(kind, prefer_timestamp_ntz=True)
    return made
