"""The columns that form a record, and their types: the rules of Spark's connector (its KafkaWriter)."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

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
    """Positions of the parts of a record: a column's number, or None if there is no such column."""

    value: int
    key: int | None
    headers: int | None
    partition: int | None
    """A null in a row leaves the choice to its key, or to the producer."""
    topic: int | str
    """The topic itself if the option names it, which overrides a column."""
    typed: Typed | None = None
    """Definition of keys or values that are not bytes."""


def record_columns(schema: StructType, topic: str | None, typed: Typed | None = None) -> RecordColumns:
    """Return the record columns of a schema; ``topic`` is the option. Columns of other names are ignored.

    Raises ValueError for a missing column or a wrong type.
    """
    free = () if typed is None else typed.schemas
    numbers = {name: _find(schema, name, any_type=name in free) for name in _TYPES if name != "topic" or topic is None}
    if topic is None and numbers["topic"] is None:
        raise ValueError("there is neither a column 'topic' nor the option 'topic'")
    value = numbers["value"]
    if value is None:
        raise ValueError("there is no column 'value'")
    target = numbers["topic"] if topic is None else topic
    assert target is not None
    return RecordColumns(value, numbers["key"], numbers["headers"], numbers["partition"], target, typed)


def _find(schema: StructType, name: str, *, any_type: bool) -> int | None:
    """Return the number of the first column with this name; check its type unless a schema does it later."""
    for number, field in enumerate(schema.fields):
        if field.name == name:
            if not any_type and not any(_same(field.dataType, allowed) for allowed in _TYPES[name]):
                types = " or ".join(allowed.simpleString() for allowed in _TYPES[name])
                raise ValueError(f"column '{name}' must be {types}, not {field.dataType.simpleString()}")
            return number
    return None


def _same(given: DataType, wanted: DataType) -> bool:
    """Return True if the types are equal, ignoring nullability and the collation of strings."""
    if isinstance(wanted, ArrayType):
        return isinstance(given, ArrayType) and _same(given.elementType, wanted.elementType)
    if isinstance(wanted, StructType):
        return (
            isinstance(given, StructType)
            and given.names == wanted.names
            and all(_same(mine.dataType, other.dataType) for mine, other in zip(given, wanted, strict=True))
        )
    return type(given) is type(wanted)
