"""aiokafka, with the producer's method ``send``, and the consumer's methods ``async_for`` and ``getmany``."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

from ..payload import DIFFERENT as CHUNK
from ..payload import send_all, values
from ..usage import Meter, resident_bytes
from ..workload import LINGER_MS, Workload


def producer(work: Workload, **options: Any) -> Any:
    """Create a producer with the workload's options, without starting it."""
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
    """Send records, and wait until all are acknowledged."""
    each = work.records // work.clients
    producers = [producer(work) for _ in range(work.clients)]
    for one in producers:
        await one.start()
    try:
        for one in producers:
            await _send(one, work, max(each // 20, 1))
        with Meter(each * work.clients, ticks=work.ticks) as meter:
            await asyncio.gather(*(_send(one, work, each) for one in producers))
    finally:
        for one in producers:
            await one.stop()
    return meter.figures()


async def _send(producer: Any, work: Workload, count: int) -> None:
    await send_all(producer.send, producer.flush, work, count)


async def latency(work: Workload) -> list[float]:
    """Return the milliseconds of each record; each is awaited before the next."""
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


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession."""
    from ..transactions import back_to_back, new_id

    one = producer(work, transactional_id=new_id())
    await one.start()
    try:
        return await back_to_back(work, one.begin_transaction, one.send, one.commit_transaction)
    finally:
        await one.stop()


async def steady(work: Workload) -> list[float]:
    """Return the milliseconds until records at a steady rate are acknowledged."""
    from ..latency import paced

    took: list[float] = []
    one = producer(work)
    await one.start()

    async def send(value: bytes, acknowledged: Callable[[], None] | None) -> None:
        future = await one.send(work.topic, value)
        if acknowledged is not None:
            future.add_done_callback(lambda _: acknowledged())

    try:
        await paced(took, send, work, lambda: None)
        await one.flush()
        return took
    finally:
        await one.stop()


async def buffered(work: Workload) -> dict[str, float]:
    """Return the bytes of memory that a buffered record takes in addition to its value.

    The client buffers only one batch for each partition, and then makes the caller wait, so the number of records is
    limited to a window.
    """
    one = producer(work, max_batch_size=1 << 24, linger_ms=60_000)
    await one.start()
    await one.partitions_for(work.topic)
    content = values(work.size, CHUNK)
    before = resident_bytes()
    waiting = [await one.send(work.topic, content[number % CHUNK]) for number in range(work.records)]
    return {"bytes": (resident_bytes() - before) / len(waiting) - work.size}


async def idle(work: Workload) -> dict[str, float]:
    """Return the KiB of memory that each idle consumer after the first takes."""
    everything = [TopicPartition(work.topic, partition) for partition in range(work.partitions)]
    consumers = []
    before = 0
    for number in range(work.clients + 1):
        one = AIOKafkaConsumer(bootstrap_servers=work.bootstrap, enable_auto_commit=False)
        await one.start()
        consumers.append(one)
        one.assign(everything)
        await one.getmany(timeout_ms=20)
        if not number:
            before = resident_bytes()
    took = resident_bytes() - before
    for one in consumers:
        await one.stop()
    return {"KiB": took / work.clients / 1024}


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
        with Meter(work.records, ticks=work.ticks) as meter:
            meter.records = await read(consumer, work.records)
    finally:
        await consumer.stop()
    return meter.figures()


async def _async_for(consumer: Any, count: int) -> int:
    seen = 0
    async for record in consumer:
        assert record.value is not None
        seen += 1
        if seen == count:
            break
    return seen


async def _getmany(consumer: Any, count: int) -> int:
    seen = 0
    while seen < count:
        for found in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
            seen += len(found)
            for record in found:
                assert record.value is not None
    return seen
