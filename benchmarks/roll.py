"""Brokers are restarted one by one under load: KIP-951's roll simulation in small.

``python -m benchmarks roll [--real] [--shape low|high]``: on the embedded cluster, in a process of its own, or on
three brokers of Apache Kafka that this starts. Shapes: 108 partitions, and 9,000 spread over many producers in one
process. Each with leader hints and without; times are from `send` to the acknowledgement, and to the consumer.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal, NamedTuple

from aiokafka_lead import AdminClient, Consumer, Producer, TopicPartition
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.testing import EmbeddedCluster

from .stats import latency_row, table

BROKERS = 3
SETTLE_S = 1.0
"""Before the first restart, and after each."""
DOWN_S = 1.0
DRAIN_MS = 300
"""A broker that shuts down in order answers for so long after its leaders have moved."""
QUICK_FOLLOWERS = {"replica.fetch.backoff.ms": "20", "replica.fetch.wait.max.ms": "20"}
"""With Kafka's defaults a follower that meets a move waits a second, and every acknowledgement with it."""
VALUE_BYTES = 100
_SENT_AT = struct.Struct(">d")


class Shape(NamedTuple):
    """A topic, and who writes to it."""

    partitions: int
    producers: int
    per_second: float


SHAPES = {"low": Shape(108, 1, 500), "high": Shape(9000, 6, 300)}

Restart = Callable[[int], Awaitable[None]]


# --- clusters --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def embedded() -> AsyncIterator[tuple[str, Restart]]:
    """An embedded cluster in a process of its own, which takes orders line by line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.roll", "--serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def restart(broker: int) -> None:
        stdin.write(b"%d\n" % broker)
        await stdout.readline()

    try:
        yield (await stdout.readline()).decode().strip(), restart
    finally:
        stdin.close()
        await process.wait()


async def serve() -> None:
    """Restart the brokers that standard input names, until it ends."""
    async with EmbeddedCluster(BROKERS) as cluster:
        sys.stdout.write(f"{cluster.bootstrap_servers}\n")
        sys.stdout.flush()
        while line := await asyncio.to_thread(sys.stdin.readline):
            broker = int(line)
            await cluster.stop_broker(broker, drain_ms=DRAIN_MS)
            await asyncio.sleep(DOWN_S)
            await cluster.start_broker(broker)
            sys.stdout.write("done\n")
            sys.stdout.flush()


@asynccontextmanager
async def apache() -> AsyncIterator[tuple[str, Restart]]:
    """Three brokers of the newest Apache Kafka, with controlled shutdowns."""
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=BROKERS, properties=QUICK_FOLLOWERS, heap_mib=768, optimise=True)

    async def restart(broker: int) -> None:
        await asyncio.to_thread(cluster.terminate, broker)
        await asyncio.to_thread(cluster.start_broker, broker)

    try:
        await asyncio.to_thread(cluster.start)
        yield cluster.bootstrap(), restart
    finally:
        await asyncio.to_thread(cluster.stop)


# --- the load --------------------------------------------------------------------------------------------------------


class Load:
    """Producers that write to random partitions, a consumer that reads them all, and what was measured."""

    def __init__(self, topic: str, shape: Shape, producers: list[Producer], consumer: Consumer) -> None:
        self.acknowledged_ms: list[float] = []
        self.consumed_ms: list[float] = []
        self.sent = 0
        self.failed = 0
        self.measuring = False
        self._topic = topic
        self._shape = shape
        self._producers = producers
        self._consumer = consumer
        self._rng = random.Random(1)
        self._waiting: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Event()

    async def write(self) -> None:
        """Send each record at its time, whether earlier ones are acknowledged or not."""
        began, count = time.monotonic(), 0
        while True:
            while count < (time.monotonic() - began) * self._shape.per_second:
                count += 1
                task = asyncio.create_task(self._send(count % len(self._producers)))
                self._waiting.add(task)
                task.add_done_callback(self._waiting.discard)
            await asyncio.sleep(0.001)

    async def _send(self, index: int) -> None:
        """To any of the partitions that are this producer's."""
        partition = self._rng.randrange(index, self._shape.partitions, len(self._producers))
        sent_at, measured = time.monotonic(), self.measuring
        value = _SENT_AT.pack(sent_at if measured else 0.0).ljust(VALUE_BYTES)
        self.sent += measured
        try:
            await self._producers[index].send_and_wait(self._topic, value, partition=partition)
        except Exception:
            self.failed += measured
        else:
            if measured:
                self.acknowledged_ms.append(1000 * (time.monotonic() - sent_at))

    async def read(self) -> None:
        """Read for ever."""
        async for record in self._consumer:
            sent_at = _SENT_AT.unpack_from(record.value or b"")[0]
            if sent_at:
                self.consumed_ms.append(1000 * (time.monotonic() - sent_at))
                self._arrived.set()

    async def finish(self, timeout_s: float = 30) -> None:
        """Wait for what is pending; what takes longer is not counted."""
        try:
            async with asyncio.timeout(timeout_s):
                if self._waiting:
                    await asyncio.wait(self._waiting)
                while len(self.consumed_ms) < self.sent - self.failed:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass


