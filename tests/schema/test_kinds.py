"""Values of each kind of schema, with a real registry and the embedded one, and beside other clients."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from pydantic import BaseModel

from aiokafka_lead.errors import (
    ConfigError,
    IncompatibleSchemaError,
    InvalidSchemaError,
    SchemaContentError,
    SchemaNotFoundError,
    SchemaRegistryError,
)
from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry, WithHeaders
from aiokafka_lead.testing import EmbeddedSchemaRegistry

from . import confluent, messages
from .apicurio import Apicurio, JavaSerdes
from .conftest import Place
from .material import LATER, ORDER, OTHER, order

pytestmark = pytest.mark.anyio

HEADER_IDS = {"schema.id.serializer": confluent.header_ids}
DRAFT = "http://json-schema.org/draft-07/schema#"


class Order(BaseModel):
    id: int
    customer: str
    note: str | None = None


@dataclasses.dataclass
class PlainOrder:
    id: int
    customer: str
    note: str | None = None


def text(schema: Any) -> Schema:
    return Schema(json.dumps(schema))


# --- the two registries agree ---


async def test_registering_and_finding(any_registry: Place, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    subject = f"{name}-value"
    with pytest.raises(SchemaNotFoundError) as raised:
        await registry.latest(subject)
    assert raised.value.error_code == 40401
    first = await registry.register(subject, text(ORDER))
    assert first.id is not None
    assert (first.guid is not None) == any_registry.has_guids
    registry.forget()
    assert (await registry.register(subject, text(ORDER))).id == first.id
    assert (await registry.register(f"{name}-other", text(ORDER))).id == first.id
    assert (await registry.schema(first.id)).schema == text(ORDER)
    latest = await registry.latest(subject)
    assert (latest.id, latest.version, latest.subject, latest.schema) == (first.id, 1, subject, text(ORDER))
    found = await registry.lookup(subject, text(ORDER))
    assert (found.id, found.version) == (first.id, 1)
    with pytest.raises(SchemaNotFoundError) as raised:
        await registry.lookup(subject, text(LATER))
    assert raised.value.error_code == 40403
    with pytest.raises(SchemaNotFoundError) as raised:
        await registry.version(subject, 9)
    assert raised.value.error_code == 40402
    with pytest.raises(SchemaNotFoundError) as raised:
        await registry.schema(2_000_000_000)
    assert raised.value.error_code == 40403
    with pytest.raises(InvalidSchemaError):
        await registry.register(subject, Schema('{"type": "rec'))
    assert await registry.versions(subject) == [1]
    assert {subject, f"{name}-other"} <= set(await registry.subjects())
    assert await registry.delete_subject(f"{name}-other") == [1]
    assert f"{name}-other" not in await registry.subjects()


@pytest.mark.parametrize(
    ("level", "good", "bad"),
    [
        ("BACKWARD", LATER, OTHER),
        ("FORWARD", LATER, OTHER),
        ("FULL", LATER, {**ORDER, "fields": ORDER["fields"][1:]}),
        ("BACKWARD", {**ORDER, "fields": ORDER["fields"][1:]}, {**ORDER, "name": "Another"}),
        ("BACKWARD_TRANSITIVE", LATER, OTHER),
        ("NONE", OTHER, None),
    ],
)
async def test_compatibility(any_registry: Place, name: str, level: str, good: Any, bad: Any) -> None:
    registry = SchemaRegistry(any_registry.url)
    await registry.register(name, text(ORDER))
    await registry.set_compatibility(level, name)
    assert await registry.compatibility(name) == level
    if bad is not None:
        assert await registry.incompatibilities(name, text(bad))
        with pytest.raises(IncompatibleSchemaError) as raised:
            await registry.register(name, text(bad))
        assert raised.value.status == 409
        assert raised.value.reasons
    assert await registry.incompatibilities(name, text(good)) == []
    await registry.register(name, text(good))
    assert await registry.versions(name) == [1, 2]


# --- each kind ---


@pytest.mark.parametrize("value", [order(1), Order(**order(1)), PlainOrder(**order(1))], ids=["dict", "model", "class"])
async def test_avro_with_references(any_registry: Place, name: str, value: Any) -> None:
    registry = SchemaRegistry(any_registry.url)
    await registry.register(f"{name}-order", text(ORDER))
    box = {
        "type": "record",
        "name": "Box",
        "fields": [
            {"name": "first", "type": "shop.Order"},
            {"name": "rest", "type": {"type": "array", "items": "shop.Order"}},
        ],
    }
    schema = Schema(json.dumps(box), references=(SchemaReference("shop.Order", f"{name}-order", 1),))
    written = await registry.avro_serializer(schema, auto_register=True).encode(
        {"first": order(1), "rest": [order(2)]}, name
    )
    reader = SchemaRegistry(any_registry.url)
    assert await reader.deserializer().decode(written) == {"first": order(1), "rest": [order(2)]}
    one = await registry.avro_serializer(ORDER, auto_register=True, subject="record").encode(value, name)
    assert await reader.deserializer().decode(one) == order(1)
    assert await reader.deserializer(Order).decode(one) == Order(**order(1))
    assert await reader.deserializer(PlainOrder).decode(one) == PlainOrder(**order(1))
    assert await reader.deserializer(schema=LATER).decode(one) == {**order(1), "cents": 0}
    assert await reader.deserializer(lambda value: value["id"]).decode(one) == 1
    with pytest.raises(SchemaContentError):
        await reader.deserializer(schema=OTHER).decode(one)
    assert "shop.Order" in await registry.subjects()


async def test_json_with_a_model(any_registry: Place, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    serializer = registry.json_serializer(Order, auto_register=True, subject="topic-record")
    written = await serializer.encode(Order(**order(1)), name)
    assert f"{name}-Order" in await registry.subjects()
    reader = SchemaRegistry(any_registry.url)
    assert await reader.deserializer().decode(written) == order(1)
    assert await reader.deserializer(Order).decode(written) == Order(**order(1))
    with pytest.raises(SchemaContentError, match=r"\$\.id"):
        await registry.json_serializer(Order, subject="topic-record").encode({"id": "x", "customer": "c"}, name)  # type: ignore[arg-type]
    wrong = written[:5] + b'{"id": "x", "customer": "c"}'
    with pytest.raises(SchemaContentError, match=r"\$\.id"):
        await reader.deserializer().decode(wrong)
    assert await reader.deserializer(validate=False).decode(wrong) == {"id": "x", "customer": "c"}
    with pytest.raises(SchemaContentError, match="not JSON"):
        await reader.deserializer().decode(written[:5] + b"{")
    with pytest.raises(InvalidSchemaError):
        await reader.deserializer(schema=ORDER).decode(written)


async def test_json_with_references(any_registry: Place, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    line = Schema(json.dumps({"$schema": DRAFT, "type": "object", "required": ["item"], "$id": "line.json"}), "JSON")
    await registry.register(f"{name}-line", line)
    whole = Schema(
        json.dumps({"$schema": DRAFT, "type": "object", "properties": {"line": {"$ref": "line.json"}}}),
        "JSON",
        (SchemaReference("line.json", f"{name}-line", 1),),
    )
    serializer = registry.json_serializer(whole, auto_register=True)
    written = await serializer.encode({"line": {"item": "x"}}, name)
    assert await SchemaRegistry(any_registry.url).deserializer().decode(written) == {"line": {"item": "x"}}
    with pytest.raises(SchemaContentError, match="item"):
        await serializer.encode({"line": {}}, name)


async def test_protobuf(any_registry: Place, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    reader = SchemaRegistry(any_registry.url)
    into: Any
    for kind in (messages.PLAIN, messages.SECOND):
        serializer = registry.protobuf_serializer(kind, auto_register=True)
        written = await serializer.encode(kind(id=7), name)
        for into in (None, kind, [messages.PLAIN, messages.SECOND]):
            found: Any = await reader.deserializer(into).decode(written)
            assert type(found) is kind
            assert found.id == 7
    with pytest.raises(SchemaContentError, match=r"shop\.Second"):
        await reader.deserializer([messages.PLAIN, messages.MONEY]).decode(written)
    with pytest.raises(SchemaContentError):
        await serializer.encode(messages.PLAIN(id=1), name)
    with pytest.raises(SchemaContentError):
        await reader.deserializer().decode(written + b"\x0a\xff")


async def test_protobuf_with_imports(schema_registry: EmbeddedSchemaRegistry, name: str) -> None:
    registry = SchemaRegistry(schema_registry.url)
    order_message = messages.ORDER(id=1, lines=[messages.LINE(item="x")], total=messages.MONEY(cents=3))
    with pytest.raises(SchemaNotFoundError):
        await registry.protobuf_serializer(messages.ORDER).encode(order_message, name)
    written = (
        await SchemaRegistry(schema_registry.url)
        .protobuf_serializer(messages.ORDER, auto_register=True, subject="record")
        .encode(order_message, name)
    )
    line = (
        await SchemaRegistry(schema_registry.url)
        .protobuf_serializer(messages.LINE, auto_register=True)
        .encode(messages.LINE(item="y"), name)
    )
    assert await registry.subjects() == [f"{name}-value", "shop.Order", "shop/money.proto"]
    assert (await registry.latest("shop.Order")).schema.references == (
        SchemaReference("shop/money.proto", "shop/money.proto", 1),
    )
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    assert await deserializer.decode(written) == order_message
    assert await deserializer.decode(line) == messages.LINE(item="y")


@pytest.mark.parametrize(
    "subject", ["topic", "record", "topic-record", lambda topic, is_key, record: f"{topic}+{record}"]
)
async def test_subjects_and_what_must_be_registered(
    schema_registry: EmbeddedSchemaRegistry, name: str, subject: Any
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    expected = {
        "topic": f"{name}-value",
        "record": "shop.Order",
        "topic-record": f"{name}-shop.Order",
    }.get(subject, f"{name}+shop.Order")
    with pytest.raises(SchemaNotFoundError, match="or pass auto_register=True"):
        await SchemaRegistry(schema_registry.url).avro_serializer(ORDER, subject=subject).encode(order(1), name)
    await registry.register(expected, text(ORDER))
    await registry.register(expected, text(LATER))
    plain = await registry.avro_serializer(ORDER, subject=subject).encode(order(1), name)
    assert await registry.deserializer().decode(plain) == order(1)
    latest = registry.avro_serializer(ORDER, subject=subject, use_latest=True)
    assert await registry.deserializer().decode(await latest.encode(order(1), name)) == {**order(1), "cents": 0}


async def test_a_name_that_a_schema_does_not_have(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    with pytest.raises(InvalidSchemaError, match="no name"):
        await registry.avro_serializer("string", subject="record").encode("x", "orders")


# --- beside confluent-kafka ---


@pytest.fixture
def client(any_registry: Place) -> Iterator[Any]:
    """Return confluent-kafka's client."""
    with confluent.client({"url": any_registry.url}) as made:
        yield made


