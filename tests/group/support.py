"""Members of a group that react quickly, and the partitions that they own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead._io.kind import Kind
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

GROUP = "g"
ALL = frozenset(TopicPartition("events", index) for index in range(6))
Partitions = frozenset[TopicPartition]


def member(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    """Return a member that learns of a rebalance within 50 ms, and is not expelled if the machine is busy."""
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
    """Return True if these members own all partitions, each once, and every member has some."""
    owned = [consumer.assignment() for consumer in consumers]
    return sum(map(len, owned)) == len(partitions) == len(frozenset().union(*owned)) and all(owned)


@asynccontextmanager
async def starting(consumer: Consumer[Any, Any]) -> AsyncIterator[Consumer[Any, Any]]:
    """Yield a consumer without waiting for its first assignment."""
    await consumer.start(wait=False)
    try:
        yield consumer
    finally:
        await consumer.stop()


@asynccontextmanager
async def reading(*consumers: Consumer[Any, Any]) -> AsyncIterator[list[Any]]:
    """Let these members read while the block runs; yield the records read so far."""
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
    """Poll until the condition holds."""
    with anyio.fail_after(timeout_s):
        while not condition():  # noqa: ASYNC110 (no event for ownership)
            await anyio.sleep(0.005)


async def read_on(consumer: Consumer[Any, Any]) -> None:
    """Read until that raises."""
    while True:
        await consumer.getmany(timeout_ms=50)


class Recorder:
    """A listener that records its calls."""

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
    """End the member without notice to the group, as SIGKILL would."""
    consumer._client.kind = Kind()
    await consumer.stop()
