"""Unreadable records: raised, skipped, or dead letters, in each way to read."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import ConfigError, HandlerError, RecordDeserializationError
from aiokafka_lead.schema import SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from tests.share.support import configure

from .material import ORDER, order

pytestmark = pytest.mark.anyio

O0 = TopicPartition("orders", 0)
READERS = ["async for", "getone", "getmany"]
SECRET = b"PRIVATE"


@pytest.fixture
async def records(cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry) -> list[int]:
    """Return the readable records of the topic, which begins and ends with unreadable ones."""
    cluster.create_topic("dead", partitions=1)
    serializer = SchemaRegistry(schema_registry.url).avro_serializer(ORDER, auto_register=True)
    numbers = [None, None, 0, None, 1, 2, None]
    async with Producer(cluster.bootstrap_servers) as producer:
        for number in numbers:
            content = SECRET if number is None else await serializer.encode(order(number), "orders")
            await producer.send_and_wait("orders", content)
    return [number for number in numbers if number is not None]


def consumer_of(cluster: EmbeddedCluster, deserializer: Any, **options: Any) -> Consumer[Any, Any]:
    consumer: Consumer[Any, Any] = Consumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        value_deserializer=deserializer,
        **options,
    )
    return consumer


async def read(consumer: Consumer[Any, Any], way: str, count: int) -> list[int]:
    found: list[Any] = []
    with anyio.fail_after(20):
        if way == "async for":
            async for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
        while len(found) < count:
            if way == "getone":
                found.append(await consumer.getone())
            else:
                found += (await consumer.getmany(timeout_ms=1000)).get(O0, [])
    return [record.value["id"] for record in found]


@pytest.mark.parametrize("fate", ["skip", "dead_letter"])
@pytest.mark.parametrize("way", READERS)
async def test_reading_goes_on_behind_them(
    cluster: EmbeddedCluster,
    schema_registry: EmbeddedSchemaRegistry,
    records: list[int],
    way: str,
    fate: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    options: dict[str, Any] = {"on_bad_record": fate, "dead_letter_topic": "dead" if fate == "dead_letter" else None}
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    async with consumer_of(cluster, deserializer, **options) as consumer:
        consumer.assign([O0])
        assert await read(consumer, way, len(records)) == records
        with anyio.fail_after(20):
            while await consumer.position(O0) < 7:
                await consumer.getmany(timeout_ms=50)
    letters = cluster.records("dead")
    if fate == "skip":
        assert not letters
    else:
        headers = [dict(letter.headers) for letter in letters]
        assert [header["dead_letter.offset"] for header in headers] == [b"0", b"1", b"3", b"6"]
        assert [letter.value for letter in letters] == [SECRET] * 4
    lines = [line for line in caplog.messages if "cannot be deserialized" in line]
    assert [f"offset {offset} of orders-0" in line for offset, line in zip((0, 1, 3, 6), lines, strict=True)] == [
        True
    ] * 4
    assert SECRET.decode() not in caplog.text


@pytest.mark.parametrize("waits", [False, True])
async def test_of_any_deserializer(cluster: EmbeddedCluster, records: list[int], waits: bool) -> None:
    def number(content: bytes) -> Any:
        if content == SECRET:
            raise ValueError(content)
        return {"id": len(content)}

    async def waiting(content: bytes) -> Any:
        await anyio.lowlevel.checkpoint()
        return number(content)

    async with consumer_of(cluster, waiting if waits else number, on_bad_record="skip") as consumer:
        consumer.assign([O0])
        assert len(await read(consumer, "getmany", len(records))) == len(records)


async def test_a_registry_that_is_away_leaves_nothing_out(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    registry = SchemaRegistry(schema_registry.url, timeout_ms=50, request_timeout_ms=50, retry_backoff_ms=1)
    async with consumer_of(cluster, registry.deserializer(), on_bad_record="skip") as consumer:
        consumer.assign([O0])
        schema_registry.stop()
        for _ in range(2):
            with pytest.raises(RecordDeserializationError):
                await consumer.getone()
        schema_registry.start()
        assert await read(consumer, "getone", len(records)) == records


@pytest.mark.parametrize("fate", ["raise", "skip", "dead_letter", None])
@pytest.mark.parametrize("kind", ["run", "exactly once", "share"])
async def test_in_a_run(
    cluster: EmbeddedCluster,
    schema_registry: EmbeddedSchemaRegistry,
    records: list[int],
    kind: str,
    fate: Any,
) -> None:
    await configure(cluster.bootstrap_servers, "workers")
    common: Any = {
        "bootstrap_servers": cluster.bootstrap_servers,
        "group_id": "workers",
        "value_deserializer": SchemaRegistry(schema_registry.url).deserializer(),
    }
    consumer: Any = (
        ShareConsumer("orders", **common)
        if kind == "share"
        else Consumer("orders", **common, auto_offset_reset="earliest")
    )
    handled: list[int] = []
    least = 0 if fate == "skip" else 4
    options: dict[str, Any] = {"dead_letter_topic": "dead", "on_bad_record": fate, "retry_backoff_ms": 1}

    async def handle(record: Any, _txn: Any = None) -> None:
        handled.append(record.value["id"])

    def letters() -> set[bytes | None]:
        """Return the offsets of records that have a dead letter; aborted transactions have some, too."""
        return {dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("dead")}

    async with consumer, Producer(cluster.bootstrap_servers, transactional_id="t") as producer:
        if kind == "exactly once":
            options["exactly_once"] = producer
        if fate == "raise":
            with anyio.fail_after(20), pytest.raises(HandlerError) as raised:
                await consumer.run(handle, **options)
            assert isinstance(raised.value.__cause__, RecordDeserializationError)
            assert not cluster.records("dead")
            return
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await consumer.run(handle, **options)

            tasks.start_soon(run)
            with anyio.fail_after(20):
                while set(handled) != set(records) or len(letters()) < least:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            await consumer.stop()
    if kind != "exactly once":
        assert sorted(handled) == records
    assert letters() == (set() if fate == "skip" else {b"0", b"1", b"3", b"6"})


async def test_the_consumers_choice_is_that_of_its_runs(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    async with (
        consumer_of(cluster, deserializer, on_bad_record="dead_letter", dead_letter_topic="dead") as consumer,
        anyio.create_task_group() as tasks,
    ):
        consumer.assign([O0])

        async def handle(record: Any) -> None:
            pass

        tasks.start_soon(consumer.run, handle)
        with anyio.fail_after(20):
            while len(cluster.records("dead")) < 4:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        await consumer.stop()


def test_dead_letters_need_a_topic() -> None:
    options: Any
    for options, named in (
        ({"on_bad_record": "dead_letter"}, "dead_letter_topic"),
        ({"on_bad_record": "ignore"}, "on_bad_record"),
    ):
        with pytest.raises(ConfigError, match=named):
            Consumer("orders", bootstrap_servers="localhost", **options)


async def test_batches_raise_in_any_case(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    async with consumer_of(cluster, deserializer, on_bad_record="skip") as consumer:
        consumer.assign([O0])
        with anyio.fail_after(20):
            batch = await anext(consumer.batches())
        with pytest.raises(RecordDeserializationError, match="at offset 0 of orders-0"):
            _ = batch.values
