"""Conversion of Avro values to typed Apache Arrow arrays (the extras ``avro`` and ``arrow``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from fastavro.read import LOGICAL_READERS

from ..errors import InvalidSchemaError
from .avro import AvroReader, parsed
from .avro_bounds import DecimalType, decimal_of, named_of, settled
from .avro_resolution import OWN_TYPES
from .types import ResolvedSchema, rewritten

_PRIMITIVES: dict[str, Any] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}

_TIMES: dict[tuple[str, str], Any] = {
    ("int", "date"): pa.date32(),
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
    ("long", "timestamp-millis"): pa.timestamp("ms", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-nanos"): pa.timestamp("ns", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
    ("long", "local-timestamp-nanos"): pa.timestamp("ns"),
}
"""Logical types with the same unit in Avro and Arrow, whose numbers are therefore copied to arrays unchanged."""

_MAX_DEPTH = 50
"""Maximum nesting of a type. A recursive Avro type has no equivalent in Arrow."""


class ArrowReader:
    """Builds arrays of the type that a schema defines, from values that were written with any schema."""

    def __init__(self, schema: ResolvedSchema, into: Any = None) -> None:
        """Create a reader for a schema.

        If ``into`` is given, arrays are cast to this Arrow type, in which times have at most microsecond resolution.
        Raises `InvalidSchemaError` if the schema has no type in Arrow.
        """
        self._schema = _counted(schema)
        self._root = parsed(self._schema)
        self._named = named_of(self._root)
        self._into = into
        self.type = arrow_type(self._root, self._named)
        self._build = _builder(self._root, self._named, whole_micros=into is not None)

    def reader(self, writer: ResolvedSchema) -> AvroReader:
        """Return a reader for data that was written with the schema ``writer``. Pass its values to `array`."""
        counted = _counted(writer)
        if counted == self._schema:
            return AvroReader(counted)
        if len(_units(counted) | _units(self._schema)) > 1:
            counted = _counted(writer, converted=True)
        return AvroReader(counted, self._schema)

    def array(self, values: Sequence[Any]) -> Any:
        """Return an array of these values. Each must come from a `reader`, or be None."""
        made = self._build(values)
        return made if self._into is None or made.type == self._into else made.cast(self._into)


def _counted(resolved: ResolvedSchema, *, converted: bool = False) -> ResolvedSchema:
    """Return a schema whose `_TIMES` fastavro does not know as logical types and therefore reads as numbers.

    With ``converted``, these numbers are converted to the unit of the reader's schema.
    """

    def without(node: Any) -> Any:
        if isinstance(node, list):
            return [without(each) for each in node]
        if isinstance(node, dict):
            made = {name: node[name] if name == "default" else without(node[name]) for name in node}
            if _time_of(node, "logicalType") is not None:
                made["arrow"] = made.pop("logicalType")
                if converted:
                    made["logicalType"] = _CONVERTED
            return made
        return node

    return rewritten(resolved, without)


_CONVERTED = f"{OWN_TYPES}converted"
"""Logical type of times whose unit in the reader's schema may differ."""
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def _units(counted: ResolvedSchema) -> set[str]:
    texts = (counted.schema.text, *(schema.text for _, schema in counted.references))
    return {unit for text in texts for unit in re.findall(r'"arrow": "[a-z-]+-(millis|micros|nanos)"', text)}


def _convert(number: int, writer: Any, reader: Any = None) -> int:
    """Convert a time, read with the type ``writer``, to the unit of the type ``reader``. Round down.

    fastavro calls this. It is needed because Avro's schema resolution ignores units.
    """
    wanted = reader.get("arrow", "") if isinstance(reader, dict) else ""
    there, here = (_PER_SECOND.get(name.rpartition("-")[2]) for name in (writer["arrow"], wanted))
    return number if there is None or here is None else number * here // there


LOGICAL_READERS.update({f"{kind}-{_CONVERTED}": _convert for kind in ("int", "long")})


def _time_of(node: dict[str, Any], attribute: str) -> Any:
    """Return the Arrow type of a time. None for other types, and for a logical type of the wrong Avro type."""
    kind, logical = node.get("type"), node.get(attribute)
    return _TIMES.get((kind, logical)) if isinstance(kind, str) and isinstance(logical, str) else None


