"""This client.

``method`` is a method of the producer (``send``, ``send_forgotten``, ``send_nowait``, ``send_many``,
``send_many_forgotten``) or of the consumer (``async_for``, ``getmany``, ``run``, ``values``, ``arrow``). Forgotten
means that the outcome of each record is not checked, but `flush` waits for all records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any

import anyio

from aiokafka_lead import Consumer, ConsumerRecord, Producer, TopicPartition
from aiokafka_lead.errors import BufferFull
from aiokafka_lead.producer import Delivery, DeliveryBatch

from ..payload import DIFFERENT as CHUNK
from ..payload import records, send_all, values
from ..usage import Meter, resident_bytes
from ..workload import LINGER_MS, WINDOW, Workload


def producer(work: Workload, **options: Any) -> Producer:
    """Create a producer with the workload's options."""
    settings: dict[str, Any] = {
        "acks": work.acks if work.acks == "all" else int(work.acks),
        "enable_idempotence": work.acks == "all",
        "linger_ms": LINGER_MS,
        "compression_type": work.compression,
    }
    return Producer(work.bootstrap, **{**settings, **options})


async def produce(work: Workload) -> dict[str, Any]:
    """Send records, and wait until all are acknowledged."""
    send = METHODS[work.method]
    each = work.records // work.clients
    async with AsyncExitStack() as stack:
        producers = [await stack.enter_async_context(producer(work)) for _ in range(work.clients)]
        for one in producers:
            await send(one, work, max(each // 20, 1))
        with Meter(each * work.clients, ticks=work.ticks) as meter:
            async with anyio.create_task_group() as tasks:
                for one in producers:
                    tasks.start_soon(send, one, work, each)
    return meter.figures()


async def _send(producer: Producer, work: Workload, count: int) -> None:
    await send_all(producer.send, producer.flush, work, count)


async def _send_forgotten(producer: Producer, work: Workload, count: int) -> None:
    topic = work.topic
    for value, key, partition in records(work, count):
        await producer.send(topic, value, key, partition)
    await producer.flush()


async def _send_nowait(producer: Producer, work: Workload, count: int) -> None:
    topic = work.topic
    content = records(work, count)
    while some := list(islice(content, CHUNK)):
        for value, key, partition in some:
            while True:
                try:
                    producer.send_nowait(topic, value, key, partition)
                    break
                except BufferFull:
                    await anyio.sleep(0.001)
        await anyio.lowlevel.checkpoint()
    await producer.flush()


async def _send_many(producer: Producer, work: Workload, count: int) -> None:
    content = values(work.size, CHUNK)
    waiting: deque[DeliveryBatch] = deque()
    for _ in range(max(1, count // CHUNK)):
        waiting.append(await producer.send_many(work.topic, content))
        if len(waiting) >= WINDOW // CHUNK:
            await waiting.popleft()
    await producer.flush()
    for batch in waiting:
        await batch


async def _send_many_forgotten(producer: Producer, work: Workload, count: int) -> None:
    content = values(work.size, CHUNK)
    for _ in range(max(1, count // CHUNK)):
        await producer.send_many(work.topic, content)
    await producer.flush()


METHODS = {
    "send": _send,
    "send_forgotten": _send_forgotten,
    "send_nowait": _send_nowait,
    "send_many": _send_many,
    "send_many_forgotten": _send_many_forgotten,
}


async def latency(work: Workload) -> list[float]:
    """Return the milliseconds of each record; each is awaited before the next."""
    from ..latency import timed

    async with producer(work, linger_ms=0) as one:
        value = b"x" * work.size

        async def send() -> None:
            await one.send_and_wait(work.topic, value)

        return await timed(send, work.records)


async def steady(work: Workload) -> list[float]:
    """Return the milliseconds until records at a steady rate are acknowledged."""
    from ..latency import paced

    took: list[float] = []
    async with producer(work) as one, anyio.create_task_group() as tasks:

        async def send(value: bytes, acknowledged: Callable[[], None] | None) -> None:
            delivery = await one.send(work.topic, value)
            if acknowledged is not None:
                tasks.start_soon(confirm, delivery, acknowledged)

        async def confirm(delivery: Delivery, acknowledged: Callable[[], None]) -> None:
            await delivery
            acknowledged()

        await paced(took, send, work, lambda: None)
        await one.flush()
    return took


async def transactions(work: Workload) -> dict[str, Any]:
    """Commit transactions in succession."""
    from ..transactions import back_to_back, new_id

    async with producer(work, transactional_id=new_id()) as one:
        return await back_to_back(work, one.begin_transaction, one.send, one.commit_transaction)


async def buffered(work: Workload) -> dict[str, float]:
    """Return the bytes of memory that an unacknowledged record takes in addition to its value."""
    one = producer(work, buffer_memory=1 << 30, linger_ms=0)
    await one.start()
    await one.partitions_for(work.topic)
    content = values(work.size, CHUNK)
    before = resident_bytes()
    deliveries = [await one.send(work.topic, content[number % CHUNK]) for number in range(work.records)]
    took = resident_bytes() - before
    await one.stop(timeout_ms=0)
    return {"bytes": took / len(deliveries) - work.size}


async def idle(work: Workload) -> dict[str, float]:
    """Return the KiB of memory that each idle consumer after the first takes."""
    everything = [TopicPartition(work.topic, partition) for partition in range(work.partitions)]
    async with AsyncExitStack() as stack:
        before = 0
        for number in range(work.clients + 1):
            one: Consumer = Consumer(bootstrap_servers=work.bootstrap, enable_auto_commit=False)
            await stack.enter_async_context(one)
            one.assign(everything)
            await one.getmany(timeout_ms=20)
            if not number:
                before = resident_bytes()
        return {"KiB": (resident_bytes() - before) / work.clients / 1024}


async def consume(work: Workload) -> dict[str, Any]:
    """Read the topic's records."""
    everything = [TopicPartition(work.topic, partition) for partition in range(work.partitions)]
    async with Consumer(
        bootstrap_servers=work.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=10_000 if work.method == "arrow" else None,
    ) as consumer:
        consumer.assign(everything)
        read = READERS[work.method]
        await read(consumer, work.records // 20)
        with Meter(work.records, ticks=work.ticks) as meter:
            meter.records = await read(consumer, work.records)
    return meter.figures()


async def _async_for(consumer: Consumer, count: int) -> int:
    seen = 0
    async for record in consumer:
        assert record.value is not None
        seen += 1
        if seen == count:
            break
    return seen


async def _getmany(consumer: Consumer, count: int) -> int:
    seen = 0
    while seen < count:
        for found in (await consumer.getmany(timeout_ms=1000, max_records=500)).values():
            seen += len(found)
            for record in found:
                assert record.value is not None
    return seen


async def _run(consumer: Consumer, count: int) -> int:
    seen = 0
    enough = anyio.Event()

    async def handle(record: ConsumerRecord[Any, Any]) -> None:
        nonlocal seen
        assert record.value is not None
        seen += 1
        if seen == count:
            enough.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handle)
        await enough.wait()
        tasks.cancel_scope.cancel()
    return seen


async def _values(consumer: Consumer, count: int) -> int:
    seen = 0
    async for batch in consumer.batches():
        seen += len(batch.values)
        if seen >= count:
            break
    return seen


async def _arrow(consumer: Consumer, count: int) -> int:
    seen = 0
    async for batch in consumer.batches():
        seen += batch.to_arrow().num_rows
        if seen >= count:
            break
    return seen


READERS = {"async_for": _async_for, "getmany": _getmany, "run": _run, "values": _values, "arrow": _arrow}


async def share(work: Workload) -> dict[str, Any]:
    """Take records of a share group."""
    from ..share import of_this_client

    return await of_this_client(work)


async def share_moves(work: Workload) -> list[float]:
    """Acknowledge records of a share group while leaders move."""
    from ..share import moves_of_this_client

    return await moves_of_this_client(work)
