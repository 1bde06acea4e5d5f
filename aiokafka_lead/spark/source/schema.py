"""The columns of Spark's connector, and the selection by a query."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ..kafka_options import boolean
from ..schemas import schema_of
from .bad_records import CORRUPT, OnBadRecord, bad_records
from .typed import with_types

_HEADERS = StructField(
    "headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
)
_CORRUPT = StructField(
    CORRUPT,
    StructType(
        [StructField("error", StringType()), StructField("key", BinaryType()), StructField("value", BinaryType())]
    ),
)
_COLUMNS = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)

_MAY_BE_NULL = ("key", "value", "headers", CORRUPT)


def full_schema(options: Mapping[str, str]) -> StructType:
    """Return the connector's columns; ``headers`` and ``_corrupt`` if requested, and typed ones (see `schemas`)."""
    fields = [*_COLUMNS.fields, _HEADERS] if boolean(options, "includeHeaders", False) else _COLUMNS.fields
    if bad_records(options).mode is OnBadRecord.NULL:
        fields = [*fields, _CORRUPT]
    return with_types(options, StructType(fields))


def check_schema(schema: StructType) -> None:
    """Raise ValueError unless a user's schema consists of these columns; omitting some makes reading cheaper."""
    if not schema.fields:
        raise ValueError("a schema without columns has no rows: name at least one, such as 'offset bigint'")
    known = {field.name: field.dataType for field in [*_COLUMNS.fields, _HEADERS, _CORRUPT]}
    for field in schema.fields:
        if field.name not in known:
            raise ValueError(f"there is no column '{field.name}', only {', '.join(known)}")
        if field.dataType != known[field.name] and not (
            field.name in ("key", "value") and schema_of(field) is not None
        ):
            raise ValueError(f"column '{field.name}' is {known[field.name].simpleString()}")
        if not field.nullable and field.name in _MAY_BE_NULL:
            raise ValueError(f"column '{field.name}' may be null, and its schema must say so")
