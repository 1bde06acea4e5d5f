"""Avro read as another schema than the writer's: defaults, logical types and units."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead.schema import NamedRecord, Schema
from aiokafka_lead.schema.avro import AvroReader, AvroWriter
from aiokafka_lead.schema.types import ResolvedSchema

OLD: dict[str, Any] = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
TEXT_UUID = {"type": "string", "logicalType": "uuid"}
INNER = {
    "type": "record",
    "name": "In",
    "fields": [{"name": "x", "type": "bytes"}, {"name": "y", "type": MONEY, "default": "\u0001\u0000"}],
}
OTHER = {"type": "record", "name": "Other", "fields": [{"name": "z", "type": "int"}]}
SOME_UUID = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
EPOCH_DAY = datetime.date(1970, 1, 2)
MOMENT = datetime.datetime(2026, 11, 23, 10, tzinfo=datetime.UTC)


def resolved(schema: Any) -> ResolvedSchema:
    return ResolvedSchema(Schema(json.dumps(schema)))


def with_field(kind: Any, **more: Any) -> dict[str, Any]:
    return {**OLD, "fields": [*OLD["fields"], {"name": "v", "type": kind, **more}]}


def read(writer: Any, value: Any, reader: Any) -> Any:
    content = AvroWriter(resolved(writer)).write(value, b"")
    return AvroReader(resolved(writer), resolved(reader)).read(content, 0, None)


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("string", "ab", "ab"),
        ("bytes", "\u00ff\u0001", b"\xff\x01"),
        ({"type": "fixed", "name": "F", "size": 1}, "\u00ff", b"\xff"),
        (MONEY, "\u0001\u0000", Decimal("2.56")),
        (MILLIS, 1000, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)),
        (DATE, 1, datetime.date(1970, 1, 2)),
        (TEXT_UUID, SOME_UUID, UUID(SOME_UUID)),
        ("double", 1, 1.0),
        ("float", "-Infinity", float("-inf")),
        (["null", MILLIS], None, None),
        ([DATE, "null"], 0, datetime.date(1970, 1, 1)),
        ({"type": "enum", "name": "E", "symbols": ["X", "Y"]}, "Y", "Y"),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": DATE}, {"k": 1}, {"k": datetime.date(1970, 1, 2)}),
        (INNER, {"x": "\u00ff"}, {"x": b"\xff", "y": Decimal("2.56")}),
        ([INNER, OTHER], {"x": ""}, NamedRecord("In", {"x": b"", "y": Decimal("2.56")})),
    ],
)
def test_defaults_are_read_like_written_values(kind: Any, default: Any, expected: Any) -> None:
    found = read(OLD, {"a": 1}, with_field(kind, default=default))["v"]
    assert found == expected
    assert type(found) is type(expected)
    assert getattr(found, "record_name", None) == getattr(expected, "record_name", None)
    written = read(with_field(kind, default=default), {"a": 1}, with_field(kind, default=default))["v"]
    assert found == written


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ({"type": "array", "items": "int"}, []),
        ({"type": "map", "values": "int"}, {}),
        ({"type": "array", "items": INNER}, [{"x": ""}]),
        (INNER, {"x": ""}),
    ],
)
def test_a_default_belongs_to_one_record_alone(kind: Any, default: Any) -> None:
    """Also within a value, whose records each get it."""
    old, new = {"type": "array", "items": OLD}, {"type": "array", "items": with_field(kind, default=default)}
    content = AvroWriter(resolved(old)).write([{"a": 1}, {"a": 2}], b"")
    reader = AvroReader(resolved(old), resolved(new))
    first, second = reader.read(content, 0, None)
    untouched = json.dumps(second, default=str)
    first["v"].clear()
    assert json.dumps(second, default=str) == untouched
    assert json.dumps(reader.read(content, 0, None)[0]["v"], default=str) == json.dumps(second["v"], default=str)


def test_a_default_that_does_not_match_its_type_is_given_as_it_is() -> None:
    assert read(OLD, {"a": 1}, with_field(TEXT_UUID, default=""))["v"] == ""


@pytest.mark.parametrize(
    ("writer", "value", "reader", "expected"),
    [
        ("long", 1000, MILLIS, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)),
        ("int", 1, DATE, datetime.date(1970, 1, 2)),
        ("bytes", b"\x01\x00", MONEY, Decimal("2.56")),
        ("string", SOME_UUID, TEXT_UUID, UUID(SOME_UUID)),
        (["null", "long"], 1, ["null", MILLIS], datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=datetime.UTC)),
        ({"type": "array", "items": "int"}, [1], {"type": "array", "items": DATE}, [datetime.date(1970, 1, 2)]),
        ({"type": "map", "values": {"type": "int"}}, {"k": 1}, {"type": "map", "values": DATE}, {"k": EPOCH_DAY}),
        ("int", 2, ["null", MILLIS], datetime.datetime(1970, 1, 1, 0, 0, 0, 2000, tzinfo=datetime.UTC)),
        (MILLIS, MOMENT, MICROS, MOMENT),
        ({**MONEY, "scale": 1}, Decimal("2.5"), MONEY, Decimal("2.5")),
        # The writer's schema has got a logical type, which the reader's does not have yet.
        (MILLIS, MOMENT, "long", 1_795_428_000_000),
        (["null", MILLIS], MOMENT, ["null", "long"], 1_795_428_000_000),
        (MONEY, Decimal("2.56"), "bytes", b"\x01\x00"),
        (TEXT_UUID, UUID(SOME_UUID), "string", SOME_UUID),
        (DATE, EPOCH_DAY, "double", 1.0),
        # The same type goes before a type to which the value could be promoted.
        (["string", "bytes"], b"\x80", ["string", "bytes"], b"\x80"),
        (["string", "bytes"], "ab", ["bytes", "null", "string"], "ab"),
        ("long", 2**60 + 1, ["double", "long"], 2**60 + 1),
        (MILLIS, MOMENT, ["double", "long"], 1_795_428_000_000),
        ("string", "ab", [MONEY, "string"], "ab"),
        ("float", 1.5, [{"type": "double"}, {"type": "float"}], 1.5),
        # The reader's other branches are plain, and values are promoted as usual.
        ("int", 2, [MONEY, "double"], 2.0),
        ("string", "ab", ["bytes", DATE], b"ab"),
        ("bytes", b"ab", ["string", DATE], "ab"),
    ],
)
def test_logical_types_are_the_readers(writer: Any, value: Any, reader: Any, expected: Any) -> None:
    found = read(with_field(writer), {"a": 1, "v": value}, {**with_field(reader), "doc": "another schema"})["v"]
    assert (found, type(found)) == (expected, type(expected))
    renamed = {"type": "record", "name": "R", "fields": [{"name": "w", "type": reader, "aliases": ["v"]}]}
    assert read(with_field(writer), {"a": 1, "v": value}, renamed) == {"w": expected}
    assert read(writer, value, reader) == expected
    # A field of the same name elsewhere has another type.
    other = {"type": "record", "name": "Other", "fields": [{"name": "v", "type": ["long", MONEY, DATE, "string"]}]}
    plain = {"type": "record", "name": "Plain", "fields": [{"name": "v", "type": "string"}]}
    both = [{"name": each["name"], "type": ["null", each], "default": None} for each in (other, plain)]
    wide = with_field(reader)
    assert read(with_field(writer), {"a": 1, "v": value}, {**wide, "fields": [*wide["fields"], *both]})["v"] == expected
