"""The application's own types, both ways, by each kind of schema; values are read back into the same type."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import sys
import uuid
from typing import Any, Generic, NewType, NotRequired, TypedDict, TypeVar

import attrs
import pydantic.dataclasses
import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field

from aiokafka_lead.errors import ConfigTypeError, InvalidSchemaError, SchemaContentError
from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry
from aiokafka_lead.schema.framing import prefix_of
from aiokafka_lead.schema.making import making
from aiokafka_lead.testing import EmbeddedSchemaRegistry

from . import messages

pytestmark = pytest.mark.anyio

NOW = datetime.datetime(2025, 3, 1, 12, 30, tzinfo=datetime.UTC)
UUID = uuid.UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")


class Colour(enum.Enum):
    RED = "RED"
    BLUE = 2


class Number(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass
class Line:
    sku: str
    price: decimal.Decimal


@dataclasses.dataclass
class Order:
    id: uuid.UUID
    at: datetime.datetime
    day: datetime.date
    colour: Colour
    lines: list[Line]
    by_name: dict[str, Line]
    first: Line | None = None
    child: Order | None = None
    kept: bool = dataclasses.field(default=True, init=False)


@attrs.define
class AttrsLine:
    sku: str
    price: decimal.Decimal


@attrs.define
class AttrsOrder:
    id: uuid.UUID
    lines: list[AttrsLine]


class ModelLine(BaseModel):
    sku: str
    price: decimal.Decimal


class ModelOrder(BaseModel):
    id: uuid.UUID
    colour: Colour
    lines: list[ModelLine]


class Receipt(BaseModel):
    model_config = ConfigDict(extra="forbid")
    order_id: int = Field(serialization_alias="orderId")
    cents: int = Field(validation_alias="centsGiven")
    name: str = Field(alias="customerName", pattern=r"^\p{L}+$")
    token: str = Field(exclude=True)
    note: str = ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def euros(self) -> float:
        return self.cents / 100


@pydantic.dataclasses.dataclass(kw_only=True)
class Ticket:
    number: int = Field(alias="ticketNumber")
    colour: Colour
    token: str = Field(default="MARKED secret", exclude=True)


LINE = {
    "type": "record",
    "name": "Line",
    "fields": [
        {"name": "sku", "type": "string"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
FIELDS: dict[str, Any] = {
    "id": {"type": "string", "logicalType": "uuid"},
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "day": {"type": "int", "logicalType": "date"},
    "colour": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]},
    "lines": {"type": "array", "items": LINE},
    "by_name": {"type": "map", "values": "Line"},
    "first": ["null", "Line"],
    "child": ["null", "Order"],
    "kept": "boolean",
}


def avro(*names: str, **more: Any) -> dict[str, Any]:
    fields = [{"name": each, "type": FIELDS[each]} for each in names]
    return {"type": "record", "name": "Order", "fields": [*fields, *more.get("fields", ())]}


def json_fields(*names: str) -> dict[str, Any]:
    return {"type": "object", "title": "Order", "required": list(names)}


LINES = [Line("a", decimal.Decimal("1.50")), Line("b", decimal.Decimal("2.00"))]
ORDER = Order(UUID, NOW, NOW.date(), Colour.BLUE, LINES, {"x": LINES[0]}, LINES[1], None)
ORDER.child = dataclasses.replace(ORDER, colour=Colour.RED)


@pytest.mark.parametrize(
    ("value", "names"),
    [
        (ORDER, tuple(FIELDS)),
        (AttrsOrder(UUID, [AttrsLine("a", decimal.Decimal("1.50"))]), ("id", "lines")),
        (
            ModelOrder(id=UUID, colour=Colour.BLUE, lines=[ModelLine(sku="a", price=decimal.Decimal("1.50"))]),
            ("id", "colour", "lines"),
        ),
    ],
    ids=["dataclass", "attrs", "pydantic"],
)
@pytest.mark.parametrize("kind", ["avro", "json"])
async def test_what_is_written_is_read_into_the_same_type(
    schema_registry: EmbeddedSchemaRegistry, kind: str, value: Any, names: tuple[str, ...]
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    serializer: Any = (
        registry.avro_serializer(avro(*names), auto_register=True)
        if kind == "avro"
        else registry.json_serializer(json_fields(*names), auto_register=True)
    )
    content = await serializer.encode(value, "orders")
    into: Any
    for into in (type(value), [type(value), Line]):
        assert await registry.deserializer(into).decode(content) == value


async def test_dataclasses_of_pydantic(schema_registry: EmbeddedSchemaRegistry) -> None:
    """With an alias, a validated field and an excluded one."""
    registry = SchemaRegistry(schema_registry.url)
    made: Any = Ticket
    value = made(ticketNumber=7, colour=Colour.BLUE, token="MARKED other")
    for serializer in (
        registry.avro_serializer(avro("colour", fields=[{"name": "ticketNumber", "type": "int"}]), auto_register=True),
        registry.json_serializer({"type": "object", "additionalProperties": True}, auto_register=True),
    ):
        content = await serializer.encode(value, f"tickets-{id(serializer)}")
        assert b"MARKED" not in content
        assert await registry.deserializer(Ticket).decode(content) == made(ticketNumber=7, colour=Colour.BLUE)


async def test_structs_of_msgspec(schema_registry: EmbeddedSchemaRegistry) -> None:
    msgspec: Any = pytest.importorskip("msgspec")
    line: Any = msgspec.defstruct("Line", [("sku", str), ("price", decimal.Decimal)])
    order = msgspec.defstruct("Order", [("id", uuid.UUID), ("colour", Number), ("lines", list[line])], rename="lower")
    value = order(UUID, Number.BLUE, [line("a", decimal.Decimal("1.50"))])
    registry = SchemaRegistry(schema_registry.url)
    for serializer in (
        registry.avro_serializer(avro("id", "colour", "lines"), auto_register=True),
        registry.json_serializer(json_fields("id", "colour", "lines"), auto_register=True, subject="record"),
    ):
        content = await serializer.encode(value, "orders")
        assert await registry.deserializer(order).decode(content) == value


async def test_a_class_reads_what_has_more_fields(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    line = {**LINE, "fields": [*LINE["fields"], {"name": "note", "type": "string", "default": ""}]}
    later = avro(fields=[{"name": "lines", "type": {"type": "array", "items": line}}, {"name": "x", "type": "int"}])

    @dataclasses.dataclass
    class Lines:
        lines: Any
        added: int = 5

    made = {"lines": [{"sku": "a", "price": decimal.Decimal(1), "note": "n"}], "x": 1}
    content = await registry.avro_serializer(later, auto_register=True).encode(made, "orders")
    assert await registry.deserializer(Lines).decode(content) == Lines(made["lines"])
    with pytest.raises(SchemaContentError, match="day"):
        await registry.deserializer(Order).decode(content)

    @dataclasses.dataclass
    class Local:
        lines: list[Line]
        child: Lines | None = None  # a name that only resolves in this scope

    assert await registry.deserializer(Local).decode(content) == Local([Line("a", decimal.Decimal(1))])


Content = TypeVar("Content")
Name = NewType("Name", uuid.UUID)


@dataclasses.dataclass
class Box(Generic[Content]):
    item: Content
    others: list[Content]


class Entry(TypedDict):
    line: Line
    name: NotRequired[Name]


@dataclasses.dataclass
class Shelf:
    box: Box[Line]
    entry: Entry


@pytest.mark.parametrize("kind", ["avro", "json"])
async def test_types_within_generic_classes_and_typed_dicts(schema_registry: EmbeddedSchemaRegistry, kind: str) -> None:
    box = {
        "type": "record",
        "name": "Box",
        "fields": [{"name": "item", "type": LINE}, {"name": "others", "type": {"type": "array", "items": "Line"}}],
    }
    entry = {
        "type": "record",
        "name": "Entry",
        "fields": [{"name": "line", "type": "Line"}, {"name": "name", "type": FIELDS["id"]}],
    }
    shelf = {
        "type": "record",
        "name": "Shelf",
        "fields": [{"name": "box", "type": box}, {"name": "entry", "type": entry}],
    }
    registry = SchemaRegistry(schema_registry.url)
    serializer: Any = (
        registry.avro_serializer(shelf, auto_register=True)
        if kind == "avro"
        else registry.json_serializer({"type": "object"}, auto_register=True)
    )
    value = Shelf(Box(LINES[0], LINES), {"line": LINES[1], "name": Name(UUID)})
    content = await serializer.encode(value, "orders")
    assert await registry.deserializer(Shelf).decode(content) == value


@dataclasses.dataclass
class Dated:
    pair: tuple[Line, datetime.date]


def test_tuples_with_a_type_for_each_item() -> None:
    made = making(Dated)({"pair": [{"sku": "a", "price": "1.5"}, "2025-03-01"]})
    assert made == Dated((Line("a", decimal.Decimal("1.5")), datetime.date(2025, 3, 1)))
    with pytest.raises(SchemaContentError) as caught:
        making(Dated)({"pair": [{"sku": "a", "price": "1.5"}]})
    assert "there are 1 items, not 2" in str(caught.value)


LATE = """
@dataclass
class A:
    line: Line
    other: Unknown

