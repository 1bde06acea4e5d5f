"""Brokers with which clients are measured."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from .sink import SinkTopic


@dataclass(frozen=True)
class Brokers:
    """Address of brokers, and a function that creates topics."""

    name: str
    bootstrap: str
    topic: Callable[[SinkTopic], str]
    """Function that creates a topic with these properties, fills it with records, and returns its name."""
    is_cold: bool = False
    """True if the brokers were just started, and are still slow because their JVMs compile code."""


@contextmanager
def sink() -> Iterator[Brokers]:
    """Run the broker that is never the bottleneck in a separate process."""
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.suite.sink"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield Brokers("sink", process.stdout.readline().strip(), lambda topic: topic.name)
    finally:
        process.terminate()
        process.wait()


@contextmanager
def kafka(bootstrap: str | None, count: int = 3) -> Iterator[Brokers]:
    """Use the Apache Kafka cluster at this address, or start a cluster with this number of brokers."""
    if bootstrap is not None:
        yield Brokers("kafka", bootstrap, _maker(bootstrap))
        return
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=count, heap_mib=1024, optimise=True)
    try:
        cluster.start()
        yield Brokers("kafka", cluster.bootstrap(), _maker(cluster.bootstrap()), is_cold=True)
    finally:
        cluster.stop()


def _maker(bootstrap: str) -> Callable[[SinkTopic], str]:
    made: dict[SinkTopic, str] = {}

    def topic(kind: SinkTopic) -> str:
        if kind not in made:
            made[kind] = f"{kind.name}.{uuid.uuid4().hex[:8]}"
            anyio.run(_make, bootstrap, made[kind], kind)
        return made[kind]

    return topic


async def _make(bootstrap: str, name: str, kind: SinkTopic) -> None:
    from aiokafka_lead import AdminClient, Producer
    from aiokafka_lead.admin import NewTopic

    from .payload import values

    async with AdminClient(bootstrap) as admin:
        await admin.create_topics([NewTopic(name, kind.partitions, kind.replicas)])
    content = values(kind.size, 1000)
    async with Producer(bootstrap, compression_type=kind.compression) as producer:  # type: ignore[arg-type]
        for partition in range(kind.partitions if kind.records else 0):
            for _ in range(-(-kind.records // 1000)):
                await producer.send_many(name, content, partition=partition)
