"""Latencies of a client's records, one by one or at a steady rate, and of a bare request as a lower bound."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from functools import partial

from aiokafka_lead._records import BatchBuilder
from aiokafka_lead._wire import encode_request
from aiokafka_lead._wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

from .payload import DIFFERENT, values
from .workload import Workload

WARM_UP = 200
SAMPLES = 1000
"""Maximum number of records per second whose latency is measured, at a steady rate."""
WARMING = 0.2
"""Share of the records in the warm-up, at a steady rate."""
TICK_S = 0.001
VERSION = 9


async def timed(action: Callable[[], Awaitable[None]], count: int) -> list[float]:
    """Return the duration of each call in milliseconds. The first `WARM_UP` calls do not count."""
    for _ in range(WARM_UP):
        await action()
    took = []
    for _ in range(count):
        began = time.perf_counter()
        await action()
        took.append((time.perf_counter() - began) * 1000)
    return took


async def paced(
    took: list[float],
    send: Callable[[bytes, Callable[[], None] | None], Awaitable[None]],
    work: Workload,
    tick: Callable[[], object],
) -> None:
    """Send records at the workload's rate, even if earlier records are not acknowledged.

    Appends the milliseconds from when a record was due to its acknowledgement to ``took``. The last items are appended
    after this function has returned, so the caller must wait for them. ``send`` takes a value, and a callback for its
    acknowledgement. ``tick`` is called a thousand times per second.
    """
    content = values(work.size, DIFFERENT)
    every = max(1, work.rate // SAMPLES)
    began = time.perf_counter() + TICK_S

    def acknowledged(due: float) -> None:
        took.append((time.perf_counter() - due) * 1000)

    number = 0
    while number < work.records:
        now = min(work.records, int((time.perf_counter() - began) * work.rate))
        while number < now:
            watched = number % every == 0 and number >= work.records * WARMING
            due = began + number / work.rate
            await send(content[number % DIFFERENT], partial(acknowledged, due) if watched else None)
            number += 1
        tick()
        await asyncio.sleep(TICK_S)


async def bare(work: Workload) -> list[float]:
    """Measure the round trip of the same prepared request over a blocking socket to the leader of partition 0."""
    from aiokafka_lead import AdminClient

    async with AdminClient(work.bootstrap) as admin:
        leader = (await admin.describe_topics([work.topic]))[work.topic].partitions[0].leader_id
        brokers = {broker.node_id: broker for broker in (await admin.describe_cluster()).brokers}
    broker = brokers[leader]
    builder = BatchBuilder(batch_size=16384)
    builder.append(int(time.time() * 1000), None, b"x" * work.size)
    data = PartitionProduceData(index=0, records=builder.build())
    topic = TopicProduceData(name=work.topic, partition_data=[data])
    request = ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
    frame = b"".join(encode_request(request, VERSION, 1, "bare"))
    with socket.create_connection((broker.host, broker.port)) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        async def exchange() -> None:
            sock.sendall(frame)
            answer = sock.recv(65536)
            while len(answer) < 4 + int.from_bytes(answer[:4], "big"):
                answer += sock.recv(65536)

        return await timed(exchange, work.records)
