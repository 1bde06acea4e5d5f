"""Bytes that represent more than fits in memory: deep values, and arrays of zero-byte elements."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokafka_lead import Consumer, Producer, TopicPartition
from aiokafka_lead.errors import RecordDeserializationError, SchemaContentError
from aiokafka_lead.schema import Schema, SchemaRegistry
from aiokafka_lead.schema.avro import AvroReader, AvroWriter
from aiokafka_lead.schema.avro_bounds import DEPTH_MAX, EMPTY_ITEMS_MAX
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": kind} for key, kind in fields.items()]}


LIST = record("Link", next=["null", "Link"])
TREE = record("Tree", children={"type": "array", "items": "Tree"})
MAP = record("Node", inner={"type": "map", "values": "Node"})
ENDLESS = record("Endless", again="Endless")
NULLS: dict[str, Any] = {"type": "array", "items": "null"}
HOLLOW: dict[str, Any] = {"type": "array", "items": record("Hollow", nothing="null")}
EVERYTHING = record(
    "All",
    flag="boolean",
    number="long",
    half="float",
    whole="double",
    text="string",
    raw="bytes",
    kind={"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    four={"type": "fixed", "name": "Four", "size": 4},
    day={"type": "int", "logicalType": "date"},
    again=["null", "Kind", "Four"],
    nulls=NULLS,
    parts={"type": "array", "items": "All"},
    named={"type": "map", "values": ["null", "All"]},
)
"""``nulls`` has every value checked, however short."""


def reader(schema: Any, *references: tuple[str, Schema]) -> AvroReader:
    return AvroReader(ResolvedSchema(Schema(json.dumps(schema)), references))


def number(value: int) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, "long", value)
    return target.getvalue()


def deep(schema: Any, levels: int) -> bytes:
    """Return the value of this many nested records."""
    if schema is LIST:
        return number(1) * levels + number(0)
    if schema is TREE:
        return number(1) * levels + number(0) * (levels + 1)
    return (number(1) + b"\x02k") * levels + number(0) * (levels + 1)


@pytest.mark.parametrize("schema", [LIST, TREE, MAP], ids=["list", "tree", "map"])
def test_values_that_are_too_deep_are_refused(schema: Any) -> None:
    assert isinstance(reader(schema).read(deep(schema, 200), 0, None), dict)
    for levels in (DEPTH_MAX + 1, 100_000):
        with pytest.raises(SchemaContentError, match=f"more than {DEPTH_MAX} levels deep"):
            reader(schema).read(deep(schema, levels), 0, None)


def nested(schema: Any, levels: int) -> Any:
    """Return the value of `deep`."""
    value: Any = None if schema is LIST else {"children": []} if schema is TREE else {"inner": {}}
    for _ in range(levels):
        value = (
            {"next": value} if schema is LIST else {"children": [value]} if schema is TREE else {"inner": {"k": value}}
        )
    return value


def let_go(value: Any) -> None:
    """Take a deep value apart: Python would free it by recursion."""
    while value:
        (value,) = value.values() if isinstance(value, dict) else value


@pytest.mark.parametrize("schema", [LIST, TREE, MAP], ids=["list", "tree", "map"])
def test_what_is_too_deep_to_be_read_is_not_written(schema: Any) -> None:
    writer = AvroWriter(ResolvedSchema(Schema(json.dumps(schema))))
    deepest = DEPTH_MAX - 1 if schema is LIST else DEPTH_MAX // 2 - 2
    content = writer.write(nested(schema, deepest), b"")
    assert reader(schema).read(content, 0, None) == nested(schema, deepest)
    for levels in (deepest + 1, 100_000):
        value = nested(schema, levels)
        with pytest.raises(SchemaContentError, match=f"more than {DEPTH_MAX - 1} levels deep"):
            writer.write(value, b"")
        let_go(value)


def test_a_value_that_holds_itself_is_not_written() -> None:
    value: dict[str, Any] = {}
    value["next"] = value
    named: dict[str, Any] = {}
    named["next"] = ("Link", named)
    for each in (value, named):
        with pytest.raises(SchemaContentError, match="levels deep"):
            AvroWriter(ResolvedSchema(Schema(json.dumps(LIST)))).write(each, b"")


def test_a_record_that_always_has_itself_has_no_values() -> None:
    with pytest.raises(SchemaContentError, match="levels deep"):
        reader(ENDLESS).read(b"", 0, None)


@pytest.mark.parametrize("schema", [NULLS, HOLLOW], ids=["null", "record"])
def test_arrays_of_nothing_have_an_end(schema: Any) -> None:
    assert len(reader(schema).read(number(1000) + number(0), 0, None)) == 1000
    for count in (EMPTY_ITEMS_MAX + 1, 2**62, -(2**62)):
        with pytest.raises(SchemaContentError, match="items without bytes"):
            reader(schema).read(number(count) + number(1) * (count < 0) + number(0), 0, None)


def test_types_that_another_schema_defines() -> None:
    box = record("Box", first="Link", more={"type": "array", "items": "Link"})
    referred = "Link", Schema(json.dumps(LIST))
    content = deep(LIST, 3) + number(1) + deep(LIST, 100_000) + number(0)
    with pytest.raises(SchemaContentError, match="levels deep"):
        reader(box, referred).read(content, 0, None)
    fine = deep(LIST, 3) + number(300) + deep(LIST, 2) * 300 + number(0)
    assert len(reader(box, referred).read(fine, 0, None)["more"]) == 300


def values(inner: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {
            "flag": st.booleans(),
            "number": st.integers(-(2**63), 2**63 - 1),
            "half": st.just(0.5),
            "whole": st.floats(allow_nan=False),
            "text": st.text(max_size=5),
            "raw": st.binary(max_size=200),
            "kind": st.sampled_from(["A", "B"]),
            "four": st.binary(min_size=4, max_size=4),
            "day": st.dates(),
            "again": st.sampled_from([None, "A", b"four"]),
            "nulls": st.lists(st.none(), max_size=3),
            "parts": st.just([]) if inner is None else st.lists(inner, max_size=2),
            "named": st.dictionaries(
                st.text(max_size=3), st.none() if inner is None else st.none() | inner, max_size=2
            ),
        }
    )


@settings(max_examples=25, deadline=None)
@given(values(values() | values(values())), st.data())
def test_all_that_can_be_written_is_read(value: Any, data: st.DataObject) -> None:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(EVERYTHING), value)
    content = target.getvalue()
    both = reader(EVERYTHING)
    assert both.read(b"id" + content, 2, None) == value
    with pytest.raises(SchemaContentError, match="end before"):
        both.read(content[: data.draw(st.integers(0, len(content) - 1))], 0, None)


@pytest.mark.anyio
async def test_a_consumer_lives_through_a_record_that_is_too_deep() -> None:
    with EmbeddedSchemaRegistry() as embedded:
        registry = SchemaRegistry(embedded.url)
        fine = await registry.avro_serializer(LIST, auto_register=True).encode({"next": None}, "events")
        async with EmbeddedCluster(1) as cluster:
            cluster.create_topic("events")
            async with Producer(cluster.bootstrap_servers) as producer:
                await (await producer.send_many("events", [fine[:5] + deep(LIST, 100_000), fine]))
            async with Consumer(
                "events",
                bootstrap_servers=cluster.bootstrap_servers,
                auto_offset_reset="earliest",
                value_deserializer=registry.deserializer(),
            ) as consumer:
                with pytest.raises(RecordDeserializationError):
                    await consumer.getone()
                consumer.seek(TopicPartition("events", 0), 1)
                assert (await consumer.getone()).value == {"next": None}
