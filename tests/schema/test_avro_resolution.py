"""Avro read as another schema than the writer's: defaults, logical types and units."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from aiokafka_lead.errors import InvalidSchemaError
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


def a_record(name: str, /, **fields: Any) -> dict[str, Any]:
    given = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "fields": given}


CREATED, CANCELLED = a_record("shop.Created", id="int"), a_record("shop.Cancelled", id="int")
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
CODE = {"type": "fixed", "name": "Code", "size": 2}
ALL = {"created": CREATED, "cancelled": CANCELLED, "colour": COLOUR, "code": CODE}
"""Fields whose types may be used in other fields, by name."""


def test_a_union_may_refer_to_any_type_beside_a_union_of_records() -> None:
    kinds = {"v": [CREATED, CANCELLED], "c": COLOUR, "f": CODE, "c2": ["null", "Colour"], "f2": ["null", "Code"]}
    schema = resolved(a_record("R", **kinds))
    value = {"v": ("shop.Cancelled", {"id": 1}), "c": "RED", "f": b"ab", "c2": "BLUE", "f2": b"cd"}
    content = AvroWriter(schema).write(value, b"")
    found = AvroReader(schema).read(content, 0, None)
    assert found == {**value, "v": {"id": 1}}
    assert AvroWriter(schema).write(found, b"") == content


@pytest.mark.parametrize(
    ("inside", "by_name", "value"),
    [
        ([CREATED, CANCELLED], ["shop.Created", "shop.Cancelled"], NamedRecord("shop.Cancelled", {"id": 1})),
        (
            ["null", CREATED, CANCELLED],
            ["null", "shop.Cancelled", "shop.Created"],
            NamedRecord("shop.Created", {"id": 1}),
        ),
        (CREATED, ["null", "shop.Created"], {"id": 1}),
        (["null", CREATED], "shop.Created", {"id": 1}),
        ({"type": "array", "items": CREATED}, {"type": "array", "items": ["null", "shop.Created"]}, [{"id": 1}]),
        ([CREATED, CANCELLED, COLOUR], ["shop.Created", "shop.Cancelled", "Colour"], "BLUE"),
        (CODE, ["Code", "Colour", "null"], b"ab"),
    ],
)
def test_types_may_be_defined_in_another_place_than_in_the_writers_schema(
    inside: Any, by_name: Any, value: Any
) -> None:
    first = [{"name": name, "type": ["null", kind], "default": None} for name, kind in ALL.items()]
    one, other = with_field(inside), with_field(by_name)
    other["fields"] = [*first, *other["fields"]]
    for writer, reader in ((one, other), (other, one)):
        found = read(writer, {"a": 1, "v": value}, reader)["v"]
        assert found == value
        assert getattr(found, "record_name", "") == getattr(value, "record_name", "")


def test_types_with_the_same_name_in_several_namespaces() -> None:
    first, second = a_record("v1.Event", at="long"), a_record("v2.Event", at="long", name="string")
    for value in (NamedRecord("v1.Event", {"at": 1}), NamedRecord("v2.Event", {"at": 1, "name": "x"})):
        found = read(with_field([first, second]), {"a": 1, "v": value}, with_field(["null", first, second], doc="new"))
        assert (found["v"], found["v"].record_name) == (value, value.record_name)
    plain = a_record("R", x=first, y=a_record("v2.Event", at="long"))
    for kinds in (("long", MILLIS), (MILLIS, "long")):
        reader = a_record("R", x=a_record("v1.Event", at=kinds[0]), y=a_record("v2.Event", at=kinds[1]))
        expected = [
            1 if kind == "long" else datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC) for kind in kinds
        ]
        assert read(plain, {"x": {"at": 1}, "y": {"at": 1}}, reader) == {
            "x": {"at": expected[0]},
            "y": {"at": expected[1]},
        }
    # A record that has moved to another namespace is still the same.
    moved = a_record("R", x=a_record("v3.Event", at=MILLIS), y=second)
    assert read(a_record("R", x=first), {"x": {"at": 1}}, {**moved, "fields": moved["fields"][:1]}) == {
        "x": {"at": datetime.datetime(1970, 1, 1, 0, 0, 0, 1000, datetime.UTC)}
    }


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": a_record("O", a=CREATED, b="shop.Created")}, [{"a": {"id": 1}, "b": {"id": 2}}]),
        ({"type": "map", "values": a_record("Node", next=["null", "Node"])}, {"k": {"next": {"next": None}}}),
        ([{"type": "array", "items": COLOUR}, "Colour"], ["RED"]),
    ],
)
def test_an_array_or_map_at_the_top_may_use_a_type_several_times(schema: Any, value: Any) -> None:
    assert read(schema, value, schema) == value
    content = AvroWriter(resolved(schema)).write(value, b"")
    assert (
        AvroReader(resolved(["null", "int", schema] if isinstance(schema, dict) else schema)).read(
            (b"\x04" if isinstance(schema, dict) else b"") + content, 0, None
        )
        == value
    )


@pytest.mark.parametrize("odd", [{"name": [5]}, {"name": None}, {"aliases": [5]}])
def test_a_schema_with_odd_names_is_refused(odd: dict[str, Any]) -> None:
    with pytest.raises(InvalidSchemaError):
        AvroReader(resolved(OLD), resolved({**with_field("int", default=1), **odd}))
