"""Members of a group that are quick to notice, and what they own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead._io.life import Kind
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

GROUP = "g"
ALL = frozenset(TopicPartition("events", index) for index in range(6))
Partitions = frozenset[TopicPartition]


def member(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    """A member that hears of a rebalance within 50 ms, and that is not put out because the machine is busy."""
    defaults: dict[str, Any] = {
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 50,
        "session_timeout_ms": 20_000,
        "retry_backoff_ms": 10,
        "metadata_max_age_ms": 500,
    }
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **(defaults | options))


async def fill(cluster: EmbeddedCluster, per_partition: int, topic: str = "events", partitions: int = 6) -> None:
    """Write numbered values into each partition."""
    async with Producer(cluster.bootstrap_servers) as producer:
        for partition in range(partitions):
            values = [b"%d" % number for number in range(per_partition)]
            for outcome in await (await producer.send_many(topic, values, partition=partition)):
                assert not isinstance(outcome, BaseException), outcome


def shared(consumers: Iterable[Consumer[Any, Any]], partitions: Partitions = ALL) -> bool:
    """Whether these own all partitions, each once, and everyone has some."""
    owned = [consumer.assignment() for consumer in consumers]
    return sum(map(len, owned)) == len(partitions) == len(frozenset().union(*owned)) and all(owned)


@asynccontextmanager
async def starting(consumer: Consumer[Any, Any]) -> AsyncIterator[Consumer[Any, Any]]:
    """A consumer whose first assignment is not waited for."""
    await consumer.start(wait=False)
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def reading(*consumers: Consumer[Any, Any]) -> AsyncIterator[list[Any]]:
    """Meanwhile these read; yields what they have read so far."""
    got: list[Any] = []

    async def read(consumer: Consumer[Any, Any]) -> None:
        while True:
            for records in (await consumer.getmany(timeout_ms=200)).values():
                got.extend(records)

    async with anyio.create_task_group() as tasks:
        for consumer in consumers:
            tasks.start_soon(read, consumer)
        yield got
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool], timeout_s: float = 20.0) -> None:
    """Look until it holds."""
    with anyio.fail_after(timeout_s):
        while not condition():  # noqa: ASYNC110 (nobody tells who owns what)
            await anyio.sleep(0.005)


async def read_on(consumer: Consumer[Any, Any]) -> None:
    """Read until that raises."""
    while True:
        await consumer.getmany(timeout_ms=50)


class Recorder:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, Partitions]] = []

    async def on_partitions_revoked(self, partitions: Partitions) -> None:
        self.heard.append(("revoked", partitions))

    async def on_partitions_assigned(self, partitions: Partitions) -> None:
        self.heard.append(("assigned", partitions))

    def on_partitions_lost(self, partitions: Partitions) -> None:
        self.heard.append(("lost", partitions))

    def named(self, name: str) -> list[Partitions]:
        return [partitions for kind, partitions in self.heard if kind == name]


async def vanish(consumer: Consumer[Any, Any]) -> None:
    """End it without a word to the group, as SIGKILL would."""
    consumer._client.kind = Kind()
    await consumer.stop()
