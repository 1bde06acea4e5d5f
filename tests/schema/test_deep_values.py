"""Values nested deeper than Python or a library can follow: a typed error in reading and writing, and no crash."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from google.protobuf import struct_pb2, timestamp_pb2

from aiokafka_lead import Consumer, Producer
from aiokafka_lead.errors import (
    InvalidSchemaError,
    RecordDeserializationError,
    RecordSerializationError,
    SchemaContentError,
)
from aiokafka_lead.schema import Schema
from aiokafka_lead.schema.avro import AvroFormat
from aiokafka_lead.schema.json_schema import JsonFormat, JsonReader, JsonWriter
from aiokafka_lead.schema.protobuf import DEPTH_MAX, ProtobufFormat, ProtobufReader, ProtobufWriter
from aiokafka_lead.schema.types import ResolvedSchema
from aiokafka_lead.testing import EmbeddedCluster

LISTS = {"type": "array", "items": {"$ref": "#"}}
FAR = 100_000


def resolved(schema: Any) -> ResolvedSchema:
    return ResolvedSchema(Schema(json.dumps(schema), "JSON"))


def lists(levels: int) -> Any:
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@dataclasses.dataclass
class Link:
    next: Link | None


def links(levels: int) -> Link | None:
    value: Link | None = None
    for _ in range(levels):
        value = Link(value)
    return value


@pytest.mark.parametrize("levels", [700, FAR])
@pytest.mark.parametrize("validate", [True, False])
def test_json_that_is_too_deep(levels: int, validate: bool) -> None:
    reader, writer = JsonReader(resolved(LISTS), validate=validate), JsonWriter(resolved(LISTS), validate=validate)
    if not validate and levels < FAR:
        return assert_the_same(writer, reader, lists(levels))
    with pytest.raises(SchemaContentError):
        reader.read(b"[" * levels + b"]" * levels, 0, None)
    with pytest.raises(SchemaContentError):
        writer.write(lists(levels), b"")
    assert_the_same(writer, reader, lists(50))


def assert_the_same(writer: JsonWriter, reader: JsonReader, value: Any) -> None:
    assert reader.read(writer.write(value, b""), 0, None) == value


def test_a_schema_that_leads_to_itself_is_to_blame_and_no_value() -> None:
    with pytest.raises(InvalidSchemaError, match="refers to itself"):
        JsonReader(resolved({"$ref": "#"}), validate=True).read(b"1", 0, None)


def test_dataclasses_that_are_too_deep() -> None:
    with pytest.raises(SchemaContentError, match="too deep"):
        JsonWriter(resolved({}), validate=False).write(links(5_000), b"")


@pytest.mark.parametrize("schema", ["[" * FAR, lists(5_000)], ids=["text", "lists"])
def test_schemas_that_are_too_deep(schema: Any) -> None:
    with pytest.raises(InvalidSchemaError):
        JsonFormat(schema, validate=True)
    with pytest.raises(InvalidSchemaError):
        AvroFormat(schema)


def message(levels: int, *, maps: bool) -> Any:
    """Return values in lists or in maps, which take three messages for each level."""
    value = inner = struct_pb2.Value()
    for _ in range(levels):
        inner = inner.struct_value.fields["k"] if maps else inner.list_value.values.add()
    return value


def writer_of(kind: Any) -> ProtobufWriter:
    form = ProtobufFormat(kind)
    return form.writer(ResolvedSchema(form.schema))


@pytest.mark.parametrize(("maps", "deepest"), [(False, (DEPTH_MAX - 1) // 2), (True, (DEPTH_MAX - 1) // 3)])
def test_messages_that_nobody_could_read_are_not_written(maps: bool, deepest: int) -> None:
    schema = ResolvedSchema(ProtobufFormat(struct_pb2.Value).schema)
    writer, reader = writer_of(struct_pb2.Value), ProtobufReader(schema, (struct_pb2.Value,))
    index = writer.indexes
    content = writer.write(message(deepest, maps=maps), b"")
    assert reader.read(content, 0, index) == message(deepest, maps=maps)
    with pytest.raises(SchemaContentError, match="not a message"):
        reader.read(message(deepest + 1, maps=maps).SerializeToString(), 0, index)
    for levels in (deepest + 1, 20_000):
        with pytest.raises(SchemaContentError, match=f"more than {DEPTH_MAX} levels deep"):
            writer.write(message(levels, maps=maps), b"")


def test_messages_of_bounded_types_are_not_looked_at() -> None:
    when = timestamp_pb2.Timestamp(seconds=5)
    assert writer_of(timestamp_pb2.Timestamp).write(when, b"") == when.SerializeToString()


class Deep(ValueError):
    """An object whose ``repr`` is too deep."""


@pytest.mark.anyio
async def test_functions_of_the_application_whose_errors_are_too_deep() -> None:
    """The error of a record names the function's error as far as possible."""

    def refuse(content: Any) -> Any:
        raise Deep(lists(5_000))

    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        async with (
            Producer(cluster.bootstrap_servers) as producer,
            Producer(cluster.bootstrap_servers, value_serializer=refuse) as refusing,
            Consumer(
                "events",
                bootstrap_servers=cluster.bootstrap_servers,
                auto_offset_reset="earliest",
                value_deserializer=refuse,
            ) as consumer,
        ):
            with pytest.raises(RecordSerializationError, match="cannot be serialized: Deep"):
                await refusing.send("events", [])
            await producer.send_and_wait("events", b"v")
            with pytest.raises(RecordDeserializationError, match="cannot be deserialized: Deep"):
                await consumer.getone()
