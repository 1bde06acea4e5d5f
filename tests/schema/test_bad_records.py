"""Unreadable records: raised, skipped, or dead letters, in each way to read."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import Any, NamedTuple

import anyio
import pytest

from aiokafka_lead import Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import ConfigError, HandlerError, RecordDeserializationError, SchemaContentError
from aiokafka_lead.schema import Schema, SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from tests.group.support import until
from tests.share.support import configure

from .material import ORDER, ORDER_TEXT, order

pytestmark = pytest.mark.anyio

O0 = TopicPartition("orders", 0)
READERS = ["async for", "getone", "getmany", "batches", "rows of batches"]
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


class Valued(NamedTuple):
    value: Any


async def read(consumer: Consumer[Any, Any], way: str, count: int) -> list[int]:
    found: list[Any] = []
    with anyio.fail_after(60):
        if way == "async for":
            async for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
        while len(found) < count:
            if way == "getone":
                found.append(await consumer.getone())
            elif way == "batches":
                found += map(Valued, (await anext(consumer.batches())).values)
            elif way == "rows of batches":
                found += await anext(consumer.batches())
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
        with anyio.fail_after(60):
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
    registry = SchemaRegistry(schema_registry.url, timeout_ms=2_000, request_timeout_ms=2_000, retry_backoff_ms=1)
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
            with anyio.fail_after(60), pytest.raises(HandlerError) as raised:
                await consumer.run(handle, **options)
            assert isinstance(raised.value.__cause__, RecordDeserializationError)
            assert not cluster.records("dead")
            return
        async with anyio.create_task_group() as tasks:

            async def run() -> None:
                await consumer.run(handle, **options)

            tasks.start_soon(run)
            await until(lambda: set(handled) == set(records) and len(letters()) >= least)
            await consumer.stop()
    if kind != "exactly once":
        assert sorted(handled) == records
    assert letters() == (set() if fate == "skip" else {b"0", b"1", b"3", b"6"})


async def test_the_log_has_no_values(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the paths of the fields instead, for values that are read and for values that a handler sends."""
    caplog.set_level(logging.INFO)
    cluster.create_topic("dead", partitions=1)
    registry = SchemaRegistry(schema_registry.url)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}}}
    lax = registry.json_serializer(schema, auto_register=True, validate=False)
    async with Producer(cluster.bootstrap_servers) as producer:
        for value in ({"id": SECRET.decode()}, {"id": 1}):
            await producer.send_and_wait("orders", await lax.encode(value, "orders"))
        await producer.send_and_wait("orders", SECRET)
    async with (
        Producer(cluster.bootstrap_servers, value_serializer=registry.avro_serializer(ORDER)) as results,
        consumer_of(cluster, registry.deserializer(), group_id="workers") as consumer,
        anyio.create_task_group() as tasks,
    ):
        consumer.subscribe(["orders"])
        await registry.register("copies-value", Schema(ORDER_TEXT))

        async def handle(record: Any) -> None:
            await results.send_and_wait("copies", {**order(1), "customer": SECRET})

        async def run() -> None:
            await consumer.run(handle, dead_letter_topic="dead", retries=1, retry_backoff_ms=1)

        tasks.start_soon(run)
        await until(lambda: cluster.end_offset("dead") >= 3)
        await consumer.stop()
    assert SECRET.decode() not in caplog.text
    assert SECRET[:8].hex() not in caplog.text
    for part in ("their JSON Schema at $.id", "Avro schema: customer", "do not begin with a schema's id"):
        assert part in caplog.text


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
        await until(lambda: len(cluster.records("dead")) >= 4)
        await consumer.stop()


def test_dead_letters_need_a_topic() -> None:
    options: Any
    for options, named in (
        ({"on_bad_record": "dead_letter"}, "dead_letter_topic"),
        ({"on_bad_record": "ignore"}, "on_bad_record"),
    ):
        with pytest.raises(ConfigError, match=named):
            Consumer("orders", bootstrap_servers="localhost", **options)


