"""Helpers that fill a topic and read it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka_lead import ConsumerRecord, Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

E0 = TopicPartition("events", 0)
E1 = TopicPartition("events", 1)
E2 = TopicPartition("events", 2)


def values(count: int, start: int = 0) -> list[bytes]:
    """Return numbered values."""
    return [b"%d" % number for number in range(start, start + count)]


async def fill(
    cluster: EmbeddedCluster,
    content: Iterable[bytes | None],
    *,
    topic: str = "events",
    partition: int = 0,
    **options: Any,
) -> None:
    """Write records into one partition."""
    async with Producer(cluster.bootstrap_servers, **options) as producer:
        for outcome in await (await producer.send_many(topic, list(content), partition=partition)):
            assert not isinstance(outcome, BaseException), outcome


def consumer_of(cluster: EmbeddedCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    """Yield a consumer that reads from the beginning, unless an option says otherwise."""
    options.setdefault("auto_offset_reset", "earliest")
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, **options)


async def take(consumer: Consumer[Any, Any], count: int) -> list[ConsumerRecord[Any, Any]]:
    """Return the next records, read one by one."""
    found: list[ConsumerRecord[Any, Any]] = []
    async for record in consumer:
        found.append(record)
        if len(found) == count:
            break
    return found


def numbers(records: Sequence[ConsumerRecord[Any, Any]]) -> list[int]:
    """Return their values as numbers."""
    return [int(record.value) for record in records]