def arrow_type(node: Any, named: dict[str, Any], depth: int = 0) -> Any:
    """Return the Arrow type for an Avro type parsed by fastavro. Raises `InvalidSchemaError` if there is none.

    A union of a type and null becomes a nullable type. Other unions have no Arrow type.
    """
    if depth > _MAX_DEPTH:
        raise InvalidSchemaError("an Avro schema that contains itself, or is nested very deeply, has no type in Arrow")
    node = settled(node, named)
    if isinstance(node, list):
        return arrow_type(_only(node), named, depth + 1)
    kind = node["type"]
    time, limits = _time_of(node, "arrow"), decimal_of(node)
    if time is not None:
        return time
    if limits is not None:
        return _decimal(limits)
    if kind == "record":
        fields = ((field["name"], arrow_type(field["type"], named, depth + 1)) for field in node["fields"])
        return pa.struct(list(fields))
    if kind == "array":
        return pa.list_(arrow_type(node["items"], named, depth + 1))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(node["values"], named, depth + 1))
    if kind == "enum":
        return pa.string()
    return pa.binary(node["size"]) if kind == "fixed" else _PRIMITIVES[kind]


def _decimal(limits: DecimalType) -> Any:
    try:
        return (pa.decimal128 if limits.precision <= 38 else pa.decimal256)(limits.precision, limits.scale)
    except ValueError as error:
        raise InvalidSchemaError(f"Arrow does not support the decimal type: {error}") from None


def _only(union: list[Any]) -> Any:
    others = [each for each in union if each != "null" and not (isinstance(each, dict) and each.get("type") == "null")]
    if len(others) > 1:
        raise InvalidSchemaError(
            f"a union of {len(others)} types has no type in Arrow; only a union of one type and null has"
        )
    return others[0] if others else "null"


def _builder(node: Any, named: dict[str, Any], *, whole_micros: bool) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds arrays field by field, which is much faster than pyarrow's conversion of dicts.

    With ``whole_micros``, nanoseconds are rounded down to microseconds, because pyarrow refuses a cast that loses data.
    """
    node = settled(node, named)
    if isinstance(node, list):
        return _builder(_only(node), named, whole_micros=whole_micros)
    kind = arrow_type(node, named)
    if node["type"] == "record" and node["fields"]:
        names = [field["name"] for field in node["fields"]]
        types = [field["type"] for field in node["fields"]]
        parts = [(name, _builder(t, named, whole_micros=whole_micros)) for name, t in zip(names, types, strict=True)]

        def struct(values: Sequence[Any]) -> Any:
            missing = [value is None for value in values]
            if any(missing):
                arrays = [build([None if v is None else v[name] for v in values]) for name, build in parts]
                return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pa.array(missing))
            return pa.StructArray.from_arrays([build([v[name] for v in values]) for name, build in parts], names)

        return struct
    if node["type"] in ("array", "map"):
        items = node["items"] if node["type"] == "array" else node["values"]
        return _many(kind, _builder(items, named, whole_micros=whole_micros))
    if node["type"] == "string" and node.get("logicalType") == "uuid":
        return lambda values: pa.array([None if value is None else str(value) for value in values], kind)
    if whole_micros and pa.types.is_timestamp(kind) and kind.unit == "ns":
        return lambda values: pa.array([None if value is None else value - value % 1000 for value in values], kind)
    return lambda values: pa.array(values, kind)


def _many(kind: Any, build: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    """Return a function that builds an array of lists or maps. ``build`` builds the array of all their items."""

    def lists(values: Sequence[Any]) -> Any:
        items: list[Any] = []
        return pa.ListArray.from_arrays(_offsets(values, items.extend, items), build(items), kind)

    def maps(values: Sequence[Any]) -> Any:
        pairs: list[tuple[str, Any]] = []
        offsets = _offsets(values, lambda value: pairs.extend(value.items()), pairs)
        keys = pa.array([key for key, _ in pairs], kind.key_type)
        return pa.MapArray.from_arrays(offsets, keys, build([item for _, item in pairs]), kind)

    return maps if pa.types.is_map(kind) else lists


def _offsets(values: Sequence[Any], add: Callable[[Any], None], items: Sequence[Any]) -> Any:
    """Add the items of all values to ``items`` with ``add``. Return the array of the offsets at which they begin.

    The offset is null for None. The last offset is the end of the items.
    """
    starts: list[int | None] = []
    for value in values:
        starts.append(None if value is None else len(items))
        if value is not None:
            add(value)
    return pa.array([*starts, len(items)], pa.int32())
