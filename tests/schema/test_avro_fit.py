"""Avro refuses wrong values with the path of the field, and reads right ones back unchanged."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import io
import json
import uuid
from collections import OrderedDict
from typing import Annotated, Any

import fastavro
import numpy as np
import pydantic.dataclasses
import pytest
from pydantic import BaseModel, Field, PlainSerializer, RootModel, computed_field, field_serializer

from aiokafka_lead.errors import InvalidSchemaError, SchemaContentError
from aiokafka_lead.schema import NamedRecord, Schema
from aiokafka_lead.schema.avro import AvroReader, AvroWriter
from aiokafka_lead.schema.types import ResolvedSchema

NOW = datetime.datetime(2025, 3, 1, 12, 30, 15, 250_000, tzinfo=datetime.UTC)
NAIVE = NOW.replace(tzinfo=None)
UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")

INSTANT = {"type": "long", "logicalType": "timestamp-millis"}
LOCAL = {"type": "long", "logicalType": "local-timestamp-micros"}
NANOS = {"type": "long", "logicalType": "timestamp-nanos"}
LOCAL_NANOS = {"type": "long", "logicalType": "local-timestamp-nanos"}
DATE = {"type": "int", "logicalType": "date"}
TIME = {"type": "int", "logicalType": "time-millis"}
TEXT_UUID = {"type": "string", "logicalType": "uuid"}
FIXED_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}
FIXED_MONEY = {"type": "fixed", "name": "M", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 2}
FOUR = {"type": "fixed", "name": "Four", "size": 4}
COLOUR = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
STRINGS = {"type": "array", "items": "string"}
NUMBERS = {"type": "map", "values": "int"}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
CREATED = {"type": "record", "name": "shop.Created", "fields": [{"name": "id", "type": "string"}]}
CANCELLED = {**CREATED, "name": "shop.Cancelled"}
EVENT = [CREATED, CANCELLED]


class Colour(enum.Enum):
    RED = "RED"
    BLUE = 2


class Text(enum.StrEnum):
    RED = "RED"


class Number(enum.IntEnum):
    ONE = 1


@dataclasses.dataclass
class Inner:
    x: int


@dataclasses.dataclass
class Created:
    id: str


@dataclasses.dataclass
class Cancelled:
    id: str


class CancelledModel(BaseModel):
    id: str = Field(alias="identity", serialization_alias="id")


CancelledModel.__name__ = "Cancelled"


class Holder(BaseModel):
    v: CancelledModel | Created


class Shipped(BaseModel):
    id: int
    token: str = Field(default="MARKED secret", exclude=True)
    when: datetime.datetime = NOW
    tags: list[Annotated[Colour, PlainSerializer(lambda tag: tag.name)]] = [Colour.BLUE]

    @field_serializer("when")
    def _seconds(self, when: datetime.datetime) -> int:
        return int(when.timestamp())

    @computed_field  # type: ignore[prop-decorator]
    @property
    def twice(self) -> int:
        return 2 * self.id


@pydantic.dataclasses.dataclass
class ShippedData:
    id: int
    token: str = Field(default="MARKED secret", exclude=True)


class Parcel(Shipped):
    weight: int = 3


class Envelope(BaseModel):
    v: Shipped


def record(kind: Any, **more: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": "v", "type": kind, **more}]}


def resolved(schema: Any) -> ResolvedSchema:
    return ResolvedSchema(Schema(json.dumps(schema)))


def written(schema: Any, value: Any) -> bytes:
    return AvroWriter(resolved(schema)).write(value, b"")


def read(schema: Any, content: bytes) -> Any:
    """Return the value that this client and fastavro read, which agree."""
    ours = AvroReader(resolved(schema)).read(content, 0, None)
    source = io.BytesIO(content)
    assert fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None) == ours
    assert not source.read()
    return ours


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 1.5),
        ("int", 1.0),
        ("int", 2**31),
        ("int", -(2**31) - 1),
        pytest.param("int", 10**5000, id="huge"),
        ("int", True),
        ("int", "1"),
        ("int", decimal.Decimal(1)),
        ("int", np.float64(1)),
        ("int", np.int64(2**31)),
        ("int", None),
        ("long", 2**63),
        ("long", np.uint64(2**63)),
        ("long", NOW),
        ("boolean", "false"),
        ("boolean", 1),
        ("boolean", None),
        ("float", 1e39),
        ("float", 2**24 + 1),
        ("float", "1.5"),
        ("float", True),
        ("double", 2**53 + 1),
        ("double", 10**400),
        ("double", decimal.Decimal("0.1")),
        ("double", "nan"),
        ("string", b"bytes"),
        ("string", 5),
        ("string", "\ud800"),
        ("string", UUID),
        ("bytes", "text"),
        ("bytes", [1, 2]),
        ("null", 0),
        (FOUR, b"123"),
        (FOUR, "1234"),
        (COLOUR, "GREEN"),
        (COLOUR, 0),
        (COLOUR, Colour.BLUE.value),
        (STRINGS, "abc"),
        (STRINGS, b"abc"),
        (STRINGS, ["a", 1]),
        (STRINGS, {"a": 1}),
        (STRINGS, None),
        ({"type": "array", "items": "int"}, [1, 2**31]),
        (NUMBERS, {"a": 1.5}),
        (NUMBERS, {1: 1}),
        (NUMBERS, [("a", 1)]),
        (INNER, {"x": 1, "y": 2}),
        (INNER, {}),
        (INNER, {"x": "1"}),
        (INNER, [1]),
        (INNER, None),
        (INSTANT, 1740832215.25),
        (INSTANT, "2025-03-01"),
        (INSTANT, NAIVE),
        (INSTANT, NOW.date()),
        (INSTANT, True),
        (INSTANT, 2**62),
        (LOCAL, NOW),
        (NANOS, NAIVE),
        (NANOS, NOW.replace(year=2263)),
        (NANOS, 2**63),
        (LOCAL_NANOS, NOW),
        (DATE, NOW),
        (DATE, "2025-03-01"),
        (DATE, 2**30),
        (TIME, NOW.timetz()),
        (TIME, 86_400_000),
        (TIME, datetime.timedelta(1)),
        (TEXT_UUID, "not-a-uuid"),
        (TEXT_UUID, 5),
        (FIXED_UUID, "not-a-uuid"),
        (FIXED_UUID, b"short"),
        (MONEY, 12.5),
        (MONEY, "12.5"),
        (MONEY, decimal.Decimal("12.345")),
        (MONEY, decimal.Decimal("12345.6")),
        (MONEY, decimal.Decimal("1E+4")),
        (MONEY, decimal.Decimal("1E-999999")),
        (MONEY, decimal.Decimal("NaN")),
        (MONEY, decimal.Decimal("Infinity")),
        (MONEY, True),
        (MONEY, 10_000),
        (FIXED_MONEY, decimal.Decimal("100")),
        (["null", "int"], 1.5),
        (["null", "int"], "x"),
        (["null", INSTANT], 1.5),
        (["int", "string"], 1.5),
        (["int", "string"], None),
        (["float", "int"], True),
        (EVENT, {"id": 1}),
        (EVENT, {"id": "1", "why": "x"}),
        (EVENT, ("shop.Shipped", {"id": "1"})),
        (EVENT, {"-type": "Shipped", "id": "1"}),
        (EVENT, ("shop.Created", {"id": 1})),
    ],
)
def test_what_does_not_fit_is_refused(kind: Any, value: Any) -> None:
    """The error names the field, alone and in an array, a map and a record."""
    for outer, inside, path in (
        (kind, value, "v"),
        ({"type": "array", "items": kind}, [value], r"v\[0\]"),
        ({"type": "map", "values": kind}, {"k": value}, r"v\['k'\]"),
        ({"type": "record", "name": "Between", "fields": [{"name": "w", "type": kind}]}, {"w": value}, r"v\.w"),
    ):
        with pytest.raises(SchemaContentError, match=rf"does not match its Avro schema: {path}"):
            written(record(outer), {"v": inside})


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int", np.int16(5), 5),
        ("int", Number.ONE, 1),
        ("boolean", np.bool_(True), True),
        ("double", np.float32(1.5), 1.5),
        ("double", np.float64(0.1), 0.1),
        ("double", 2**53, 2.0**53),
        ("float", 3, 3.0),
        ("float", float("inf"), float("inf")),
        ("bytes", bytearray(b"x"), b"x"),
        ("bytes", memoryview(b"x"), b"x"),
        ("string", np.str_("x"), "x"),
        ("string", Text.RED, "RED"),
        (COLOUR, Colour.RED, "RED"),
        (COLOUR, Colour.BLUE, "BLUE"),
        (COLOUR, Text.RED, "RED"),
        (["null", COLOUR], Colour.RED, "RED"),
        (STRINGS, ("a", "b"), ["a", "b"]),
        (STRINGS, {"a"}, ["a"]),
        ({"type": "array", "items": "int"}, np.array([1, 2]), [1, 2]),
        (NUMBERS, OrderedDict(a=1), {"a": 1}),
        (INNER, Inner(1), {"x": 1}),
        ({"type": "array", "items": INNER}, [Inner(1), {"x": 2}], [{"x": 1}, {"x": 2}]),
        (INSTANT, NOW, NOW),
        (INSTANT, NOW.astimezone(datetime.timezone(datetime.timedelta(hours=9))), NOW),
        (INSTANT, 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        (INSTANT, NOW.replace(microsecond=250_999), NOW),
        (LOCAL, NAIVE, NAIVE),
        (NANOS, NOW, 1740832215_250_000_000),
        (["int", LOCAL_NANOS], NAIVE, 1740832215_250_000_000),
        (NANOS, 2**62 + 1, 2**62 + 1),
        (DATE, NOW.date(), NOW.date()),
        (TIME, NAIVE.time(), NAIVE.time()),
        (TEXT_UUID, UUID, UUID),
        (TEXT_UUID, "{F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6}", UUID),
        (FIXED_UUID, UUID, UUID.bytes),
        (FIXED_UUID, str(UUID), UUID.bytes),
        (FIXED_UUID, UUID.bytes, UUID.bytes),
        ({**FIXED_UUID, "size": 2}, b"ab", b"ab"),
        (MONEY, decimal.Decimal("12.5"), decimal.Decimal("12.50")),
        (MONEY, decimal.Decimal("-9999.99"), decimal.Decimal("-9999.99")),
        (MONEY, decimal.Decimal("12.500"), decimal.Decimal("12.50")),
        (MONEY, decimal.Decimal("0E+50"), decimal.Decimal(0)),
        (MONEY, 12, decimal.Decimal(12)),
        (FIXED_MONEY, decimal.Decimal("99.99"), decimal.Decimal("99.99")),
        (FIXED_MONEY, decimal.Decimal("-99.99"), decimal.Decimal("-99.99")),
        (["null", MONEY], decimal.Decimal("1.5"), decimal.Decimal("1.5")),
        (["float", "double"], 0.1, 0.1),
        (["double", "int"], 5, 5),
        (["boolean", "int"], True, True),
        (["int", INSTANT], NOW, NOW),
        (["null", STRINGS], ("a", "b"), ["a", "b"]),
        (["string", TEXT_UUID], "x", "x"),
    ],
)
def test_what_fits_is_read_as_it_was(kind: Any, value: Any, expected: Any) -> None:
    for outer, inside, found in (
        (kind, value, expected),
        ({"type": "array", "items": kind}, [value], [expected]),
        ({"type": "map", "values": kind}, {"k": value}, {"k": expected}),
    ):
        if isinstance(outer, list):
            assert read(outer, written(outer, inside)) == found
        assert read(record(outer), written(record(outer), {"v": inside})) == {"v": found}


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("bytes", "\u00ff", b"\xff"),
        (FOUR, "\u00ff\u0000ab", b"\xff\x00ab"),
        ("double", 1, 1.0),
        (["null", "int"], None, None),
        (["bytes", "null"], "\u00ff", b"\xff"),
        (MONEY, "\u0001", decimal.Decimal("0.01")),
        (INNER, {"x": 3}, {"x": 3}),
        (STRINGS, ["a"], ["a"]),
        (COLOUR, "BLUE", "BLUE"),
        (INSTANT, 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
        (TEXT_UUID, str(UUID), UUID),
    ],
)
def test_defaults_are_written_as_avro_has_them(kind: Any, default: Any, expected: Any) -> None:
    schema = record(kind, default=default)
    assert read(schema, written(schema, {})) == {"v": expected}


@pytest.mark.parametrize(
    "value",
    [
        ("shop.Cancelled", {"id": "7"}),
        ("Cancelled", {"id": "7"}),
        {"-type": "shop.Cancelled", "id": "7"},
        {"-type": "Cancelled", "id": "7"},
        Cancelled("7"),
        CancelledModel(identity="7"),
        NamedRecord("shop.Cancelled", {"id": "7"}),
    ],
)
def test_a_union_of_records_keeps_its_branch(value: Any) -> None:
    """A value is written back as it was read."""
    deep = record({"type": "array", "items": ["null", {"type": "map", "values": EVENT}]})
    for schema, inside in (
        (EVENT, value),
        (record(EVENT), {"v": value}),
        (deep, {"v": [None, {"k": value}]}),
    ):
        content = written(schema, inside)
        found = read(schema, content)
        assert written(schema, found) == content
    assert content == written(deep, {"v": [None, {"k": {"-type": "Cancelled", "id": "7"}}]})
    found = AvroReader(resolved(EVENT)).read(written(EVENT, value), 0, None)
    assert found == {"id": "7"}
    assert found.record_name == "shop.Cancelled"


@pytest.mark.parametrize("kind", [MONEY, {**MONEY, "type": "fixed", "name": "M", "size": 3}])
def test_decimals_with_more_digits_than_their_type_are_not_rounded(kind: Any) -> None:
    """Another client may have written them."""
    content = {
        digits: (b"\x06" if kind is MONEY else b"") + digits.to_bytes(3, "big") for digits in (999_999, 1_234_567)
    }
    assert read(kind, content[999_999]) == decimal.Decimal("9999.99")
    with pytest.raises(SchemaContentError, match="more digits"):
        AvroReader(resolved(kind)).read(content[1_234_567], 0, None)
    assert read(kind, content[999_999]) == decimal.Decimal("9999.99")


def test_a_model_in_a_model_names_its_branch() -> None:
    content = written(record(EVENT), Holder(v=CancelledModel(identity="7")))
    assert content == written(record(EVENT), {"v": ("Cancelled", {"id": "7"})})


SHIPPED = {
    "type": "record",
    "name": "Shipped",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "token", "type": ["null", "string"], "default": None},
        {"name": "when", "type": "int", "default": 0},
        {"name": "tags", "type": STRINGS, "default": []},
        {"name": "twice", "type": "int", "default": 0},
    ],
}
PARCEL = {**SHIPPED, "name": "Parcel", "fields": [*SHIPPED["fields"], {"name": "weight", "type": "int"}]}
SHIPPED_DATA = {**SHIPPED, "name": "ShippedData"}
WHOLE = {"id": 7, "token": None, "when": int(NOW.timestamp()), "tags": ["BLUE"], "twice": 14}


@pytest.mark.parametrize("others", [(), (CREATED,), (NUMBERS,)], ids=["alone", "beside a record", "beside a map"])
@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (SHIPPED, Shipped(id=7), WHOLE),
        (PARCEL, Parcel(id=7), {**WHOLE, "weight": 3}),
        (SHIPPED_DATA, ShippedData(7), {"id": 7, "token": None, "when": 0, "tags": [], "twice": 0}),
    ],
    ids=["model", "subclass", "dataclass"],
)
def test_pydantic_decides_what_a_model_contains(kind: Any, others: Any, value: Any, expected: Any) -> None:
    """A field with ``exclude`` is not written, whatever else the schema contains."""
    union = [kind, *others]
    assert read(union, written(union, value)) == expected
    deep = record({"type": "map", "values": {"type": "array", "items": union}})
    assert read(deep, written(deep, {"v": {"k": [value]}})) == {"v": {"k": [expected]}}
    model = pydantic.create_model("R", v=(dict[str, list[Any]], ...))
    assert read(deep, written(deep, model(v={"k": [value]}))) == {"v": {"k": [expected]}}


def test_a_model_annotated_by_its_base_class_names_its_branch() -> None:
    schema = record([SHIPPED, PARCEL])
    for value in (Envelope(v=Parcel(id=7)), RootModel[Envelope](Envelope(v=Parcel(id=7)))):
        found = AvroReader(resolved(schema)).read(written(schema, value), 0, None)
        assert found == {"v": {**WHOLE, "weight": 3}}
        assert found["v"].record_name == "Parcel"


@pytest.mark.parametrize(
    ("kind", "more", "content", "expected"),
    [
        ("int", {"default": "0"}, b"\x02", 1),
        ("string", {"default": None}, b"\x02a", "a"),
        ({**COLOUR, "default": "GREEN"}, {}, b"\x02", "BLUE"),
        (
            {"type": "record", "name": "In", "fields": [{"name": "w", "type": "int", "default": ""}]},
            {},
            b"\x02",
            {"w": 1},
        ),
        ({**MONEY, "precision": 2, "scale": 5}, {}, b"\x02a", b"a"),
        ({**FIXED_MONEY, "precision": 20}, {}, b"ab", b"ab"),
    ],
)
def test_what_java_has_written_by_a_faulty_schema_is_read(kind: Any, more: Any, content: bytes, expected: Any) -> None:
    """A writer's default does not matter, and a faulty logical type is ignored."""
    schema = resolved(record(["null", kind] if "default" not in more else kind, **more))
    before = b"" if "default" in more else b"\x02"
    assert AvroReader(schema).read(before + content, 0, None) == {"v": expected}
    with pytest.raises(InvalidSchemaError):
        AvroWriter(schema)


