"""Working clients leave no garbage to Python's collector."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import pytest

from aiokafka_lead import Consumer, Producer, ShareConsumer
from aiokafka_lead.testing import EmbeddedCluster

from ..embedded import cluster_with
from ..garbage import no_cycles_are_left
from ..share.support import configure

pytestmark = pytest.mark.anyio

cluster = cluster_with(brokers=1, events=1)

COUNT = 30
Sender: TypeAlias = Callable[[Producer[Any, Any]], Awaitable[None]]
Reader: TypeAlias = Callable[[Any], Awaitable[None]]


async def send(producer: Producer[Any, Any]) -> None:
    for _ in range(COUNT):
        (await producer.send("events", b"v")).add_done_callback(lambda _: None)
    await producer.flush()


async def send_and_wait(producer: Producer[Any, Any]) -> None:
    for _ in range(COUNT):
        await producer.send_and_wait("events", b"v")


async def send_many(producer: Producer[Any, Any]) -> None:
    await (await producer.send_many("events", [b"v"] * COUNT))


async def getmany(consumer: Any) -> None:
    count = 0
    while count < COUNT:
        count += sum(map(len, (await consumer.getmany()).values()))


async def getone(consumer: Any) -> None:
    for _ in range(COUNT):
        await consumer.getone()


async def loop(consumer: Any) -> None:
    count = 0
    async for record in consumer:
        count += bool(record.value)
        if count == COUNT:
            break


async def batches(consumer: Any, *, commit: bool = False) -> None:
    count = 0
    async for batch in consumer.batches():
        count += len(batch.values)
        if commit:
            await batch.commit()
        if count == COUNT:
            break


async def batches_with_commit(consumer: Any) -> None:
    await batches(consumer, commit=True)


async def leave_nothing(cluster: EmbeddedCluster, consumer: Any, read: Reader) -> None:
    """Check rounds of work; the first one may leave garbage of the start."""
    async with Producer(cluster.bootstrap_servers) as producer, consumer:
        await send(producer)
        await read(consumer)
        with no_cycles_are_left():
            await send(producer)
            await read(consumer)


@pytest.mark.parametrize("write", [send, send_and_wait, send_many])
async def test_by_producers(cluster: EmbeddedCluster, write: Sender) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=1) as producer:
        await write(producer)
        with no_cycles_are_left():
            await write(producer)


async def test_by_transactions(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, transactional_id="t") as producer:
        for _ in range(2):
            with no_cycles_are_left():
                async with producer.transaction():
                    await send(producer)


@pytest.mark.parametrize("read", [getmany, getone, loop, batches])
async def test_by_consumers(cluster: EmbeddedCluster, read: Reader) -> None:
    servers = cluster.bootstrap_servers
    await leave_nothing(cluster, Consumer("events", bootstrap_servers=servers, auto_offset_reset="earliest"), read)


@pytest.mark.parametrize("read", [getmany, getone, loop, batches, batches_with_commit])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_by_members_of_groups(cluster: EmbeddedCluster, protocol: Any, read: Reader) -> None:
    group: Any = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    await leave_nothing(cluster, Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **group), read)


@pytest.mark.parametrize("read", [getmany, loop])
async def test_by_members_of_share_groups(cluster: EmbeddedCluster, read: Reader) -> None:
    await configure(cluster.bootstrap_servers, "g")
    member = ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g")
    await leave_nothing(cluster, member, read)
