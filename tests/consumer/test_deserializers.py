"""Deserializers with more arguments, and awaitable deserializers: called before delivery of a record, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Consumer, ConsumerRecord, Producer, SerializationContext, TopicPartition
from aiokafka_lead.errors import ClientClosedError, HandlerError, RecordDeserializationError
from aiokafka_lead.testing import EmbeddedCluster

from .support import consumer_of

pytestmark = pytest.mark.anyio

E0 = TopicPartition("events", 0)
COUNT = 100
READERS = ["async for", "getone", "getmany", "batches", "run"]


class Waiting:
    """Deserializers of each kind."""

    def __init__(self) -> None:
        self.contexts: list[SerializationContext] = []
        self.calls = 0

    def asks(self, content: bytes, context: SerializationContext) -> int:
        self.contexts.append(context)
        return int(content)

    async def waits(self, content: bytes) -> int:
        self.calls += 1
        await anyio.lowlevel.checkpoint()
        return int(content)

    async def asks_and_waits(self, content: bytes, context: SerializationContext) -> int:
        await anyio.lowlevel.checkpoint()
        return self.asks(content, context)


async def fill(cluster: EmbeddedCluster, count: int = COUNT) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        for n in range(count):
            value = None if n == 7 else b"%d" % n
            await producer.send("events", value, b"%d" % -n, partition=0, headers=[("n", b"%d" % n)])


async def read(consumer: Consumer[Any, Any], way: str, count: int) -> list[ConsumerRecord[Any, Any]]:
    """Return at least this number of records, the next ones."""
    found: list[ConsumerRecord[Any, Any]] = []
    with anyio.fail_after(20):
        if way == "async for":
            async for record in consumer:
                found.append(record)
                if len(found) == count:
                    break
        elif way == "batches":
            async for batch in consumer.batches():
                assert [record.value for record in batch] == batch.values
                assert [record.key for record in batch] == batch.keys
                found.extend(batch)
                if len(found) >= count:
                    break
        elif way == "run":

            async def handle(record: ConsumerRecord[Any, Any]) -> None:
                found.append(record)
                if len(found) == count:
                    consumer.unsubscribe()

            await consumer.run(handle, order="partition")
        else:
            while len(found) < count:
                if way == "getone":
                    found.append(await consumer.getone())
                else:
                    for records in (await consumer.getmany(timeout_ms=1000, max_records=30)).values():
                        assert len(records) <= 30
                        found.extend(records)
    return found


@pytest.mark.parametrize("way", READERS)
@pytest.mark.parametrize("kind", ["asks", "waits", "asks_and_waits"])
async def test_each_kind_and_each_way_to_read(cluster: EmbeddedCluster, kind: str, way: str) -> None:
    await fill(cluster)
    made = Waiting()
    deserializer: Callable[..., Any] = getattr(made, kind)
    async with consumer_of(cluster, key_deserializer=deserializer, value_deserializer=deserializer) as consumer:
        consumer.assign([E0])
        records = await read(consumer, way, COUNT)
    assert [(record.key, record.value) for record in records] == [(-n, None if n == 7 else n) for n in range(COUNT)]
    assert [record.offset for record in records] == list(range(COUNT))
    if kind != "waits":
        contexts = set(made.contexts)
        assert contexts == {
            SerializationContext("events", (("n", b"%d" % n),), is_key)
            for n in range(COUNT)
            for is_key in (True, False)
            if is_key or n != 7
        }


@pytest.mark.parametrize("way", READERS)
async def test_a_read_that_is_cancelled_while_it_deserializes_loses_nothing(cluster: EmbeddedCluster, way: str) -> None:
    await fill(cluster)
    calls = 0
    stuck = anyio.Event()

    async def sticks(content: bytes) -> int:
        nonlocal calls
        calls += 1
        if calls == 40:
            stuck.set()
            await anyio.sleep_forever()
        return int(content)

    async with consumer_of(cluster, value_deserializer=sticks) as consumer:
        consumer.assign([E0])
        found: list[ConsumerRecord[Any, Any]] = []

        async def read_some() -> None:
            if way == "run":
                await consumer.run(remember, order="partition", concurrency=1)
            elif way == "batches":
                async for batch in consumer.batches():
                    found.extend(batch)
            elif way == "async for":
                async for record in consumer:
                    found.append(record)
            else:
                while True:
                    if way == "getone":
                        found.append(await consumer.getone())
                    else:
                        for records in (await consumer.getmany(timeout_ms=1000, max_records=30)).values():
                            found.extend(records)

        async def remember(record: ConsumerRecord[Any, Any]) -> None:
            found.append(record)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_some)
            await stuck.wait()
            tasks.cancel_scope.cancel()
        handed_out = len(found)
        assert await consumer.position(E0) == handed_out
        rest = await read(consumer, "getone", COUNT - handed_out)
    assert [record.offset for record in found + rest] == list(range(COUNT))


@pytest.mark.parametrize("way", ["async for", "getone", "getmany"])
async def test_one_that_raises_holds_back_its_record_alone(cluster: EmbeddedCluster, way: str) -> None:
    await fill(cluster)

    async def fails_at_50(content: bytes) -> int:
        await anyio.lowlevel.checkpoint()
        if content == b"50":
            raise ZeroDivisionError("fifty")
        return int(content)

    async with consumer_of(cluster, value_deserializer=fails_at_50) as consumer:
        consumer.assign([E0])
        assert [record.offset for record in await read(consumer, way, 50)] == list(range(50))
        for _ in range(2):
            with pytest.raises(RecordDeserializationError, match=r"value of the record at offset 50.*fifty") as caught:
                await read(consumer, way, 1)
            assert (caught.value.part, caught.value.record.value) == ("value", b"50")
            assert await consumer.position(E0) == 50
        consumer.seek(E0, 51)
        assert [record.offset for record in await read(consumer, way, 49)] == list(range(51, COUNT))


async def test_a_batch_raises_where_its_column_is_read(cluster: EmbeddedCluster) -> None:
    await fill(cluster)

    async def fails(content: bytes) -> int:
        raise ZeroDivisionError("all")

    async with consumer_of(cluster, value_deserializer=fails) as consumer:
        consumer.assign([E0])
        async for batch in consumer.batches():
            assert batch.keys[0] == b"0"
            for _ in range(2):
                with pytest.raises(RecordDeserializationError, match="value of the record at offset 0"):
                    _ = batch.values
            assert await consumer.position(E0) == batch.next_offset
            break


@pytest.mark.parametrize("way", ["async for", "getone", "getmany", "batches"])
async def test_a_seek_meanwhile_counts(cluster: EmbeddedCluster, way: str) -> None:
    await fill(cluster)
    begun, ready = anyio.Event(), anyio.Event()

    async def slow(content: bytes) -> int:
        begun.set()
        await ready.wait()
        return int(content)

    async with consumer_of(cluster, value_deserializer=slow) as consumer:
        consumer.assign([E0])
        found: list[ConsumerRecord[Any, Any]] = []

        async def read_one() -> None:
            found.extend(await read(consumer, way, 1))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read_one)
            await begun.wait()
            consumer.seek(E0, 60)
            ready.set()
    assert found[0].offset == 60


async def test_records_of_a_batch(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 3)
    async with consumer_of(cluster, value_deserializer=int) as consumer:
        consumer.assign([E0])
        one_by_one = await read(consumer, "getone", 3)
        await consumer.seek_to_beginning()
        async for batch in consumer.batches():
            assert list(batch) == one_by_one == list(batch)
            assert len(batch) == 3
            break


@pytest.mark.parametrize("way", ["getone", "batches"])
async def test_a_stop_ends_a_read_whose_deserializer_never_returns(cluster: EmbeddedCluster, way: str) -> None:
    await fill(cluster, 1)
    begun = anyio.Event()

    async def never(content: bytes) -> int:
        begun.set()
        await anyio.sleep_forever()
        return 0

    async with consumer_of(cluster, "events", value_deserializer=never) as consumer:

        async def read_on() -> None:
            if way == "getone":
                with pytest.raises(ClientClosedError):
                    await consumer.getone()
            else:
                assert [batch async for batch in consumer.batches()] == []

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(read_on)
                await begun.wait()
                await consumer.stop()


@pytest.mark.parametrize("way", READERS)
async def test_a_coroutine_that_nothing_awaits_is_not_handed_out(cluster: EmbeddedCluster, way: str) -> None:
    await fill(cluster, 3)

    async def number(content: bytes) -> int:
        return int(content)

    async with consumer_of(cluster, "events", value_deserializer=lambda content: number(content)) as consumer:
        with pytest.raises((RecordDeserializationError, HandlerError), match="returned a coroutine"):
            await read(consumer, way, 3)
