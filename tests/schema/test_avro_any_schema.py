"""Random schemas and values: written data is either read back unchanged, by every reader, or refused."""

from __future__ import annotations

import datetime
import decimal
import io
import itertools
import json
import math
import struct
import uuid
from typing import Any

import fastavro
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lead.errors import SchemaContentError
from aiokafka_lead.schema import Schema
from aiokafka_lead.schema.avro import AvroReader, AvroWriter
from aiokafka_lead.schema.framing import prefix_of
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedSchemaRegistry

from . import confluent

EPOCH = datetime.datetime(1970, 1, 1)
MICROSECOND = datetime.timedelta(microseconds=1)
ZONES = st.sampled_from([datetime.UTC, datetime.timezone(datetime.timedelta(hours=-9, minutes=-30))])
BY_TYPE: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "null": ("null", st.none()),
    "boolean": ("boolean", st.booleans()),
    "int": ("int", st.integers(-(2**31), 2**31 - 1)),
    "long": ("long", st.integers(-(2**63), 2**63 - 1)),
    "float": ("float", st.floats(width=32)),
    "double": ("double", st.floats()),
    "bytes": ("bytes", st.binary(max_size=20)),
    "string": ("string", st.text(max_size=20)),
    "uuid": ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    "date": ({"type": "int", "logicalType": "date"}, st.dates()),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, st.times()),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, st.times()),
    "instant": ({"type": "long", "logicalType": "timestamp-millis"}, st.datetimes(timezones=ZONES)),
    "micros": ({"type": "long", "logicalType": "timestamp-micros"}, st.datetimes(timezones=ZONES)),
    "local": ({"type": "long", "logicalType": "local-timestamp-micros"}, st.datetimes()),
}
ANYTHING = st.recursive(
    st.one_of(
        *(strategy for _, strategy in BY_TYPE.values()),
        st.integers(),
        st.integers(-(2**65), 2**65),
        st.decimals(),
        st.text(st.characters(), max_size=3),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3),
    max_leaves=5,
)


class Made:
    """A schema, and a strategy for its values."""

    def __init__(self, schema: Any, values: st.SearchStrategy[Any]) -> None:
        self.schema = schema
        self.values = values


