"""Producers and consumers that work with a registry: one request for each schema, before a batch is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition
from aiokafka_lead.errors import (
    HandlerError,
    RecordDeserializationError,
    RecordSerializationError,
    SchemaContentError,
    SchemaNotFoundError,
    SchemaNotReadyError,
    SchemaRegistryUnavailableError,
)
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry

from .material import LATER, ORDER, order

pytestmark = pytest.mark.anyio

O0 = TopicPartition("orders", 0)
READERS = ["async for", "getone", "getmany", "batches", "run"]
COUNT = 700


def consumer_of(cluster: EmbeddedCluster, deserializer: Any, **options: Any) -> Consumer[Any, Any]:
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=deserializer,
        retry_backoff_ms=10,
        **options,
    )
    consumer.assign([O0])
    return consumer


async def read(consumer: Consumer[Any, Any], way: str, count: int) -> list[ConsumerRecord[Any, Any]]:
    found: list[ConsumerRecord[Any, Any]] = []

    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        found.append(record)
        if len(found) == count:
            consumer.unsubscribe()

    with anyio.fail_after(20):
        if way == "run":
            await consumer.run(handle, order="partition")
        elif way == "batches":
            async for batch in consumer.batches():
                found.extend(batch)
                if len(found) >= count:
                    break
        elif way == "async for":
            async for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
        else:
            while len(found) < count:
                if way == "getone":
                    found.append(await consumer.getone())
                else:
                    for records in (await consumer.getmany(timeout_ms=1000, max_records=30)).values():
                        assert len(records) <= 30
                        found.extend(records)
    return found


@pytest.mark.parametrize("ids_in", ["content", "headers"])
@pytest.mark.parametrize("way", READERS)
async def test_each_way_to_read_asks_once_for_each_schema(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, way: str, ids_in: Any
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    async with Producer(
        cluster.bootstrap_servers,
        value_serializer=registry.avro_serializer(ORDER, auto_register=True, ids_in=ids_in),
    ) as producer:
        for number in range(COUNT):
            await producer.send("orders", None if number == 7 else order(number), headers=[("n", b"%d" % number)])
    async with Producer(
        cluster.bootstrap_servers,
        value_serializer=registry.avro_serializer(LATER, auto_register=True, ids_in=ids_in),
    ) as producer:
        await (await producer.send_many("orders", [{**order(COUNT), "cents": 3}]))
    schema_registry.requests.clear()
    async with consumer_of(cluster, SchemaRegistry(schema_registry.url).deserializer()) as consumer:
        records = await read(consumer, way, COUNT + 1)
    values = [record.value for record in records]
    assert values[:COUNT] == [None if number == 7 else order(number) for number in range(COUNT)]
    assert values[COUNT] == {**order(COUNT), "cents": 3}
    assert records[3].headers[0] == ("n", b"3")
    assert [name for name, _ in records[3].headers[1:]] == ([] if ids_in == "content" else ["__value_schema_id"])
    asked = [each.path for each in schema_registry.requests]
    assert len(asked) == 2
    assert all(path.startswith("/schemas/ids/" if ids_in == "content" else "/schemas/guids/") for path in asked)


@pytest.mark.parametrize("way", READERS)
async def test_what_cannot_be_read_is_raised_in_its_turn(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, way: str
) -> None:
    """Bytes without an id, an unknown id, bytes of another schema."""
    registry = SchemaRegistry(schema_registry.url)
    good = await registry.avro_serializer(ORDER, auto_register=True).encode(order(1), "orders")
    for bad, cause, named in (
        (b"plain", SchemaContentError, "706c61696e"),
        (b"\x00\x00\x00\x03\xe7" + good[5:], SchemaNotFoundError, "999"),
        (good[:-1], SchemaContentError, f"schema {int.from_bytes(good[1:5], 'big')}: "),
    ):
        topic = f"bad-{cause.__name__}-{bad[:2].hex()}-{len(bad)}"
        cluster.create_topic(topic, partitions=1)
        async with Producer(cluster.bootstrap_servers) as producer:
            await (await producer.send_many(topic, [good, bad, good]))
        async with consumer_of(cluster, SchemaRegistry(schema_registry.url).deserializer()) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            if way == "batches":
                batch = await anext(consumer.batches())
                with pytest.raises(RecordDeserializationError, match=named):
                    await SchemaRegistry(schema_registry.url).columns().to_arrow(batch)
                with pytest.raises(RecordDeserializationError) as raised:
                    _ = batch.values
            elif way == "run":
                with pytest.raises(HandlerError) as handled:
                    await read(consumer, way, 3)
                assert isinstance(handled.value.__cause__, RecordDeserializationError)
                assert isinstance(handled.value.__cause__.__cause__, cause)
                continue
            else:
                assert (await read(consumer, way, 1))[0].value == order(1)
                with pytest.raises(RecordDeserializationError) as raised:
                    await read(consumer, way, 2)
            assert (raised.value.topic, raised.value.partition, raised.value.offset) == (topic, 0, 1)
            assert f"at offset 1 of {topic}-0" in str(raised.value)
            assert named in str(raised.value)
            assert isinstance(raised.value.__cause__, cause)
            if way in ("async for", "getone", "getmany"):
                consumer.seek(TopicPartition(topic, 0), 2)
                assert (await read(consumer, way, 1))[0].value == order(1)


async def test_a_registry_that_is_down_loses_no_record_and_sends_none_to_the_dead_letters(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    async with Producer(
        cluster.bootstrap_servers, value_serializer=registry.avro_serializer(ORDER, auto_register=True)
    ) as producer:
        await producer.send_and_wait("orders", order(1))
    cluster.create_topic("dead", partitions=1)
    schema_registry.stop()
    asked = SchemaRegistry(schema_registry.url, timeout_ms=400, retry_backoff_ms=1)
    async with consumer_of(cluster, asked.deserializer()) as consumer:
        for _ in range(2):
            with pytest.raises(RecordDeserializationError) as raised:
                await consumer.getmany(timeout_ms=5000)
            assert isinstance(raised.value.__cause__, SchemaRegistryUnavailableError)
            assert not raised.value.lasts
        handled: list[Any] = []

        async def handle(record: ConsumerRecord[Any, Any]) -> None:
            handled.append(record.value)
            consumer.unsubscribe()

        schema_registry.start()
        schema_registry.fail(503, count=30)
        with anyio.fail_after(60):
            await consumer.run(handle, dead_letter_topic="dead", retries=1000, retry_backoff_ms=5)
    assert handled == [order(1)]
    assert cluster.end_offset("dead") == 0


async def test_send_nowait_once_the_schema_is_known(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    serializer = SchemaRegistry(schema_registry.url).avro_serializer(ORDER, auto_register=True)
    async with Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
        with pytest.raises(RecordSerializationError) as raised:
            producer.send_nowait("orders", order(1))
        assert isinstance(raised.value.__cause__, SchemaNotReadyError)
        await serializer.ready("orders")
        await producer.send_nowait("orders", order(1))
        with pytest.raises(RecordSerializationError, match="customer") as raised:
            await producer.send("orders", {"id": 1})
        assert isinstance(raised.value.__cause__, SchemaContentError)
        with pytest.raises(RecordSerializationError, match="colour"):
            await producer.send("orders", {**order(1), "colour": "red"})


async def test_keys_have_a_subject_of_their_own(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    to_bytes: Callable[..., Any] = registry.avro_serializer({"type": "string"}, auto_register=True)
    async with Producer(cluster.bootstrap_servers, key_serializer=to_bytes, value_serializer=to_bytes) as producer:
        await producer.send_and_wait("orders", "value", key="key")
        async with producer_of_transaction(cluster, to_bytes) as other, other.transaction() as txn:
            await txn.send("orders", "in a transaction", key="key")
    assert await registry.subjects() == ["orders-key", "orders-value"]
    async with consumer_of(cluster, registry.deserializer(), key_deserializer=registry.deserializer()) as consumer:
        records = await read(consumer, "getmany", 2)
    assert [(record.key, record.value) for record in records] == [("key", "value"), ("key", "in a transaction")]


def producer_of_transaction(cluster: EmbeddedCluster, to_bytes: Callable[..., Any]) -> Producer[Any, Any]:
    return Producer(
        cluster.bootstrap_servers, key_serializer=to_bytes, value_serializer=to_bytes, transactional_id="orders-1"
    )
