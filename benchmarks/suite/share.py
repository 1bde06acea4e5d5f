"""Cost of records of a share group that are acquired and accepted without processing.

``method`` is ``implicit`` (the next poll accepts the records), ``explicit`` (a call acknowledges each record), or for
this client also ``async_for``, ``batches`` or ``run``. Every client takes at most 500 records at a time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import anyio

from aiokafka_lead import ShareConsumer, ShareRecord

from ..peers import share_command
from .usage import Meter
from .workload import Workload

Consumer = ShareConsumer[bytes | None, bytes | None]
WARM_UP = 0.1
"""Number of records in the warm-up, as a share of the counted records."""


async def of_this_client(work: Workload) -> dict[str, Any]:
    """Measure this client until all counted records are accepted."""
    mode: Any = "explicit" if work.method == "explicit" else "implicit"
    async with ShareConsumer(
        work.topic, bootstrap_servers=work.bootstrap, group_id=work.group, share_acknowledgement_mode=mode
    ) as consumer:
        if work.method == "run":
            return await _run(consumer, work)
        read = READERS[work.method]
        await read(consumer, round(work.records * WARM_UP))
        with Meter(work.records) as meter:
            meter.records = await read(consumer, work.records)
            await consumer.commit()
    return meter.figures()


async def _implicit(consumer: Consumer, count: int) -> int:
    seen = 0
    while seen < count:
        for found in (await consumer.getmany(timeout_ms=1000)).values():
            seen += len(found)
            for record in found:
                assert record.value is not None
    return seen


async def _explicit(consumer: Consumer, count: int) -> int:
    seen = 0
    acknowledge = consumer.acknowledge
    while seen < count:
        for found in (await consumer.getmany(timeout_ms=1000)).values():
            seen += len(found)
            for record in found:
                assert record.value is not None
                acknowledge(record)
    return seen


async def _async_for(consumer: Consumer, count: int) -> int:
    seen = 0
    async for record in consumer:
        assert record.value is not None
        seen += 1
        if seen == count:
            break
    return seen


async def _batches(consumer: Consumer, count: int) -> int:
    seen = 0
    async for batch in consumer.batches():
        seen += len(batch)
        for record in batch:
            assert record.value is not None
        if seen >= count:
            break
    return seen


READERS: dict[str, Callable[[Consumer, int], Awaitable[int]]] = {
    "implicit": _implicit,
    "explicit": _explicit,
    "async_for": _async_for,
    "batches": _batches,
}


async def _run(consumer: Consumer, work: Workload) -> dict[str, Any]:
    warm_up = round(work.records * WARM_UP)
    seen = 0
    enough = anyio.Event()
    meter = Meter(work.records)
    with ExitStack() as measured:

        async def handle(record: ShareRecord[Any, Any]) -> None:
            nonlocal seen
            assert record.value is not None
            seen += 1
            if seen == warm_up:
                measured.enter_context(meter)
            elif seen == warm_up + work.records:
                enough.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            await enough.wait()
            measured.close()
            tasks.cancel_scope.cancel()
    return meter.figures()


async def of_confluent(work: Workload) -> dict[str, Any]:
    """Measure confluent-kafka's consumer, which has no asyncio."""
    from confluent_kafka import ShareConsumer as Confluent

    explicit = work.method == "explicit"
    consumer = Confluent(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": work.group,
            "share.acknowledgement.mode": "explicit" if explicit else "implicit",
        }
    )
    consumer.subscribe([work.topic])

    def read(count: int) -> int:
        seen = 0
        while seen < count:
            for message in consumer.poll(1.0):
                assert message.error() is None
                assert message.value() is not None
                seen += 1
                if explicit:
                    consumer.acknowledge(message)
        return seen

    read(round(work.records * WARM_UP))
    with Meter(work.records) as meter:
        meter.records = read(work.records)
        consumer.commit_sync()
    consumer.close()
    return meter.figures()


async def of_another_language(client: str, work: Workload) -> dict[str, Any]:
    """Measure a client that runs in a separate process."""
    numbers = [round(work.records * WARM_UP), work.records]
    command = [*share_command(client), work.bootstrap, work.topic, work.group, work.method, *map(str, numbers)]
    done = await anyio.run_process(command, stderr=None)
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


# --- while leaders move ----------------------------------------------------------------------------------------------


async def moves_of_this_client(work: Workload) -> list[float]:
    """Return the wall-clock times of successive acknowledgements in seconds, for the duration of the workload."""
    taken: list[float] = []
    end = time.monotonic() + work.seconds
    async with ShareConsumer(
        work.topic, bootstrap_servers=work.bootstrap, group_id=work.group, max_poll_records=MOVED_AT_ONCE,
        share_acquire_mode="record_limit",
    ) as consumer:  # fmt: skip
        while time.monotonic() < end:
            if await consumer.getmany(timeout_ms=1000) and None in (await consumer.commit()).values():
                taken.append(time.time())
    return taken


async def moves_of_confluent(work: Workload) -> list[float]:
    """Measure moves with confluent-kafka's consumer."""
    from confluent_kafka import ShareConsumer as Confluent

    consumer = Confluent(
        {
            "bootstrap.servers": work.bootstrap,
            "group.id": work.group,
            "max.poll.records": MOVED_AT_ONCE,
        }
    )
    consumer.subscribe([work.topic])
    taken: list[float] = []
    end = time.monotonic() + work.seconds
    while time.monotonic() < end:
        if len(consumer.poll(1.0)) and None in consumer.commit_sync().values():
            taken.append(time.time())
    consumer.close()
    return taken


async def moves_of_another_language(client: str, work: Workload) -> list[float]:
    """Measure moves with a client that runs in a separate process."""
    numbers = [MOVED_AT_ONCE, round(work.seconds * 1000)]
    command = [*share_command(client), work.bootstrap, work.topic, work.group, "moves", *map(str, numbers)]
    done = await anyio.run_process(command, stderr=None)
    taken: list[float] = json.loads(done.stdout)
    return taken


MOVED_AT_ONCE = 10
"""Number of records in a poll while leaders move. It is small, so the topic does not run out of records."""