async def test_batches_raise_by_default(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    async with consumer_of(cluster, deserializer) as consumer:
        consumer.assign([O0])
        with anyio.fail_after(60):
            batch = await anext(consumer.batches())
        with pytest.raises(RecordDeserializationError, match="at offset 0 of orders-0"):
            _ = batch.values


@pytest.mark.parametrize("way", ["schema", "function", "coroutine function"])
async def test_batches_keep_the_columns_of_the_readable_records(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, way: str
) -> None:
    """Every column has them, also after a join of batches, and a batch without any is passed over."""
    registry = SchemaRegistry(schema_registry.url)
    serializer = registry.avro_serializer(ORDER, auto_register=True)
    async with Producer(cluster.bootstrap_servers, linger_ms=10_000) as producer:
        for bad in ((), range(10), range(0, 10, 3), range(9, 10)):
            good = [await serializer.encode(order(number), "orders") for number in range(10)]
            await producer.send_many(
                "orders",
                [SECRET if number in bad else good[number] for number in range(10)],
                keys=[b"k%d" % number for number in range(10)],
                headers=[[("n", b"%d" % number)] for number in range(10)],
                timestamps_ms=[1_000 + number for number in range(10)],
            )
            await producer.flush()

    def read(content: bytes) -> Any:
        if content == SECRET:
            raise ValueError("bad")
        return content

    async def waits(content: bytes) -> Any:
        return read(content)

    deserializer = {"schema": registry.deserializer(), "function": read, "coroutine function": waits}[way]
    expected = [*range(10), *(20 + n for n in range(10) if n % 3), *range(30, 39)]
    for most in (1, None):  # as they are in the log, and joined
        async with consumer_of(cluster, deserializer, on_bad_record="skip", max_poll_records=most) as consumer:
            consumer.assign([O0])
            found: list[Any] = []
            with anyio.fail_after(60):
                while len(found) < len(expected):
                    batch = await anext(consumer.batches())
                    assert len(batch) == len(batch.values) == len(list(batch))
                    assert batch.base_offset == batch.offsets[0]
                    arrow = batch.to_arrow()
                    assert arrow.column("offset").to_pylist() == batch.offsets
                    assert arrow.column("key").to_pylist() == batch.keys
                    assert [headers for _, headers in batch.headers[0]] == [batch.keys[0][1:]]
                    found += zip(batch.offsets, batch.keys, batch.timestamps_ms, strict=True)
                assert await consumer.position(O0) == 40
        assert found == [(offset, b"k%d" % (offset % 10), 1_000 + offset % 10) for offset in expected]


async def test_a_batch_that_waits_for_the_registry_is_not_handed_out(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    registry = SchemaRegistry(schema_registry.url, timeout_ms=2_000, request_timeout_ms=2_000, retry_backoff_ms=1)
    async with consumer_of(cluster, registry.deserializer(lambda value: value)) as consumer:
        consumer.assign([O0])
        consumer.seek(O0, 2)
        schema_registry.stop()
        for _ in range(2):
            with anyio.fail_after(60), pytest.raises(RecordDeserializationError, match="offset 2 of orders-0"):
                await anext(consumer.batches())
        assert await consumer.position(O0) == 2
        schema_registry.start()
        with anyio.fail_after(60):
            batch = await anext(consumer.batches())
        assert batch.base_offset == 2


async def test_a_group_is_done_with_what_its_batches_leave_out(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    deserializer = SchemaRegistry(schema_registry.url).deserializer()
    options: dict[str, Any] = {"group_id": "workers", "on_bad_record": "dead_letter", "dead_letter_topic": "dead"}
    seen: list[int] = []
    async with consumer_of(cluster, deserializer, enable_auto_commit=False, **options) as consumer:
        consumer.subscribe(["orders"])
        with anyio.fail_after(60):
            while len(seen) < len(records):
                batch = await anext(consumer.batches())
                seen += [value["id"] for value in batch.values]
                assert await batch.commit()
        stored = await consumer.committed(O0)
    assert seen == records
    assert stored is not None
    committed = stored.offset
    assert committed in (6, 7)  # the last record may have come after the others
    assert len(cluster.records("dead")) == committed - len(records)


@pytest.mark.parametrize("fate", ["raise", "skip", "dead_letter"])
async def test_columns_of_arrow_follow_the_consumer(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int], fate: str
) -> None:
    columns = SchemaRegistry(schema_registry.url).columns()
    options: dict[str, Any] = {"on_bad_record": fate, "dead_letter_topic": "dead" if fate == "dead_letter" else None}
    found: list[Any] = []
    async with consumer_of(cluster, None, **options) as consumer:
        consumer.assign([O0])
        with anyio.fail_after(60):
            while await consumer.position(O0) < 2:
                await consumer.getone()
            while await consumer.position(O0) < 7:
                batch = await anext(consumer.batches())
                if fate == "raise" and batch.next_offset > 3:
                    with pytest.raises(RecordDeserializationError, match="offset 3 of orders-0") as raised:
                        await columns.to_arrow(batch)
                    assert raised.value.record.value == SECRET
                    return
                arrow = await columns.to_arrow(batch)
                arrow.validate(full=True)
                assert arrow.num_rows == len(arrow.column("offset")) <= len(batch)
                found += arrow.column("value").to_pylist()
    assert [value["id"] for value in found] == records
    letters = [dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("dead")]
    assert letters == ([] if fate == "skip" else [b"3", b"6"])


async def test_a_value_without_a_place_in_its_column_is_a_bad_record(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    serializer = SchemaRegistry(schema_registry.url).avro_serializer(wide, auto_register=True)
    amounts = [Decimal(n if n % 5 else 10**15) for n in range(1, 20)]
    async with Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
        await (await producer.send_many("orders", amounts))
    columns = SchemaRegistry(schema_registry.url).columns({**wide, "precision": 9})
    async with consumer_of(cluster, None) as consumer, consumer_of(cluster, None, on_bad_record="skip") as skipping:
        consumer.assign([O0])
        skipping.assign([O0])
        with anyio.fail_after(60):
            with pytest.raises(RecordDeserializationError, match="offset 4 of orders-0"):
                await columns.to_arrow(await anext(consumer.batches()))
            arrow = await columns.to_arrow(await anext(skipping.batches()))
    assert arrow.column("value").to_pylist() == [amount for amount in amounts if amount < 10**9]


@pytest.mark.parametrize("fate", ["raise", "skip", "dead_letter"])
async def test_records_of_the_newest_schema_are_bad_if_it_has_no_column(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, fate: str
) -> None:
    cluster.create_topic("dead", partitions=1)
    registry = SchemaRegistry(schema_registry.url)
    encoded = [await registry.avro_serializer(ORDER, auto_register=True).encode(order(n), "orders") for n in (1, 2)]
    union = registry.avro_serializer(["int", "string"], auto_register=True, subject=lambda *_: "another")
    async with Producer(cluster.bootstrap_servers) as producer:
        await (await producer.send_many("orders", [encoded[0], await union.encode(1, "orders"), encoded[1]]))
    options: dict[str, Any] = {"on_bad_record": fate, "dead_letter_topic": "dead" if fate == "dead_letter" else None}
    async with consumer_of(cluster, None, **options) as consumer:
        consumer.assign([O0])
        with anyio.fail_after(60):
            batch = await anext(consumer.batches())
            if fate == "raise":
                with pytest.raises(RecordDeserializationError, match=r"at offset 1 of orders-0.*union"):
                    await registry.columns().to_arrow(batch)
                return
            arrow = await registry.columns().to_arrow(batch)
    assert [value["id"] for value in arrow.column("value").to_pylist()] == [1, 2]
    letters = [dict(letter.headers)["dead_letter.offset"] for letter in cluster.records("dead")]
    assert letters == ([] if fate == "skip" else [b"1"])


async def test_columns_without_a_type_yet_say_what_to_do(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, records: list[int]
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    async with consumer_of(cluster, None, on_bad_record="skip", max_poll_records=1) as consumer:
        consumer.assign([O0])
        with anyio.fail_after(60):
            batch = await anext(consumer.batches())
            with pytest.raises(SchemaContentError, match="schema="):
                await registry.columns().to_arrow(batch)
            assert (await registry.columns(ORDER).to_arrow(batch)).num_rows == 0


@pytest.mark.parametrize("way", READERS)
async def test_a_bad_record_in_the_dead_letter_topic_is_raised(cluster: EmbeddedCluster, way: str) -> None:
    cluster.create_topic("dead", partitions=1)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("dead", b"x")
    async with consumer_of(cluster, int, on_bad_record="dead_letter", dead_letter_topic="dead") as consumer:
        consumer.assign([TopicPartition("dead", 0)])
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match="dead-0"):
                await read(consumer, way, 1)
    assert len(cluster.records("dead")) == 1
