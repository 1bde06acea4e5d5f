"""Helpers that fill a topic, and run a handler over it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

EVENTS = [TopicPartition("events", partition) for partition in range(3)]
E0, E1, E2 = EVENTS


async def fill(
    cluster: EmbeddedCluster, count: int, *, keys: int | None = None, partition: int = 0, size: int = 0
) -> None:
    """Write numbered records into one partition, cycling through this number of keys; without keys if it is None."""
    values = [(b"%d" % number).rjust(size, b"0") for number in range(count)]
    names = None if keys is None else [b"%d" % (number % keys) for number in range(count)]
    async with Producer(cluster.bootstrap_servers) as producer:
        for outcome in await (await producer.send_many("events", values, names, partition=partition)):
            assert not isinstance(outcome, BaseException), outcome


def runner_of(cluster: EmbeddedCluster, **options: Any) -> Consumer[Any, Any]:
    """Return a consumer of all three partitions, in the group "g"."""
    options = {"group_id": "g", "auto_offset_reset": "earliest", **options}
    consumer: Consumer[Any, Any] = Consumer(bootstrap_servers=cluster.bootstrap_servers, **options)
    consumer.assign(EVENTS)
    return consumer


@asynccontextmanager
async def until(consumer: Consumer[Any, Any]) -> AsyncIterator[Callable[[], None]]:
    """Yield a function that stops the consumer soon, in another task."""
    over = anyio.Event()

    async def stop() -> None:
        await over.wait()
        await consumer.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop)
        yield over.set
        over.set()


async def committed(cluster: EmbeddedCluster, partition: TopicPartition) -> int | None:
    """Return the committed offsets of the group "g"."""
    options: dict[str, Any] = {"group_id": "g", "enable_auto_commit": False}
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        found = await consumer.committed(partition)
        return None if found is None else found.offset


async def until_committed(cluster: EmbeddedCluster, partition: TopicPartition, offset: int) -> None:
    """Wait until the group "g" has committed these offsets."""
    with anyio.fail_after(20):
        while True:
            seen = cluster.requests.count("OffsetCommit")
            if await committed(cluster, partition) == offset:
                return
            await cluster.wait_for_requests("OffsetCommit", count=seen + 1)


class Gate:
    """Blocks every task that arrives, until it is opened."""

    def __init__(self) -> None:
        self._open = anyio.Event()

    async def wait(self) -> None:
        await self._open.wait()

    def open(self) -> None:
        self._open.set()
