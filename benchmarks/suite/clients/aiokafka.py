"""aiokafka. Its one way to send is ``send``; a consumer reads by ``async_for`` or ``getmany``."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from ..payload import records
from ..usage import Meter
from ..workload import LINGER_MS, WINDOW, Workload


def producer(work: Workload, **options: Any) -> Any:
    """A producer with the workload's options; not started."""
    return AIOKafkaProducer(
        bootstrap_servers=work.bootstrap,
        **{
            "acks": work.acks if work.acks == "all" else int(work.acks),
            "enable_idempotence": work.acks == "all",
            "linger_ms": LINGER_MS,
            "compression_type": None if work.compression == "none" else work.compression,
            **options,
        },
    )


async def produce(work: Workload) -> dict[str, Any]:
    """Send, and wait until all is acknowledged."""
    each = work.records // work.clients
    producers = [producer(work) for _ in range(work.clients)]
    for one in producers:
        await one.start()
    try:
        for one in producers:
            await _send(one, work, max(each // 20, 1))
        with Meter(each * work.clients) as meter:
            await asyncio.gather(*(_send(one, work, each) for one in producers))
    finally:
        for one in producers:
            await one.stop()
    return meter.figures()


async def _send(producer: Any, work: Workload, count: int) -> None:
    topic, waiting = work.topic, []
    for value, key, partition in records(work, count):
        waiting.append(await producer.send(topic, value, key, partition))
        if len(waiting) >= WINDOW:
            for future in waiting[: WINDOW // 2]:
                await future
            del waiting[: WINDOW // 2]
    await producer.flush()
    for future in waiting:
        await future


async def latency(work: Workload) -> list[float]:
    """Milliseconds of each of so many records, awaited one after the other."""
    from ..latency import timed

    one = producer(work, linger_ms=0)
    await one.start()
    try:
        value = b"x" * work.size

        async def send() -> None:
            await one.send_and_wait(work.topic, value)

        return await timed(send, work.records)
    finally:
        await one.stop()


async def consume(work: Workload) -> dict[str, Any]:
    """Read the topic's records."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=work.bootstrap, auto_offset_reset="earliest", enable_auto_commit=False
    )
    await consumer.start()
    try:
        consumer.assign([TopicPartition(work.topic, partition) for partition in range(work.partitions)])
        read = {"async_for": _async_for, "getmany": _getmany}[work.method]
        await read(consumer, work.records // 20)
        with Meter(work.records) as meter:
            meter.records = await read(consumer, work.records)
    finally:
        await consumer.stop()
    return meter.figures()


async def _async_for(consumer: Any, count: int) -> int:
    seen = 0
    async for record in consumer:
        seen += record.value is not None
        if seen == count:
            break
    return seen


async def _getmany(consumer: Any, count: int) -> int:
    seen = 0
    while seen < count:
        for found in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
            for record in found:
                seen += record.value is not None
    return seen