async def roll(bootstrap: str, restart: Restart, shape: Shape, *, hints: bool) -> list[object]:
    """One roll over all brokers; the figures of it."""
    topic = f"roll-{shape.partitions}-{'hints' if hints else 'none'}"
    async with AsyncExitStack() as stack:
        admin = await stack.enter_async_context(AdminClient(bootstrap, request_timeout_ms=120_000))
        await admin.create_topics([NewTopic(topic, shape.partitions, BROKERS)], timeout_ms=120_000)
        policy: Literal["trust", "off"] = "trust" if hints else "off"
        producers = [
            await stack.enter_async_context(Producer(bootstrap, linger_ms=0, leader_hint_policy=policy))
            for _ in range(shape.producers)
        ]
        consumer = await stack.enter_async_context(
            Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", leader_hint_policy=policy)
        )
        consumer.assign([TopicPartition(topic, partition) for partition in range(shape.partitions)])
        for producer in producers:  # knows the topic
            await producer.send_and_wait(topic, _SENT_AT.pack(0.0), partition=0)
        load = Load(topic, shape, producers, consumer)
        tasks = [asyncio.create_task(load.write()), asyncio.create_task(load.read())]
        await asyncio.sleep(3 * SETTLE_S)
        load.measuring = True
        await asyncio.sleep(SETTLE_S)
        for broker in range(1, BROKERS + 1):
            await restart(broker)
            await asyncio.sleep(SETTLE_S)
        load.measuring = False
        tasks[0].cancel()
        await load.finish()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        accepted = sum(producer.metrics().metadata.hints_accepted for producer in producers)
        await admin.delete_topics([topic])
    label = f"{shape.partitions:,} partitions, {shape.producers} producer(s), hints {'on' if hints else 'off'}"
    latencies = [*latency_row(load.acknowledged_ms), *latency_row(load.consumed_ms)]
    unread = load.sent - load.failed - len(load.consumed_ms)
    return [label, *latencies, load.sent, load.failed, unread, accepted]


async def run(options: argparse.Namespace) -> None:
    """Every shape that was asked for, with hints and without."""
    rows: list[list[object]] = []
    async with apache() if options.real else embedded() as (bootstrap, restart):
        for name in options.shape or SHAPES:
            for hints in (True, False):
                rows.append(await roll(bootstrap, restart, SHAPES[name], hints=hints))
    where = "Apache Kafka" if options.real else "the embedded cluster"
    print(
        f"\n{BROKERS} brokers of {where} restarted one by one; ms from send to acknowledgement, and to the consumer\n"
    )
    columns = ["p50", "p99", "p99.9", "max"]
    header = ["", *columns, *(f"read {name}" for name in columns), "records", "failed", "unread", "hints"]
    print(table(header, rows))


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks roll", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="on Apache Kafka (Java 17+ and Maven)")
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="only this one; may be repeated")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    asyncio.run(serve() if options.serve else run(options))


if __name__ == "__main__":
    main(sys.argv[1:])
