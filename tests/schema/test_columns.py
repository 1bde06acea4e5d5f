"""Batches of Avro as typed columns."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any

import anyio
import pyarrow as pa
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.consumer import RecordBatch
from aiokafka_lead.errors import InvalidSchemaError, RecordDeserializationError, SchemaContentError
from aiokafka_lead.schema import Schema, SchemaReference, SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry

from .material import LATER, ORDER, order

pytestmark = pytest.mark.anyio

NOW = datetime.datetime(2026, 11, 23, 4, 5, 6, 789_000, tzinfo=datetime.UTC)


def logical(kind: str, of: str) -> dict[str, str]:
    return {"type": of, "logicalType": kind}


INNER: dict[str, Any] = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "long"}]}
EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "fields": [
        {"name": "flag", "type": "boolean"},
        {"name": "whole", "type": "int"},
        {"name": "single", "type": ["null", "float"]},
        {"name": "blob", "type": "bytes"},
        {"name": "color", "type": {"type": "enum", "name": "Color", "symbols": ["RED", "BLUE"]}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 2}},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {
            "name": "inner",
            "type": ["null", INNER],
        },
        {"name": "again", "type": {"type": "array", "items": "In"}},
        {"name": "day", "type": logical("date", "int")},
        {"name": "at", "type": logical("timestamp-millis", "long")},
        {"name": "exact", "type": ["null", logical("timestamp-micros", "long")]},
        {"name": "clock", "type": logical("time-micros", "long")},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "name", "type": logical("uuid", "string")},
        {"name": "nothing", "type": "null"},
    ],
}
VALUE: dict[str, Any] = {
    "flag": True,
    "whole": 3,
    "single": 0.5,
    "blob": b"\x00",
    "color": "BLUE",
    "hash": b"ab",
    "tags": ["a", None],
    "counts": {"k": 1},
    "inner": {"x": 4},
    "again": [{"x": 5}, {"x": 6}],
    "day": NOW.date(),
    "at": NOW,
    "exact": NOW,
    "clock": NOW.time(),
    "price": decimal.Decimal("12.34"),
    "name": uuid.UUID(int=7),
    "nothing": None,
}
EMPTY: dict[str, Any] = {**VALUE, "single": None, "inner": None, "exact": None, "tags": [], "counts": {}, "again": []}


async def batch_of(
    cluster: EmbeddedCluster, topic: str, serializer: Any, values: list[Any], **options: Any
) -> RecordBatch[Any, Any]:
    if topic not in cluster.topic_names():
        cluster.create_topic(topic, partitions=1)
    tp = TopicPartition(topic, 0)
    offset = cluster.end_offset(topic)
    async with Producer(cluster.bootstrap_servers, value_serializer=serializer, **options) as producer:
        await (await producer.send_many(topic, values, keys=[b"k"] * len(values)))
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign([tp])
        consumer.seek(tp, offset)
        with anyio.fail_after(20):
            return await anext(consumer.batches())


async def test_every_type_is_a_column(cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    serializer = registry.avro_serializer(EVERYTHING, auto_register=True)
    batch = await batch_of(cluster, "orders", serializer, [VALUE, None, EMPTY])
    made = await registry.columns().to_arrow(batch)
    made.validate(full=True)
    assert made.schema.names == ["offset", "timestamp", "key", "value", "headers"]
    assert made.column("key").to_pylist() == [b"k"] * 3
    types = {field.name: str(field.type) for field in made.schema.field("value").type}
    assert types == {
        "flag": "bool",
        "whole": "int32",
        "single": "float",
        "blob": "binary",
        "color": "string",
        "hash": "fixed_size_binary[2]",
        "tags": "list<item: string>",
        "counts": "map<string, int64>",
        "inner": "struct<x: int64>",
        "again": "list<item: struct<x: int64>>",
        "day": "date32[day]",
        "at": "timestamp[ms, tz=UTC]",
        "exact": "timestamp[us, tz=UTC]",
        "clock": "time64[us]",
        "price": "decimal128(9, 2)",
        "name": "string",
        "nothing": "null",
    }
    first, none, third = made.column("value").to_pylist()
    assert none is None
    assert first == {**VALUE, "counts": [("k", 1)], "name": str(VALUE["name"])}
    assert third == {**EMPTY, "counts": [], "name": str(VALUE["name"])}


async def test_a_logical_type_counts_on_its_own_type_alone(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    types: dict[str, tuple[dict[str, Any], Any, str]] = {
        "date": (logical("date", "string"), "soon", "string"),
        "time": (logical("timestamp-millis", "int"), 5, "int32"),
        "name": ({**logical("uuid", "fixed"), "name": "U", "size": 16}, bytes(16), "fixed_size_binary[16]"),
        "price": ({**logical("decimal", "bytes"), "precision": 40}, decimal.Decimal(10**39), "decimal256(40, 0)"),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _, _) in types.items()]
    schema = {"type": "record", "name": "R", "fields": fields}
    registry = SchemaRegistry(schema_registry.url)
    value = {name: each for name, (_, each, _) in types.items()}
    batch = await batch_of(cluster, "orders", registry.avro_serializer(schema, auto_register=True), [value])
    column = (await registry.columns().to_arrow(batch)).column("value")
    assert {field.name: str(field.type) for field in column.type} == {
        name: kind for name, (_, _, kind) in types.items()
    }
    assert column.to_pylist() == [value]


async def test_batches_of_two_schemas_have_one_type(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    old = await batch_of(cluster, "orders", registry.avro_serializer(ORDER, auto_register=True), [order(1)])
    new = await batch_of(
        cluster, "orders", registry.avro_serializer(LATER, auto_register=True), [{**order(2), "cents": 3}]
    )
    columns = registry.columns(LATER)
    table = pa.Table.from_batches([await columns.to_arrow(old), await columns.to_arrow(new)]).flatten()
    assert table.column("value.cents").to_pylist() == [0, 3]
    assert table.column("value.id").to_pylist() == [1, 2]
    asked = len(schema_registry.requests)
    await columns.to_arrow(old)
    assert len(schema_registry.requests) == asked
    narrow = registry.columns()
    assert (await narrow.to_arrow(old)).schema == (await narrow.to_arrow(new)).schema


@pytest.mark.parametrize("given", [True, False])
async def test_times_of_an_older_schema_are_converted_to_the_columns_unit(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, given: bool
) -> None:
    """Avro's resolution copies the numbers. A time beyond the range of the new unit has no place."""
    registry = SchemaRegistry(schema_registry.url)

    def schema(at: str, clock: dict[str, str]) -> dict[str, Any]:
        fields = {"at": logical(at, "long"), "local": ["null", logical(f"local-{at}", "long")], "clock": clock}
        described = [{"name": name, "type": kind} for name, kind in fields.items()]
        return {"type": "record", "name": "Timed", "fields": described}

    millis = schema("timestamp-millis", logical("time-millis", "int"))
    micros = schema("timestamp-micros", logical("time-micros", "long"))
    row = {"at": NOW, "local": NOW.replace(tzinfo=None), "clock": NOW.time()}
    old, new = (registry.avro_serializer(each, auto_register=True) for each in (millis, micros))
    contents = [await old.encode(row, "orders"), await new.encode(row, "orders")]

    async def column(schema: Any, contents: list[bytes]) -> pa.Array:
        batch = await batch_of(cluster, "orders", lambda content: content, contents)
        return (await registry.columns(schema).to_arrow(batch)).column("value")

    made = await column(micros if given else None, contents)
    assert made.type.field("clock").type == pa.time64("us")
    assert made.to_pylist() == [row, row]
    coarse = schema("timestamp-millis", logical("time-micros", "long"))
    assert (await column(coarse, contents)).to_pylist() == [row, row]
    fine = schema("timestamp-nanos", logical("time-micros", "long"))
    assert (await column(fine, contents)).field("at").to_pylist() == [NOW, NOW]
    late = await old.encode({**row, "at": NOW.replace(year=9000)}, "orders")
    with pytest.raises(RecordDeserializationError, match="cannot represent the value"):
        await column(fine, [*contents, late])


