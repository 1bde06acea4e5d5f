"""confluent-kafka, with its Producer and a callback for each record (``send``), and its Consumer (``consume``)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from ..payload import DIFFERENT as CHUNK
from ..payload import records, values
from ..usage import Meter, resident_bytes
from ..workload import LINGER_MS, Workload

ANYWHERE = -1
"""Partition number with which the client chooses the partition."""


def producer_options(work: Workload, linger_ms: int = LINGER_MS) -> dict[str, Any]:
    """Return the workload's options with librdkafka's names."""
    return {
        "bootstrap.servers": work.bootstrap,
        "acks": work.acks,
        "enable.idempotence": work.acks == "all",
        "linger.ms": linger_ms,
        "compression.type": work.compression,
    }


async def produce(work: Workload) -> dict[str, Any]:
    """Send records, and wait until all are acknowledged."""
    each = work.records // work.clients
    producers = [Producer(producer_options(work)) for _ in range(work.clients)]
    for one in producers:
        _send([one], work, max(each // 20, 1))
    with Meter(each * work.clients, ticks=work.ticks) as meter:
        _send(producers, work, each)
    return meter.figures()


def _send(producers: list[Any], work: Workload, count: int) -> None:
    topic = work.topic
    failed = 0

    def done(error: object, message: object) -> None:
        nonlocal failed
        failed += error is not None

    content = records(work, count, ANYWHERE)
    while some := list(islice(content, 100)):
        for producer in producers:
            for value, key, partition in some:
                while True:
                    try:
                        producer.produce(topic, value, key, partition, done)
                        break
                    except BufferError:
                        producer.poll(0.01)
            producer.poll(0)
    for producer in producers:
        producer.flush()
    assert not failed


async def latency(work: Workload) -> list[float]:
    """Return the milliseconds of each record; each is awaited before the next."""
    from ..latency import timed

    one = Producer(producer_options(work, linger_ms=0))
    value = b"x" * work.size

    async def send() -> None:
        one.produce(work.topic, value)
        one.flush()

    return await timed(send, work.records)


async def steady(work: Workload) -> list[float]:
    """Return the milliseconds until records at a steady rate are acknowledged."""
    from ..latency import paced

    took: list[float] = []
    one = Producer(producer_options(work))

    async def send(value: bytes, acknowledged: Callable[[], None] | None) -> None:
        if acknowledged is None:
            one.produce(work.topic, value)
        else:
            one.produce(work.topic, value, on_delivery=lambda error, message: acknowledged())

    await paced(took, send, work, lambda: one.poll(0))
    one.flush()
    return took


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession. The client's calls block, and no other task runs meanwhile."""
    from ..transactions import back_to_back, new_id

    one = Producer({**producer_options(work), "transactional.id": new_id()})
    one.init_transactions()

    async def begin() -> None:
        one.begin_transaction()

    async def send(topic: str, value: bytes, key: bytes | None, partition: int) -> None:
        one.produce(topic, value, key, partition)

    async def commit() -> None:
        one.commit_transaction()

    return await back_to_back(work, begin, send, commit)


async def buffered(work: Workload) -> dict[str, float]:
    """Return the bytes of memory that an unacknowledged record takes in addition to its value."""
    one = Producer({**producer_options(work), "queue.buffering.max.messages": 2_000_000})
    one.list_topics(work.topic)
    content = values(work.size, CHUNK)
    before = resident_bytes()
    for number in range(work.records):
        one.produce(work.topic, content[number % CHUNK], on_delivery=lambda error, message: None)
    took = resident_bytes() - before
    one.purge()
    return {"bytes": took / work.records - work.size}


async def idle(work: Workload) -> dict[str, float]:
    """Return the KiB of memory that each idle consumer after the first takes."""
    consumers = []
    before = 0
    for number in range(work.clients + 1):
        one = Consumer(consumer_options(work))
        consumers.append(one)
        one.assign([TopicPartition(work.topic, partition, 0) for partition in range(work.partitions)])
        one.consume(1, 0.02)
        if not number:
            before = resident_bytes()
    took = resident_bytes() - before
    for one in consumers:
        one.close()
    return {"KiB": took / work.clients / 1024}


def consumer_options(work: Workload) -> dict[str, Any]:
    """Return the workload's options with librdkafka's names."""
    return {
        "bootstrap.servers": work.bootstrap,
        "group.id": "benchmark",
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
    }


async def consume(work: Workload) -> dict[str, Any]:
    """Read the topic's records."""
    consumer = Consumer(consumer_options(work))
    consumer.assign([TopicPartition(work.topic, partition, 0) for partition in range(work.partitions)])
    _read(consumer, work.records // 20)
    with Meter(work.records, ticks=work.ticks) as meter:
        meter.records = _read(consumer, work.records)
    consumer.close()
    return meter.figures()


def _read(consumer: Any, count: int) -> int:
    seen = 0
    while seen < count:
        found = consumer.consume(500, 1.0)
        seen += len(found)
        for record in found:
            assert record.value() is not None
    return seen


async def share(work: Workload) -> dict[str, Any]:
    """Take records of a share group."""
    from ..share import of_confluent

    return await of_confluent(work)


async def share_moves(work: Workload) -> list[float]:
    """Acknowledge records of a share group while leaders move."""
    from ..share import moves_of_confluent

    return await moves_of_confluent(work)