@pytest.mark.parametrize("schema", ["[[]]", '{"type": "fixed", "name": "f", "size": "x"}', '{"type": 5}'])
def test_what_is_no_schema(schema: str) -> None:
    with pytest.raises(InvalidSchemaError):
        AvroWriter(ResolvedSchema(Schema(schema)))


CUSTOMER = {"type": "record", "name": "shop.Customer", "fields": [{"name": "id", "type": "int"}]}
PRODUCT = {"type": "record", "name": "shop.Product", "fields": [{"name": "owner", "type": ["null", "Customer"]}]}


@pytest.mark.parametrize(
    "schema",
    [
        "shop.Product",
        {"type": "shop.Product"},
        {"type": "record", "name": "shop.R", "fields": [{"name": "owner", "type": ["null", {"type": "Customer"}]}]},
    ],
)
def test_a_schema_that_is_the_name_of_another_type(schema: Any) -> None:
    """Also inside an object, as Java accepts it; the type refers to another type."""
    given = Schema(json.dumps(schema))
    references = (("customer", Schema(json.dumps(CUSTOMER))), ("product", Schema(json.dumps(PRODUCT))))
    whole = ResolvedSchema(given, references)
    value = {"owner": {"id": 2}}
    content = AvroWriter(whole).write(value, b"")
    for reader in (None, whole):
        assert AvroReader(whole, reader).read(content, 0, None) == value


