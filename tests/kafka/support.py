"""Helpers of the tests against a real Kafka."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ParamSpec, TypeVar

import anyio
import confluent_kafka
import pytest

from aiokafka_lead import Consumer, Producer, TopicPartition

from .harness import KafkaCluster

P = ParamSpec("P")
T = TypeVar("T")

Record = Any
"""A `ConsumerRecord` of bytes."""

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module")
on_trio = pytest.mark.parametrize("anyio_backend", ["trio"], scope="module")
"""For slow tests, and for tests that have counterparts on both event loops on the embedded cluster."""


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking call (the harness, confluent-kafka) in a thread."""
    return await anyio.to_thread.run_sync(functools.partial(function, *args, **kwargs))


def make_producer(kafka: KafkaCluster, **options: Any) -> Producer:
    """Return a producer with default options, except for the release's limits and ``options``."""
    servers = options.pop("bootstrap_servers", kafka.bootstrap())
    if not kafka.release.producer_ids:
        options.setdefault("enable_idempotence", False)
    return Producer(servers, **options)


def make_consumer(kafka: KafkaCluster, **options: Any) -> Consumer:
    """Return a consumer without a group that starts at the beginning."""
    servers = options.pop("bootstrap_servers", kafka.bootstrap())
    options.setdefault("auto_offset_reset", "earliest")
    return Consumer(bootstrap_servers=servers, **options)


def partitions_of(topic: str, count: int) -> list[TopicPartition]:
    """Return the first ``count`` partitions of a topic."""
    return [TopicPartition(topic, partition) for partition in range(count)]


async def read(consumer: Consumer, count: int, timeout_s: float = 120) -> list[Record]:
    """Read until there are ``count`` records; return all that came."""
    records: list[Record] = []
    with anyio.fail_after(timeout_s):
        while len(records) < count:
            for batch in (await consumer.getmany(timeout_ms=1000)).values():
                records += batch
    return records


async def read_topic(kafka: KafkaCluster, topic: str, partitions: int, count: int, **options: Any) -> list[Record]:
    """Read a topic from the beginning with a separate consumer."""
    async with make_consumer(kafka, **options) as consumer:
        consumer.assign(partitions_of(topic, partitions))
        return await read(consumer, count)


def by_partition(records: Iterable[Record]) -> dict[int, list[Record]]:
    """Return records of one topic by partition, in the order in which they came."""
    partitions: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        partitions[record.partition].append(record)
    return dict(partitions)


def confluent_read(kafka: KafkaCluster, topic: str, partitions: int, **options: Any) -> list[confluent_kafka.Message]:
    """Return everything in a topic, as another client reads it."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.bootstrap(),
            "group.id": "judge",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            **options,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, p, 0) for p in range(partitions)])
        messages: list[confluent_kafka.Message] = []
        open_partitions = set(range(partitions))
        while open_partitions:
            message = consumer.poll(60)
            assert message is not None, f"{topic}: no answer within 60 s"
            error = message.error()
            if error is None:
                messages.append(message)
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                open_partitions.discard(message.partition())
            else:
                raise confluent_kafka.KafkaException(error)
        return messages
    finally:
        consumer.close()