class B(TypedDict):
    line: Line
    other: Unknown
"""


@pytest.mark.skipif(sys.version_info < (3, 14), reason="annotations are evaluated earlier")
def test_types_beside_one_that_only_type_checkers_know() -> None:
    scope: dict[str, Any] = {"__name__": __name__, "Line": Line, "dataclass": dataclasses.dataclass}
    exec(compile(LATE, "late", "exec", dont_inherit=True), scope | {"TypedDict": TypedDict}, scope)
    given = {"line": {"sku": "a", "price": "1.5"}, "other": {}}
    line = Line("a", decimal.Decimal("1.5"))
    assert making(scope["A"])(given) == scope["A"](line, {})
    assert making(scope["B"])(given) == {"line": line, "other": {}}


@dataclasses.dataclass
class Created:
    id: str


@dataclasses.dataclass
class Cancelled:
    id: str


@dataclasses.dataclass
class Log:
    events: list[Created | Cancelled | None]


EVENTS = [
    {"type": "record", "name": each, "fields": [{"name": "id", "type": "string"}]} for each in ("Created", "Cancelled")
]


async def test_a_union_is_read_into_the_class_of_its_record(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    union = registry.avro_serializer(EVENTS, auto_register=True)
    for value in (Created("1"), Cancelled("1")):
        content = await union.encode(value, "events")
        for into in ([Created, Cancelled], Created | Cancelled):
            assert await registry.deserializer(into).decode(content) == value  # type: ignore[arg-type]
    log = {
        "type": "record",
        "name": "Log",
        "fields": [{"name": "events", "type": {"type": "array", "items": ["null", *EVENTS]}}],
    }
    events = Log([Cancelled("1"), None, Created("2")])
    content = await registry.avro_serializer(log, auto_register=True).encode(events, "log")
    assert await registry.deserializer(Log).decode(content) == events


@dataclasses.dataclass
class Refund:
    id: str


@dataclasses.dataclass
class Payment:
    id: str
    cents: int


@dataclasses.dataclass
class Receipts:
    one: Refund | Payment
    many: list[Refund | Payment]
    maybe: Refund | Payment | None


class CreatedModel(BaseModel):
    id: str


class CancelledModel(BaseModel):
    id: str


class LogModel(BaseModel):
    last: CreatedModel | CancelledModel
    events: list[CreatedModel | CancelledModel | None] = Field(alias="theEvents")
    by: dict[str, CreatedModel | CancelledModel]


class LogsModel(BaseModel):
    logs: list[LogModel]
    inner: LogsModel | None = None


@pydantic.dataclasses.dataclass
class LogOfDataclass:
    last: CreatedModel | CancelledModel


async def test_a_union_in_a_model_is_read_into_the_class_of_its_record(schema_registry: EmbeddedSchemaRegistry) -> None:
    """Pydantic alone would choose the first class that accepts the fields."""
    registry = SchemaRegistry(schema_registry.url)
    union = [{**each, "name": f"{each['name']}Model"} for each in EVENTS]
    names = [each["name"] for each in union]
    kinds = {
        "last": union,
        "theEvents": {"type": "array", "items": ["null", *names]},
        "by": {"type": "map", "values": names},
    }
    log = {
        "type": "record",
        "name": "LogModel",
        "fields": [{"name": name, "type": kind} for name, kind in kinds.items()],
    }
    inner = {"name": "inner", "type": ["null", "LogsModel"]}
    logs = {
        "type": "record",
        "name": "LogsModel",
        "fields": [{"name": "logs", "type": {"type": "array", "items": log}}, inner],
    }
    one, other = CreatedModel(id="1"), CancelledModel(id="2")
    whole = LogModel(last=other, theEvents=[other, None, one], by={"a": other, "b": one})
    value = LogsModel(logs=[whole], inner=LogsModel(logs=[whole]))
    content = await registry.avro_serializer(logs, auto_register=True).encode(value, "logs")
    assert await registry.deserializer(LogsModel).decode(content) == value
    plain = {**log, "fields": [{"name": "last", "type": union[1]}]}
    content = await registry.avro_serializer(plain, auto_register=True).encode({"last": {"id": "2"}}, "plain")
    assert await registry.deserializer(LogOfDataclass).decode(content) == LogOfDataclass(last=other)


async def test_a_record_is_read_into_the_class_of_its_name(schema_registry: EmbeddedSchemaRegistry) -> None:
    """An earlier class, which would accept the record without some fields, is not chosen. No union is needed."""
    registry = SchemaRegistry(schema_registry.url)
    refund = {"type": "record", "name": "Refund", "fields": [{"name": "id", "type": "string"}]}
    payment = {
        **refund,
        "name": "Payment",
        "fields": [{"name": "id", "type": "string"}, {"name": "cents", "type": "int"}],
    }
    many = [
        {"name": "many", "type": {"type": "array", "items": "Payment"}},
        {"name": "maybe", "type": ["null", "Payment"]},
    ]
    receipts = {"type": "record", "name": "Receipts", "fields": [{"name": "one", "type": payment}, *many]}
    later = {**receipts, "fields": [{"name": "one", "type": [refund, payment]}, *many]}
    value = Payment("1", 5)
    content = await registry.avro_serializer(payment, auto_register=True).encode(value, "payments")
    several: tuple[Any, ...] = ([Refund, Payment], Refund | Payment)
    for into in several:
        assert await registry.deserializer(into).decode(content) == value
    whole = Receipts(value, [value], value)
    content = await registry.avro_serializer(receipts, auto_register=True).encode(whole, "receipts")
    assert await registry.deserializer(Receipts).decode(content) == whole
    assert await registry.deserializer(Receipts, schema=later).decode(content) == whole


@pytest.mark.parametrize("into", [5, [], [5], "Order"])
def test_what_nothing_can_be_made_into(into: Any) -> None:
    with pytest.raises(ConfigTypeError, match="into"):
        SchemaRegistry("http://localhost").deserializer(into)


# --- JSON ---


@pytest.mark.parametrize(
    ("schema", "value", "path"),
    [
        ({"type": "integer"}, 1.5, r"\$"),
        ({"type": "integer"}, True, r"\$"),
        ({"type": "integer"}, "1", r"\$"),
        ({"type": "boolean"}, "false", r"\$"),
        ({"type": "array"}, "abc", r"\$"),
        ({"type": "string"}, 5, r"\$"),
        ({"type": "string"}, b"bytes", r"\$"),
        ({"type": "string", "format": "uuid"}, "not-a-uuid", r"\$"),
        ({"type": "string", "format": "date"}, "yesterday", r"\$"),
        ({"type": "string", "format": "date-time"}, "2025-03-01", r"\$"),
        ({"type": "string", "format": "date-time"}, "yesterday evening", r"\$"),
        ({"type": "string", "format": "time"}, "noon", r"\$"),
        ({"type": "string", "format": "ipv4"}, "300.1.1.1", r"\$"),
        ({"enum": ["RED"]}, "GREEN", r"\$"),
        ({}, float("nan"), r"\$"),
        ({}, {"a": [1, {2: 3}]}, r"\$\.a\[1\]"),
        ({}, {"a": object()}, r"\$\.a"),
        ({"type": "number"}, decimal.Decimal("0.1234567890123456789"), r"\$"),
        ({"type": "number"}, decimal.Decimal("Infinity"), r"\$"),
        ({"properties": {"a": {"maximum": 3}}}, {"a": 4}, r"\$\.a"),
    ],
)
async def test_json_writes_only_what_fits(
    schema_registry: EmbeddedSchemaRegistry, schema: Any, value: Any, path: str
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    serializer = registry.json_serializer(schema, auto_register=True)
    with pytest.raises(SchemaContentError, match=f"{path}: "):
        await serializer.encode(value, "orders")


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "array"}, ("a", "b"), ["a", "b"]),
        ({"type": "array"}, {"a"}, ["a"]),
        ({"type": "number"}, decimal.Decimal("12.50"), 12.5),
        ({"type": "integer"}, decimal.Decimal("1E+2"), 100),
        ({"type": "string"}, Colour.RED, "RED"),
        ({"type": "integer"}, Colour.BLUE, 2),
        ({"type": "string", "format": "uuid"}, UUID, str(UUID)),
        ({"type": "string", "format": "date-time"}, NOW, "2025-03-01T12:30:00+00:00"),
        ({"type": "string", "format": "date"}, NOW.date(), "2025-03-01"),
        ({"type": "string", "format": "time"}, NOW.time(), "12:30:00"),
        ({"type": "integer"}, 2**70, 2**70),
        ({"type": "object"}, {"a": Created("1"), "b": [ModelLine(sku="s", price=decimal.Decimal(1))]}, None),
    ],
)
async def test_json_writes_what_stands_for_json(
    schema_registry: EmbeddedSchemaRegistry, schema: Any, value: Any, expected: Any
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    content = await registry.json_serializer(schema, auto_register=True).encode(value, "orders")
    expected = expected or {"a": {"id": "1"}, "b": [{"sku": "s", "price": "1"}]}
    assert await registry.deserializer().decode(content) == expected


async def test_a_models_own_schema_describes_what_is_written(schema_registry: EmbeddedSchemaRegistry) -> None:
    """With aliases, computed and excluded fields."""
    registry = SchemaRegistry(schema_registry.url)
    value = Receipt(order_id=1, centsGiven=250, customerName="Ada", token="MARKED secret")  # type: ignore[call-arg]
    content = await registry.json_serializer(Receipt, auto_register=True).encode(value, "receipts")
    written = {"orderId": 1, "cents": 250, "customerName": "Ada", "note": "", "euros": 2.5}
    assert await registry.deserializer().decode(content) == written
    required = json.loads((await registry.latest("receipts-value")).schema.text)["required"]
    assert "note" not in required  # so that a field with a default may be added


@pytest.mark.parametrize("root_id", [None, "https://example.org/schemas/whole.json"])
@pytest.mark.parametrize("line_id", [None, "line.json", "https://example.org/schemas/line.json"])
@pytest.mark.parametrize("reference", ["line.json", "./line.json"])
async def test_json_references_are_found_by_their_names(
    schema_registry: EmbeddedSchemaRegistry, root_id: str | None, line_id: str | None, reference: str
) -> None:
    """References between schemas are found by the names of the schemas."""
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("sku", Schema('{"type": "string", "minLength": 2}', "JSON"))
    line = {"type": "object", "properties": {"sku": {"$ref": "sku.json"}}, **({"$id": line_id} if line_id else {})}
    skus = (SchemaReference("sku.json", "sku", 1),)
    await registry.register("line", Schema(json.dumps(line), "JSON", skus))
    whole = {"properties": {"line": {"$ref": reference}}, **({"$id": root_id} if root_id else {})}
    schema = Schema(json.dumps(whole), "JSON", (SchemaReference("line.json", "line", 1),))
    serializer = registry.json_serializer(schema, auto_register=True)
    content = await serializer.encode({"line": {"sku": "ab"}}, "orders")
    assert await registry.deserializer().decode(content) == {"line": {"sku": "ab"}}
    with pytest.raises(SchemaContentError, match=r"\$\.line\.sku"):
        await serializer.encode({"line": {"sku": "a"}}, "orders")


# --- Protobuf ---


@pytest.mark.parametrize(
    "part", ["5", "[]", '{"type": "nope"}', '{"properties": 5}', '{"$schema": 5}', '{"pattern": 5}']
)
async def test_a_json_reference_that_is_no_schema(schema_registry: EmbeddedSchemaRegistry, part: str) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("part", Schema(part, "JSON"))
    whole = Schema('{"$ref": "part.json"}', "JSON", (SchemaReference("part.json", "part", 1),))
    registered = await registry.register("whole", whole)
    assert registered.id is not None
    with pytest.raises(InvalidSchemaError):
        await registry.deserializer().decode(prefix_of(registered.id) + b"{}")
    with pytest.raises(InvalidSchemaError):
        await registry.json_serializer(whole, subject=lambda *_: "whole").encode({}, "orders")


async def test_another_messages_bytes_are_refused(schema_registry: EmbeddedSchemaRegistry) -> None:
    """Even with a single wanted class, which the bytes could fit."""
    registry = SchemaRegistry(schema_registry.url)
    content = await registry.protobuf_serializer(messages.SECOND, auto_register=True).encode(
        messages.SECOND(id=7), "orders"
    )
    assert await registry.deserializer(messages.SECOND).decode(content) == messages.SECOND(id=7)
    with pytest.raises(SchemaContentError, match=r"shop\.Second"):
        await registry.deserializer(messages.PLAIN).decode(content)
    for index in (b"\x02\x10", b"\x04\x00\x10"):
        with pytest.raises(SchemaContentError, match="no message type"):
            await registry.deserializer(messages.PLAIN).decode(content[:5] + index + content[7:])