async def test_keys_and_references(cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("order", Schema(json.dumps(ORDER)))
    schema = Schema(
        json.dumps({"type": "array", "items": "shop.Order"}), references=(SchemaReference("shop.Order", "order", 1),)
    )
    batch = await batch_of(
        cluster,
        "orders",
        registry.avro_serializer(schema, auto_register=True),
        [[order(1), order(2)]],
        key_serializer=lambda key: b"\x00\x00\x00\x00\x01" + b"\x02\x02k\x00",
    )
    made = await registry.columns(keys=True).to_arrow(batch)
    assert made.column("value").to_pylist() == [[order(1), order(2)]]
    assert made.column("key").to_pylist() == [{"id": 1, "customer": "k", "note": None}]


async def test_what_has_no_column_says_so(cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    union = await batch_of(cluster, "orders", registry.avro_serializer(["int", "string"], auto_register=True), [1])
    with pytest.raises(RecordDeserializationError, match="union"):
        await registry.columns().to_arrow(union)
    with pytest.raises(InvalidSchemaError, match="union"):
        await registry.columns(["int", "string"]).to_arrow(union)
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
    deep = await batch_of(cluster, "trees", registry.avro_serializer(tree, auto_register=True), [{"next": None}])
    with pytest.raises(RecordDeserializationError, match="contains itself"):
        await registry.columns().to_arrow(deep)
    bad = await batch_of(cluster, "bad", None, [b"plain"])
    with pytest.raises(RecordDeserializationError, match="at offset 0 of bad-0") as raised:
        await registry.columns().to_arrow(bad)
    assert isinstance(raised.value.__cause__, SchemaContentError)