def test_a_record_goes_to_the_branch_that_it_fills() -> None:
    more = {**CREATED, "fields": [*CREATED["fields"], {"name": "note", "type": "string", "default": ""}]}
    assert written([more, CANCELLED], {"id": "7"})[0] == 2
    assert written([more, CANCELLED], {"id": "7", "note": "n"})[0] == 0


SAME = [{**CREATED, "name": name} for name in ("a.Event", "Event", "b.Other", "c.Other")]


@pytest.mark.parametrize(
    ("union", "value", "branch"),
    [
        (SAME, ("Event", {"id": "7"}), 1),
        (SAME, ("a.Event", {"id": "7"}), 0),
        (SAME, {"-type": "Event", "id": "7"}, 1),
        (SAME, NamedRecord("Event", {"id": "7"}), 1),
        (SAME, NamedRecord("c.Other", {"id": "7"}), 3),
        (["string", COLOUR], Colour.BLUE, 1),
        (["string", COLOUR], "BLUE", 0),
        ([NUMBERS, INNER], Inner(1), 1),
        ([NUMBERS, INNER], {"x": 1}, 0),
        ([INNER, NUMBERS], {"y": 1}, 1),
    ],
)
def test_a_full_name_and_a_type_decide(union: Any, value: Any, branch: int) -> None:
    content = written(union, value)
    assert content[0] == 2 * branch
    if isinstance(union[branch], dict) and union[branch]["type"] == "record":
        assert written(union, read(union, content)) == content


@pytest.mark.parametrize("value", [("Other", {"id": "7"}), {"-type": "Other", "id": "7"}])
def test_a_name_of_several_branches_is_refused(value: Any) -> None:
    with pytest.raises(SchemaContentError, match=r"several branches 'Other': b\.Other, c\.Other"):
        written(SAME, value)


def test_values_of_other_records_are_read_by_name() -> None:
    """Named types that are referred to, also in unions read with another schema."""
    union = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": EVENT}, {"name": "b", "type": ["shop.Created", "shop.Cancelled"]}],
    }
    content = written(union, {"a": ("Created", {"id": "1"}), "b": ("Cancelled", {"id": "2"})})
    for reader in (None, resolved(union)):
        found = AvroReader(resolved(union), reader).read(content, 0, None)
        assert [found["a"].record_name, found["b"].record_name] == ["shop.Created", "shop.Cancelled"]
        assert written(union, found) == content
