"""Send records at a steady rate with one client, and write the latency of each record to standard output as JSON.

``python -m benchmarks.load CLIENT --bootstrap HOST:PORT --topic T --partitions N ...``: CLIENT is ``lead``,
``lead-no-hints``, ``aiokafka`` or ``confluent``. When the load begins, the line ``ready`` is written to standard error.
Records are sent to the partitions in turn, each when it is due, even if earlier records are not acknowledged (an open
loop). The value of a record begins with its number, which is negative during the warm-up. Each client uses its default
batch size.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any

NUMBER = struct.Struct(">q")

Send = Callable[[int | None, bytes, Callable[[bool], None]], Awaitable[None]]
"""Function that sends a value to a partition (None: by key), and calls back with True if it is acknowledged."""


def key_of(partition: int | None, value: bytes) -> bytes | None:
    """Return a key if the client chooses the partition, otherwise None."""
    return None if partition is not None else value[: NUMBER.size]


@asynccontextmanager
async def lead(options: argparse.Namespace, *, leader_hint_policy: Any = "trust", **config: Any) -> AsyncIterator[Send]:
    from aiokafka_lead import Producer

    async with Producer(
        options.bootstrap,
        linger_ms=0,
        retry_backoff_ms=options.retry_backoff_ms,
        leader_hint_policy=leader_hint_policy,
        **config,
    ) as producer:
        waiting: set[asyncio.Task[None]] = set()

        async def send(partition: int | None, value: bytes, acknowledged: Callable[[bool], None]) -> None:
            delivery = await producer.send(options.topic, value, key_of(partition, value), partition=partition)

            async def confirm() -> None:
                try:
                    await delivery
                except Exception:
                    acknowledged(False)
                else:
                    acknowledged(True)

            task = asyncio.create_task(confirm())
            waiting.add(task)
            task.add_done_callback(waiting.discard)

        yield send
        await producer.flush()


@asynccontextmanager
async def aiokafka(options: argparse.Namespace, **config: Any) -> AsyncIterator[Send]:
    from aiokafka import AIOKafkaProducer

    producer = AIOKafkaProducer(
        bootstrap_servers=options.bootstrap,
        acks="all",
        enable_idempotence=True,
        linger_ms=0,
        retry_backoff_ms=options.retry_backoff_ms,
        **config,
    )
    await producer.start()

    async def send(partition: int | None, value: bytes, acknowledged: Callable[[bool], None]) -> None:
        future = await producer.send(options.topic, value, key_of(partition, value), partition=partition)
        future.add_done_callback(lambda done: acknowledged(done.exception() is None))

    try:
        yield send
        await producer.flush()
    finally:
        await producer.stop()


@asynccontextmanager
async def confluent(options: argparse.Namespace, **config: Any) -> AsyncIterator[Send]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": options.bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 0,
            "retry.backoff.ms": options.retry_backoff_ms,
            **config,
        }
    )
    stopped = threading.Event()

    def poll() -> None:
        while not stopped.is_set():
            producer.poll(0.1)

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()

    async def send(partition: int | None, value: bytes, acknowledged: Callable[[bool], None]) -> None:
        producer.produce(
            options.topic,
            value,
            key_of(partition, value),
            partition=-1 if partition is None else partition,
            on_delivery=lambda error, _: acknowledged(error is None),
        )

    try:
        yield send
        await asyncio.to_thread(producer.flush, 60)
    finally:
        stopped.set()
        thread.join()


CLIENTS: dict[str, Callable[..., AbstractAsyncContextManager[Send]]] = {
    "lead": lead,
    "lead-no-hints": partial(lead, leader_hint_policy="off"),
    "aiokafka": aiokafka,
    "confluent": confluent,
}
"""Functions by client. Each takes the options and additional configuration of the client."""


async def run(options: argparse.Namespace) -> dict[str, object]:
    """Warm up, then send at the requested rate. Samples are [number, wall-clock second of the send, milliseconds]."""
    samples: list[tuple[int, float, float]] = []
    failed = 0
    padding = b"x" * (options.size - NUMBER.size)
    async with CLIENTS[options.client](options) as send:
        # The first batches of a new topic are slow, in a real cluster for seconds, and would dominate the result.
        warm = asyncio.Event()
        loop = asyncio.get_running_loop()
        left = options.partitions * 3

        def warmed(_: bool) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                loop.call_soon_threadsafe(warm.set)

        for index in range(options.partitions * 3):
            await send(index % options.partitions, NUMBER.pack(-1) + padding, warmed)
        await warm.wait()
        started = time.monotonic() + options.warm_up_s
        cpu = resource.getrusage(resource.RUSAGE_SELF)
        count = -int(options.warm_up_s * options.rate)
        while (elapsed := time.monotonic() - started) < options.seconds:
            while count < elapsed * options.rate:
                if count == 0:
                    print("ready", file=sys.stderr, flush=True)
                    cpu = resource.getrusage(resource.RUSAGE_SELF)
                wall, sent_at = time.time(), time.monotonic()

                def acknowledged(ok: bool, number: int = count, wall: float = wall, sent_at: float = sent_at) -> None:
                    nonlocal failed
                    failed += not ok
                    if number >= 0:
                        samples.append((number, wall, (time.monotonic() - sent_at) * 1000))

                await send(count % options.partitions, NUMBER.pack(count) + padding, acknowledged)
                count += 1
            await asyncio.sleep(0.0005)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "client": options.client,
        "sent": count,
        "failed": failed,
        "cpu_us_per_record": (used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime) / count * 1e6,
        "samples": samples,
    }


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("client", choices=list(CLIENTS))
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--partitions", type=int, default=100)
    parser.add_argument("--rate", type=float, default=2000)
    parser.add_argument("--size", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warm-up-s", type=float, default=4, help="seconds of the same load that are not measured")
    parser.add_argument("--retry-backoff-ms", type=int, default=100)
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
