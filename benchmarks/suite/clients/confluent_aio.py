"""confluent-kafka's AIOProducer (``send``) and AIOConsumer (``consume``)."""

from __future__ import annotations

from typing import Any

from confluent_kafka import TopicPartition
from confluent_kafka.aio import AIOConsumer, AIOProducer

from ..payload import send_all
from ..usage import Meter
from ..workload import Workload
from .confluent import ANYWHERE, consumer_options, producer_options


async def produce(work: Workload) -> dict[str, Any]:
    """Send records, and wait until all are acknowledged."""
    producer = AIOProducer(producer_options(work))
    try:
        await _send(producer, work, max(work.records // 20, 1))
        with Meter(work.records, ticks=work.ticks) as meter:
            await _send(producer, work, work.records)
    finally:
        await producer.close()
    return meter.figures()


async def _send(producer: Any, work: Workload, count: int) -> None:
    await send_all(producer.produce, producer.flush, work, count, anywhere=ANYWHERE)


async def latency(work: Workload) -> list[float]:
    """Return the milliseconds of each record; each is awaited before the next.

    The client itself collects records in batches, by default for a second, and checks them ten times a second.
    """
    from ..latency import timed

    producer = AIOProducer(producer_options(work, linger_ms=0), batch_size=1, buffer_timeout=0.005)
    value = b"x" * work.size

    async def send() -> None:
        await (await producer.produce(work.topic, value))

    try:
        return await timed(send, work.records)
    finally:
        await producer.close()


async def consume(work: Workload) -> dict[str, Any]:
    """Read the topic's records."""
    consumer = AIOConsumer(consumer_options(work))
    await consumer.assign([TopicPartition(work.topic, partition, 0) for partition in range(work.partitions)])
    try:
        await _read(consumer, work.records // 20)
        with Meter(work.records, ticks=work.ticks) as meter:
            meter.records = await _read(consumer, work.records)
    finally:
        await consumer.close()
    return meter.figures()


async def _read(consumer: Any, count: int) -> int:
    seen = 0
    while seen < count:
        found = await consumer.consume(500, 1.0)
        seen += len(found)
        for record in found:
            assert record.value() is not None
    return seen
