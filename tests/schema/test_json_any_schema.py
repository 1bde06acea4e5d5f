"""Random JSON schemas and values: written data is read back as it was, by every reader, or refused."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from enum import Enum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator

from aiokafka_lead.errors import InvalidSchemaError, SchemaContentError
from aiokafka_lead.schema import Schema
from aiokafka_lead.schema.framing import prefix_of
from aiokafka_lead.schema.json_schema import JsonReader, JsonWriter
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedSchemaRegistry

from . import confluent


class Letter(Enum):
    A = "a"
    ONE = 1


NAMES = st.text(max_size=3)
BY_TYPE: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ({"type": "null"}, st.none()),
    ({"type": "boolean"}, st.booleans()),
    ({"type": "integer"}, st.integers(-(2**70), 2**70) | st.decimals(-100, 100, places=0)),
    ({"type": "number"}, st.floats(allow_nan=False, allow_infinity=False) | st.decimals(-99, 99, places=2)),
    ({"type": "string"}, st.text(max_size=5)),
    ({"type": "string", "format": "uuid"}, st.uuids()),
    ({"type": "string", "format": "date"}, st.dates()),
    ({"type": "string", "format": "time"}, st.times()),
    ({"type": "string", "format": "date-time"}, st.datetimes(timezones=st.just(datetime.UTC))),
    ({"enum": ["a", 1]}, st.sampled_from(Letter)),
]
ANYTHING = st.recursive(
    st.one_of(*(values for _, values in BY_TYPE), st.floats(), st.decimals(), st.binary(max_size=3), st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.integers(), inner, max_size=3),
    max_leaves=4,
)


@st.composite
def cases(draw: st.DrawFn, depth: int = 3) -> Any:
    """Draw a pair of a schema and a strategy for its values."""
    kind = draw(st.sampled_from(["leaf", "array", "object", "any of"])) if depth else "leaf"
    if kind == "array":
        schema, values = draw(cases(depth - 1))
        return {"type": "array", "items": schema}, st.lists(values, max_size=3) | st.lists(values, max_size=3).map(
            tuple
        )
    if kind == "object":
        fields = draw(st.dictionaries(NAMES, cases(depth - 1), max_size=3))
        described = {name: schema for name, (schema, _) in fields.items()}
        schema = {"type": "object", "properties": described, "required": [*fields], "additionalProperties": False}
        return schema, st.fixed_dictionaries({name: values for name, (_, values) in fields.items()})
    if kind == "any of":
        some = draw(st.lists(cases(depth - 1), min_size=1, max_size=3))
        return {"anyOf": [schema for schema, _ in some]}, st.one_of(*(values for _, values in some))
    return draw(st.sampled_from(BY_TYPE))


def same(value: Any, found: Any) -> bool:
    """Return True if this is a correct reading of that."""
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (list, tuple)):
        return isinstance(found, list) and len(value) == len(found) and all(map(same, value, found))
    if isinstance(value, dict):
        return isinstance(found, dict) and value.keys() == found.keys() and all(same(value[k], found[k]) for k in value)
    if isinstance(value, uuid.UUID):
        return isinstance(found, str) and uuid.UUID(found) == value
    if isinstance(value, (datetime.date, datetime.time)):
        return isinstance(found, str) and type(value).fromisoformat(found) == value
    if isinstance(value, decimal.Decimal):
        return type(found) in (int, float) and decimal.Decimal(repr(found)) == value
    return type(value) is type(found) and bool(value == found)


def written(schema: Any, value: Any, before: bytes = b"") -> bytes | None:
    try:
        return JsonWriter(resolved(schema), validate=True).write(value, before)
    except SchemaContentError:
        return None


def resolved(schema: Any) -> ResolvedSchema:
    return ResolvedSchema(Schema(json.dumps(schema), "JSON"))


@given(cases(), st.data())
def test_what_is_written_is_read_as_it_was_or_refused(
    case: tuple[Any, st.SearchStrategy[Any]], data: st.DataObject
) -> None:
    schema, values = case
    fits = data.draw(st.booleans())
    value = data.draw(values if fits else ANYTHING)
    content = written(schema, value)
    assert content is not None or not fits
    if content is None:
        return
    found = JsonReader(resolved(schema), validate=True).read(content, 0, None)
    assert same(value, found)
    assert json.loads(content) == found
    assert Draft7Validator(schema).is_valid(found)
    assert written(schema, found) == content


HUNDREDTHS = {"type": "number", "multipleOf": 0.01}


def test_a_number_that_cannot_be_checked_is_refused() -> None:
    with pytest.raises(SchemaContentError, match="JSON Schema"):
        JsonReader(resolved(HUNDREDTHS), validate=True).read(b"1e400", 0, None)
    assert written(HUNDREDTHS, float("inf")) is None


@pytest.mark.parametrize("place", ["here", "in a reference of the same draft", "in one without"])
def test_multiples_are_decimal(place: str) -> None:
    """Floats would refuse 19.99, 0.29 and 4.02, which Java writes."""
    draft = {"$schema": "http://json-schema.org/draft-07/schema#"}
    schema: Any = HUNDREDTHS | draft
    references: tuple[tuple[str, Schema], ...] = ()
    if place != "here":
        inner = HUNDREDTHS | (draft if "same" in place else {})
        references = (("price.json", Schema(json.dumps(inner), "JSON")),)
        schema = draft | {"$ref": "price.json"}
    whole = ResolvedSchema(Schema(json.dumps(schema), "JSON"), references)
    for good in ("19.99", "0.29", "4.02", "-4.02", "7", "0", "1" + "0" * 400, "1e300"):
        assert JsonReader(whole, validate=True).read(good.encode(), 0, None) == json.loads(good)
        assert JsonWriter(whole, validate=True).write(json.loads(good), b"")
    for bad in ("19.995", "1e-300"):
        with pytest.raises(SchemaContentError, match="multiple"):
            JsonReader(whole, validate=True).read(bad.encode(), 0, None)


def test_multiples_are_decimal_where_a_schema_refers_to_itself() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "properties": {"inner": {"$ref": "#"}, "price": HUNDREDTHS, "count": {"multipleOf": 7}},
    }
    assert written(schema, {"inner": {"price": 19.99, "count": 14}}) is not None
    assert written(schema, {"inner": {"price": 19.995}}) is None
    assert written(schema, {"inner": {"count": 15}}) is None


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\p{L}+$", "Größe", "a1"),
        (r"^\pL\P{L}$", "é1", "éé"),
        (r"^[\p{Lu}\p{Nd}_-]+$", "ÄA1_-", "ä"),
        (r"^[^\p{L}]+$", "12", "1a"),
        (r"^[\P{L}a]+$", "1a", "1b"),
        (r"^(?<year>\d{4})$", "2024", "24"),
        (r"^[\w-.]+$", "a-b.c", "a b"),
        (r"^[[(?<y>]\p{L}$", "[a", "aa"),
        (r"^\\p{2}(?<a>x)$", "\\ppx", "x"),
        ("^[a||b]$", "|", "c"),
    ],
)
def test_patterns_of_java_and_javascript_are_checked(pattern: str, good: str, bad: str) -> None:
    for schema, fits, other in (
        ({"pattern": pattern}, good, bad),
        ({"patternProperties": {pattern: {"type": "null"}}, "additionalProperties": False}, {good: None}, {bad: None}),
        ({"propertyNames": {"anyOf": [{"pattern": pattern}]}}, {good: 1}, {bad: 1}),
        ({"properties": {"default": {"pattern": pattern}}}, {"default": good}, {"default": bad}),
    ):
        assert written(schema, fits) is not None
        assert written(schema, other) is None
    with pytest.raises(SchemaContentError) as raised:
        JsonReader(resolved({"pattern": pattern}), validate=True).read(json.dumps(bad).encode(), 0, None)
    assert repr(pattern) in str(raised.value)


@pytest.mark.parametrize("pattern", [r"^\h+$", "[a-z&&[^b]]", "[a&&b]", r"\p{IsLatin}", "(", r"\p{Co}", r"\p{Lx}"])
def test_an_unknown_pattern_makes_no_record_unreadable(pattern: str, caplog: pytest.LogCaptureFixture) -> None:
    """The rest of the schema is checked, and writing by it refused."""
    schema = {
        "properties": {"a": {"type": "string", "pattern": pattern}},
        "patternProperties": {pattern: {"type": "integer"}},
        "additionalProperties": False,
        "const": {"a": "x", "pattern": "("},
    }
    reader = JsonReader(resolved(schema), validate=True)
    assert pattern in caplog.text
    assert reader.read(b'{"a": "x", "pattern": "("}', 0, None)
    with pytest.raises(SchemaContentError, match=r"\$"):
        reader.read(b'{"a": 1, "pattern": "("}', 0, None)
    with pytest.raises(InvalidSchemaError, match="validate=False"):
        JsonWriter(resolved(schema), validate=True)
    assert JsonWriter(resolved(schema), validate=False).write({}, b"") == b"{}"


@pytest.mark.parametrize("value", [{10**5000: 1}, decimal.Decimal("sNaN")], ids=["huge", "sNaN"])
def test_what_python_cannot_show_is_refused(value: Any) -> None:
    assert written({}, value) is None


@settings(max_examples=10)
@given(st.lists(cases(), min_size=5, max_size=10), st.data())
def test_confluent_kafka_reads_the_same(some: list[tuple[Any, st.SearchStrategy[Any]]], data: st.DataObject) -> None:
    with EmbeddedSchemaRegistry(compatibility="NONE") as registry, confluent.client({"url": registry.url}) as client:
        for number, (schema, values) in enumerate(some):
            registered = client.register_schema(f"s{number}", confluent.schema(json.dumps(schema), "JSON"))
            content = written(schema, data.draw(values), prefix_of(registered))
            if content is not None and len(content) > 5:  # they reject shorter content
                ours = JsonReader(resolved(schema), validate=True).read(content, 5, None)
                reader = confluent.json_deserializer(json.dumps(schema), schema_registry_client=client)
                assert reader(content, confluent.context(f"t{number}")) == ours