class Names:
    """Source of the names of types, and the named types so far."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self.made: list[Made] = []

    def __call__(self) -> str:
        return f"N{next(self._numbers)}"


@st.composite
def schemas(draw: st.DrawFn, names: Names, depth: int = 3) -> Made:
    """Return a schema that contains a definition in each place of a named type; see `referring`."""
    if names.made and draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(names.made))
    made = draw(_new_schemas(names, depth))
    if isinstance(made.schema, dict) and "name" in made.schema:
        names.made.append(made)
    return made


@st.composite
def _new_schemas(draw: st.DrawFn, names: Names, depth: int) -> Made:
    kinds = [*BY_TYPE, "decimal", "fixed decimal", "fixed", "enum"]
    if depth:
        kinds += ["array", "map", "record", "union"] * 3
    kind = draw(st.sampled_from(kinds))
    if kind in BY_TYPE:
        return Made(*BY_TYPE[kind])
    if kind in ("decimal", "fixed decimal"):
        precision = draw(st.integers(1, 18))
        scale = draw(st.integers(0, precision))
        whole = st.integers(-(10**precision) + 1, 10**precision - 1)
        values = whole.map(lambda number: decimal.Decimal(number).scaleb(-scale))
        base: dict[str, Any] = {"type": "bytes"} if kind == "decimal" else {"type": "fixed", "name": names(), "size": 8}
        return Made({**base, "logicalType": "decimal", "precision": precision, "scale": scale}, values)
    if kind == "fixed":
        size = draw(st.integers(0, 4))
        return Made({"type": "fixed", "name": names(), "size": size}, st.binary(min_size=size, max_size=size))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCDE"), min_size=1, unique=True))
        return Made({"type": "enum", "name": names(), "symbols": symbols}, st.sampled_from(symbols))
    if kind in ("array", "map"):
        inner = draw(schemas(names, depth - 1))
        if kind == "array":
            return Made({"type": "array", "items": inner.schema}, st.lists(inner.values, max_size=3))
        return Made(
            {"type": "map", "values": inner.schema}, st.dictionaries(st.text(max_size=3), inner.values, max_size=3)
        )
    if kind == "record":
        fields = draw(st.dictionaries(st.sampled_from("abcd"), schemas(names, depth - 1), max_size=4))
        schema = {
            "type": "record",
            "name": names(),
            "fields": [{"name": name, "type": made.schema} for name, made in fields.items()],
        }
        return Made(schema, st.fixed_dictionaries({name: made.values for name, made in fields.items()}))
    branches = draw(st.lists(schemas(names, depth - 1), min_size=1, max_size=4))
    branches = [made for made in branches if not isinstance(made.schema, list)]
    found = {_kind(made.schema): made for made in branches}  # Avro has one of each
    if not found:
        found = {"null": Made("null", st.none())}
    return Made([made.schema for made in found.values()], st.one_of(*(made.values for made in found.values())))


def referring(schema: Any, defined: set[str] | None = None) -> Any:
    """Return a copy in which only the first definition of each type remains, and the others are names."""
    defined = set() if defined is None else defined
    if isinstance(schema, list):
        return [referring(each, defined) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "name" in schema:
        if schema["name"] in defined:
            return schema["name"]
        defined.add(schema["name"])
    made = {**schema}
    for part in ("items", "values"):
        if part in made:
            made[part] = referring(made[part], defined)
    if "fields" in made:
        made["fields"] = [{**field, "type": referring(field["type"], defined)} for field in made["fields"]]
    return made


def named_types(schema: Any) -> list[Any]:
    """Return the definitions in a schema, each once."""
    found: dict[str, Any] = {}

    def add(node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                add(each)
        elif isinstance(node, dict):
            if "name" in node:
                found[node["name"]] = node
            for inner in (node.get("items"), node.get("values"), *(field["type"] for field in node.get("fields", ()))):
                add(inner)

    add(schema)
    return list(found.values())


def _kind(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    name: str = schema.get("name") or schema["type"]
    return name


def spoilt(value: Any, junk: Any, places: list[int]) -> Any:
    """Return the value with something else at one place."""
    if not places or not isinstance(value, (list, dict)) or not value:
        return junk
    if isinstance(value, list):
        at = places[0] % len(value)
        return [*value[:at], spoilt(value[at], junk, places[1:]), *value[at + 1 :]]
    key = sorted(value, key=str)[places[0] % len(value)]
    return {**value, key: spoilt(value[key], junk, places[1:])}


def same(schema: Any, value: Any, found: Any) -> bool:
    """Return True if this is a correct reading of that: equal, except for the limits of the type."""
    if isinstance(schema, list):
        return any(same(branch, value, found) for branch in schema)
    told: dict[str, Any] = {"type": schema} if isinstance(schema, str) else schema
    kind, logical = told["type"], told.get("logicalType")
    if kind == "record":
        types = {field["name"]: field["type"] for field in told["fields"]}
        if not isinstance(value, dict) or not isinstance(found, dict):
            return False
        return found.keys() == types.keys() and all(same(types[key], value[key], found[key]) for key in types)
    if kind in ("array", "map"):
        own = list if kind == "array" else dict
        if not isinstance(found, own) or not isinstance(value, own) or len(value) != len(found):
            return False
        inner = told["items"] if kind == "array" else told["values"]
        pairs = zip(value, found, strict=True) if kind == "array" else ((value[key], found[key]) for key in found)
        return all(same(inner, *pair) for pair in pairs)
    if isinstance(value, bool) or isinstance(found, bool) or found is None:
        return value is found
    if logical == "uuid":
        return isinstance(found, uuid.UUID) and value in (found, str(found))
    if logical == "decimal" and isinstance(value, bytes):
        return isinstance(found, decimal.Decimal) and bool(
            found.scaleb(told["scale"]) == int.from_bytes(value, "big", signed=True)
        )
    if isinstance(value, float) and isinstance(found, float):
        if kind == "float":
            value = struct.unpack("f", struct.pack("f", value))[0]
        return value == found or (math.isnan(value) and math.isnan(found))
    if isinstance(value, int) and logical:
        return True  # a count
    if logical and logical.endswith("millis") and isinstance(value, (datetime.datetime, datetime.time)):
        value = value.replace(microsecond=value.microsecond // 1000 * 1000)
    return type(value) in (type(found), int) and bool(value == found)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, Any]:
    made = draw(schemas(Names()))
    value = draw(made.values)
    if draw(st.booleans()):
        value = spoilt(value, draw(ANYTHING), draw(st.lists(st.integers(0, 3), max_size=3)))
    return made.schema, value


def written(schema: Any, value: Any, before: bytes = b"") -> bytes | None:
    try:
        return AvroWriter(resolved(schema)).write(value, before)
    except SchemaContentError:
        return None


def resolved(schema: Any) -> ResolvedSchema:
    return ResolvedSchema(Schema(json.dumps(referring(schema))))


@given(cases())
def test_what_is_written_is_read_as_it_was_or_refused(case: tuple[Any, Any]) -> None:
    schema, value = case
    content = written(schema, value)
    if content is None:
        return
    ours = AvroReader(resolved(schema)).read(content, 0, None)
    assert same(schema, value, ours)
    source = io.BytesIO(content)
    theirs = fastavro.schemaless_reader(source, fastavro.parse_schema(referring(schema)), None)
    assert repr(theirs) == repr(ours)  # NaN differs from itself
    assert not source.read()
    again = AvroReader(resolved(schema)).read(AvroWriter(resolved(schema)).write(ours, b""), 0, None)
    assert repr(again) == repr(ours)


@given(cases())
def test_a_reader_with_more_fields_reads_the_others_as_before(case: tuple[Any, Any]) -> None:
    """The new fields have the names of others, and other types."""
    schema, value = case
    writer = {"type": "record", "name": "Whole", "fields": [{"name": "v", "type": schema}]}
    content = written(writer, {"v": value})
    if content is None:
        return
    kinds = {"a": "string", "b": "long", "c": BY_TYPE["date"][0], "d": BY_TYPE["instant"][0], "v": "bytes"}
    other = {"type": "record", "name": "More", "fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}
    more = {"name": "more", "type": ["null", other, {"type": "array", "items": "More"}], "default": None}
    reader = {**writer, "fields": [more, *writer["fields"]]}
    found = AvroReader(resolved(writer), resolved(reader)).read(content, 0, None)
    assert repr(found.pop("more")) == "None"
    assert repr(found) == repr(AvroReader(resolved(writer)).read(content, 0, None))


@given(cases())
def test_a_schema_may_define_its_types_in_other_places_than_the_writer(case: tuple[Any, Any]) -> None:
    schema, value = case
    inline = {"type": "record", "name": "Whole", "fields": [{"name": "v", "type": schema}]}
    content = written(inline, {"v": value})
    if content is None:
        return
    first = [
        {"name": each["name"], "type": {"type": "array", "items": each}, "default": []} for each in named_types(schema)
    ]
    optional = schema if isinstance(schema, list) or schema == "null" else ["null", schema]
    apart = {**inline, "fields": [*first, {"name": "v", "type": optional}]}
    expected = AvroReader(resolved(inline)).read(content, 0, None)
    found = AvroReader(resolved(inline), resolved(apart)).read(content, 0, None)
    assert repr(found["v"]) == repr(expected["v"])
    again = AvroWriter(resolved(apart)).write({"v": expected["v"]}, b"")
    assert repr(AvroReader(resolved(apart), resolved(inline)).read(again, 0, None)) == repr(expected)


@given(st.data())
def test_values_of_a_schema_are_not_refused(data: st.DataObject) -> None:
    made = data.draw(schemas(Names()))
    AvroWriter(resolved(made.schema)).write(data.draw(made.values), b"")


@settings(max_examples=10)
@given(st.lists(cases(), min_size=5, max_size=10))
def test_confluent_kafka_reads_the_same(given_cases: list[tuple[Any, Any]]) -> None:
    with EmbeddedSchemaRegistry(compatibility="NONE") as registry, confluent.client({"url": registry.url}) as client:
        reader = confluent.avro_deserializer(client)
        for number, (schema, value) in enumerate(given_cases):
            # They read top-level bytes differently, so a record wraps the value.
            schema = {"type": "record", "name": "Whole", "fields": [{"name": "v", "type": schema}]}
            registered = client.register_schema(f"s{number}", confluent.schema(json.dumps(referring(schema)), "AVRO"))
            content = written(schema, {"v": value}, prefix_of(registered))
            if content is not None and len(content) > 5:  # they reject shorter content
                ours = AvroReader(resolved(schema)).read(content, 5, None)
                assert repr(reader(content, confluent.context(f"t{number}"))) == repr(ours)