async def test_avro_is_read_and_written_as_by_confluent_kafka(any_registry: Place, client: Any, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    theirs = confluent.avro_serializer(client, json.dumps(ORDER))(order(1), confluent.context(name))
    ours = await registry.avro_serializer(ORDER, auto_register=True).encode(order(1), name)
    assert ours == theirs
    assert await registry.deserializer().decode(theirs) == order(1)
    assert confluent.avro_deserializer(client)(ours, confluent.context(name)) == order(1)


async def test_json_is_read_and_written_as_by_confluent_kafka(any_registry: Place, client: Any, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    schema = json.dumps(Order.model_json_schema())
    theirs = confluent.json_serializer(schema, client)(order(1), confluent.context(name))
    ours = await registry.json_serializer(Order, auto_register=True).encode(Order(**order(1)), name)
    assert ours[:5] == theirs[:5]
    assert await registry.deserializer(Order).decode(theirs) == Order(**order(1))
    assert confluent.json_deserializer(schema)(ours, confluent.context(name)) == order(1)


async def test_protobuf_is_read_and_written_as_by_confluent_kafka(any_registry: Place, client: Any, name: str) -> None:
    registry = SchemaRegistry(any_registry.url)
    for kind in (messages.PLAIN, messages.SECOND):
        theirs = confluent.protobuf_serializer(kind, client)(kind(id=3), confluent.context(name))
        ours = await registry.protobuf_serializer(kind, auto_register=True).encode(kind(id=3), name)
        # Their schema is a descriptor in base64, which only Confluent's registry recognizes as its text.
        assert ours[5:] == theirs[5:]
        assert await registry.deserializer(kind).decode(theirs) == kind(id=3)
        assert confluent.protobuf_deserializer(kind)(ours, confluent.context(name)) == kind(id=3)


async def test_ids_in_headers_are_those_of_confluent_kafka(schema_registry: EmbeddedSchemaRegistry, name: str) -> None:
    with confluent.client({"url": schema_registry.url}) as client:
        await compare_headers(schema_registry, client, name)


async def compare_headers(schema_registry: EmbeddedSchemaRegistry, client: Any, name: str) -> None:
    registry = SchemaRegistry(schema_registry.url)
    headers: list[tuple[str, bytes]] = []
    serializer = confluent.avro_serializer(client, json.dumps(ORDER), conf=HEADER_IDS)
    theirs = serializer(order(1), confluent.context(name, headers))
    ours_serializer = registry.avro_serializer(ORDER, auto_register=True, ids_in="headers")
    ours = await ours_serializer.encode_with_headers(order(1), name)
    assert ours == WithHeaders(theirs, tuple(headers))
    assert await registry.deserializer().decode(theirs, headers=tuple(headers)) == order(1)
    assert confluent.avro_deserializer(client)(ours.content, confluent.context(name, list(ours.headers))) == order(1)


@pytest.mark.parametrize("found", [{"id": -1}, {"id": 2**40}, {"id": None}, {"guid": "x"}])
async def test_a_registry_whose_ids_do_not_fit_into_records(name: str, found: dict[str, Any]) -> None:
    class Odd(EmbeddedSchemaRegistry):
        def answer(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> tuple[int, Any]:
            return 200, {"id": 1, "version": 1, "subject": name, **found}

    with Odd() as server:
        place: Any = "headers" if "guid" in found else "content"
        serializer = SchemaRegistry(server.url).avro_serializer(ORDER, auto_register=True, ids_in=place)
        with pytest.raises(SchemaRegistryError, match="for the schema of"):
            await serializer.ready(name)


async def test_a_registry_without_guids_says_so_where_ids_go_into_headers(name: str) -> None:
    with EmbeddedSchemaRegistry(guids=False) as server:
        registry = SchemaRegistry(server.url)
        serializer = registry.avro_serializer(ORDER, auto_register=True, ids_in="headers")
        with pytest.raises(SchemaRegistryError, match="no GUID"):
            await serializer.encode_with_headers(order(1), name)
        with pytest.raises(ConfigError, match="encode_with_headers"):
            await serializer.encode(order(1), name)


# --- beside Java ---


async def test_avro_is_read_and_written_as_by_java(real_registry: Apicurio, java_serdes: JavaSerdes, name: str) -> None:
    registry = SchemaRegistry(real_registry.url)
    note = {**order(1), "note": {"string": "first"}}
    theirs = java_serdes.write(name, {**ORDER, "doc": name}, note)  # a new one: Java registers a known one once
    assert await registry.deserializer().decode(theirs) == order(1)
    ours = await registry.avro_serializer(ORDER, auto_register=True, subject="record").encode(order(1), name)
    assert ours[5:] == theirs[5:]
    assert java_serdes.read(name, ours) == note
    latest = registry.avro_serializer(use_latest=True)
    assert await latest.encode(order(1), name) == theirs


async def test_json_is_read_and_written_as_by_java(real_registry: Apicurio, java_serdes: JavaSerdes, name: str) -> None:
    registry = SchemaRegistry(real_registry.url)
    ours = await registry.json_serializer(Order, auto_register=True).encode(Order(**order(1)), name)
    assert java_serdes.read_json(name, ours) == order(1)
    theirs = java_serdes.write_json(name, order(1))
    assert theirs[:5] == ours[:5]
    assert await registry.deserializer(Order).decode(theirs) == Order(**order(1))
