"""Longest wait of a record when a broker is killed or shut down, with and without leader moves just before.

``python -m benchmarks failover [--runs 20] [--real] [--how kill stop]``: in each run, a producer and a consumer of one
client write and read at a steady rate on a cluster of three brokers. Half of the runs then move leaders. At the end, a
broker is killed, or shut down cleanly. The figures of a run are the longest times from `send` to the acknowledgement,
and to the consumer, for records sent around this moment. The cases take turns in random order. The embedded cluster
runs in a separate process, and notices a killed broker after 100 ms. With Apache Kafka, the table also shows the time
in which the brokers had no leader.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import subprocess
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from aiokafka_lead import AdminClient, Consumer, Producer, TopicPartition
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.testing import EmbeddedCluster

from .leader_move import output_of, program
from .stats import percentile, table

if TYPE_CHECKING:
    from tests.kafka.harness import KafkaCluster

BROKERS = 3
MOVES = 30
MOVES_TAKE_S = 2.0
SETTLE_S = 1.0
"""Seconds of steady load before the first event."""
EARLIER_S = 0.05
"""Seconds before the end of the broker from which records count, because they may still be in flight."""
NOTICED_AFTER_MS = 100.0
"""Milliseconds until the embedded cluster notices that a broker was killed."""
EMBEDDED_WATCH_S = 2.0
"""Seconds for which records are sent after the end of the broker."""
APACHE_WATCH_S = 6.0
PROBER_STARTS_S = 3.0
REAL_PROPERTIES = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "20",
    "replica.fetch.wait.max.ms": "20",
}
"""Settings with which the controller notices a killed broker after 2 s, and followers fetch without long waits."""
SENT_AT = struct.Struct(">d")


class Trouble(Protocol):
    """Cluster, and methods to disturb it."""

    bootstrap: str

    async def move(self, topic: str, partitions: int) -> None:
        """Move leaders, one by one, for `MOVES_TAKE_S`."""

    async def remove(self, broker: int, how: str, topic: str, partitions: int) -> float:
        """Kill or shut down a broker, and wait for its end. Return the milliseconds without a leader."""
        ...

    async def restore(self, broker: int) -> None:
        """Start the broker again."""


# --- clusters --------------------------------------------------------------------------------------------------------


class Embedded:
    """Embedded cluster in a separate process, which reads one command per line."""

    def __init__(self, bootstrap: str, process: asyncio.subprocess.Process) -> None:
        self.bootstrap = bootstrap
        self._process = process

    async def move(self, topic: str, partitions: int) -> None:
        await self._order("move", topic, partitions)

    async def remove(self, broker: int, how: str, topic: str, partitions: int) -> float:
        await self._order(how, broker)
        await asyncio.sleep(EMBEDDED_WATCH_S)
        return NOTICED_AFTER_MS if how == "kill" else 0.0

    async def restore(self, broker: int) -> None:
        await self._order("start", broker)

    async def _order(self, *words: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, words)).encode() + b"\n")
        await self._process.stdout.readline()


@asynccontextmanager
async def embedded() -> AsyncIterator[Trouble]:
    """Run `serve` in a separate process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.failover", "--serve", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Embedded((await process.stdout.readline()).decode().strip(), process)
    finally:
        process.stdin.close()
        await process.wait()


async def serve() -> None:
    """Execute the commands from standard input, until it is closed."""
    async with EmbeddedCluster(BROKERS, failover_delay_ms=NOTICED_AFTER_MS) as cluster:
        print(cluster.bootstrap_servers, flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            match line.split():
                case ["move", topic, partitions]:
                    for number in range(MOVES):
                        cluster.move_leader(topic, number % int(partitions))
                        await asyncio.sleep(MOVES_TAKE_S / MOVES)
                case ["kill", broker]:
                    await cluster.kill_broker(int(broker))
                case ["stop", broker]:
                    await cluster.stop_broker(int(broker))
                case ["start", broker]:
                    await cluster.start_broker(int(broker))
            print("done", flush=True)


class Apache:
    """Three brokers of the newest Apache Kafka."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self.bootstrap: str = cluster.bootstrap()
        self._cluster = cluster

    async def move(self, topic: str, partitions: int) -> None:
        async with AdminClient(self.bootstrap) as admin:
            described = (await admin.describe_topics([topic]))[topic].partitions
            for number in range(MOVES):
                moved = described[number % partitions]
                target = TopicPartition(topic, moved.partition)
                turn = 1 + number // partitions
                replicas = [*moved.replicas[turn % BROKERS :], *moved.replicas[: turn % BROKERS]]
                await admin.alter_partition_reassignments({target: replicas})
                await admin.elect_leaders([target])
                await asyncio.sleep(MOVES_TAKE_S / MOVES / 2)

    async def remove(self, broker: int, how: str, topic: str, partitions: int) -> float:
        prober = await program(
            "prober", "--bootstrap", self.bootstrap, "--topic", topic, "--partitions", partitions,
            "--watched", partitions, "--seconds", PROBER_STARTS_S + APACHE_WATCH_S,
        )  # fmt: skip
        await asyncio.sleep(PROBER_STARTS_S)
        await asyncio.to_thread(self._cluster.kill if how == "kill" else self._cluster.terminate, broker)
        return max((ms for _, ms in await output_of(prober)), default=0.0)

    async def restore(self, broker: int) -> None:
        await asyncio.to_thread(self._cluster.start_broker, broker)


@asynccontextmanager
async def apache() -> AsyncIterator[Trouble]:
    """Start brokers of Apache Kafka."""
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=BROKERS, properties=REAL_PROPERTIES, heap_mib=512, optimise=True)
    try:
        await asyncio.to_thread(cluster.start)
        yield Apache(cluster)
    finally:
        await asyncio.to_thread(cluster.stop)


# --- clients ---------------------------------------------------------------------------------------------------------

Send = Callable[[int, bytes], Awaitable[Awaitable[object]]]
"""Function that sends a value to a partition, and returns an awaitable of the acknowledgement."""


@asynccontextmanager
async def reading(consumer: AsyncIterable[Any], note: Callable[[bytes], None]) -> AsyncIterator[None]:
    """Call ``note`` with the value of each record during the block."""

    async def read() -> None:
        async for record in consumer:
            note(record.value or b"")

    task = asyncio.create_task(read())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def lead(bootstrap: str, topic: str, partitions: int, note: Callable[[bytes], None]) -> AsyncIterator[Send]:
    """Run this client with default options, except for the linger."""
    async with (
        Producer(bootstrap, linger_ms=0) as producer,
        Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition(topic, partition) for partition in range(partitions)])
        async with reading(consumer, note):
            yield lambda partition, value: producer.send(topic, value, partition=partition)


@asynccontextmanager
async def aiokafka(bootstrap: str, topic: str, partitions: int, note: Callable[[bytes], None]) -> AsyncIterator[Send]:
    """Run aiokafka with options that make it as safe as this client's defaults."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
    from aiokafka.structs import TopicPartition as Partition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all", enable_idempotence=True) as producer, consumer:
        consumer.assign([Partition(topic, partition) for partition in range(partitions)])
        async with reading(consumer, note):
            yield lambda partition, value: producer.send(topic, value, partition=partition)


CLIENTS = {"aiokafka_lead": lead, "aiokafka": aiokafka}


# --- a run -----------------------------------------------------------------------------------------------------------


class Figures(NamedTuple):
    """Longest times in a run, in milliseconds."""

    acknowledged: float
    consumed: float
    leaderless: float


class Times:
    """Send times and latencies of a run's records."""

    def __init__(self) -> None:
        self.acknowledged: list[tuple[float, float]] = []
        """Time of each `send` in seconds, and milliseconds until the acknowledgement."""
        self.consumed: list[tuple[float, float]] = []
        self.arrived = asyncio.Event()
        """Set when a record has reached the consumer."""
        self.sent = 0
        self.failed = 0

    def note(self, value: bytes) -> None:
        sent_at = SENT_AT.unpack_from(value)[0]
        self.consumed.append((sent_at, 1000 * (time.monotonic() - sent_at)))
        self.arrived.set()

    async def confirm(self, delivery: Awaitable[object], sent_at: float) -> None:
        try:
            await delivery
        except Exception:
            self.failed += 1
        else:
            self.acknowledged.append((sent_at, 1000 * (time.monotonic() - sent_at)))

    async def write(self, send: Send, partitions: int, rate: float) -> None:
        """Send each record when it is due, even if earlier records are not acknowledged, until cancelled."""
        began, padding = time.monotonic(), bytes(92)
        async with asyncio.TaskGroup() as confirming:
            try:
                while True:
                    while self.sent < (time.monotonic() - began) * rate:
                        sent_at = time.monotonic()
                        delivery = await send(self.sent % partitions, SENT_AT.pack(sent_at) + padding)
                        self.sent += 1
                        confirming.create_task(self.confirm(delivery, sent_at))
                    await asyncio.sleep(0.001)
            except asyncio.CancelledError:
                pass  # the record may still be acknowledged later


def longest(samples: list[tuple[float, float]], since: float) -> float:
    """Return the longest time of the records sent since ``since``."""
    return max((ms for sent_at, ms in samples if sent_at >= since), default=0.0)


async def measure(cluster: Trouble, client: str, how: str, moves: bool, options: argparse.Namespace) -> Figures:
    """Measure one run."""
    topic, broker = f"failover-{uuid.uuid4().hex[:8]}", random.randint(1, BROKERS)
    async with AdminClient(cluster.bootstrap) as admin:
        await admin.create_topics([NewTopic(topic, options.partitions, BROKERS)])
    times = Times()
    async with CLIENTS[client](cluster.bootstrap, topic, options.partitions, times.note) as send:
        for partition in range(options.partitions):  # opens connections, and creates the logs of all partitions
            await (await send(partition, SENT_AT.pack(time.monotonic())))
        writing = asyncio.create_task(times.write(send, options.partitions, options.rate))
        await asyncio.sleep(SETTLE_S)
        if moves:
            await cluster.move(topic, options.partitions)
        else:
            await asyncio.sleep(MOVES_TAKE_S)
        began = time.monotonic() - EARLIER_S
        leaderless_ms = await cluster.remove(broker, how, topic, options.partitions)
        writing.cancel()
        await writing
        async with asyncio.timeout(20):
            while len(times.consumed) < len(times.acknowledged) + options.partitions:
                times.arrived.clear()
                await times.arrived.wait()
    await cluster.restore(broker)
    assert not times.failed, f"{times.failed} records failed"
    return Figures(longest(times.acknowledged, began), longest(times.consumed, began), leaderless_ms)


async def run(options: argparse.Namespace) -> None:
    """Run every case as often as requested, in random order."""
    figures: dict[tuple[str, str, bool], list[Figures]] = defaultdict(list)
    async with apache() if options.real else embedded() as cluster:
        for number in range(options.runs):
            cases = [
                (client, how, moves) for client in options.clients for how in options.how for moves in (False, True)
            ]
            random.shuffle(cases)
            for client, how, moves in cases:
                result = await measure(cluster, client, how, moves, options)
                figures[client, how, moves].append(result)
                print(
                    f"{number + 1:3} {client:14} {how} {'after moves' if moves else 'without':12}",
                    *(f"{ms:7.0f}" for ms in result),
                    flush=True,
                )
    rows: list[list[object]] = []
    for (client, how, moves), results in sorted(figures.items()):
        row: list[object] = [f"{client}, {how}, {'after moves' if moves else 'without moves'}"]
        for values in zip(*results, strict=True):
            ordered = sorted(values)
            row += [percentile(ordered, 0.5), ordered[-1]]
        rows.append(row)
    print(f"\nLongest wait of a record in each of {options.runs} runs, in ms: median and maximum\n")
    print(table(["", "acknowledged", "max", "consumed", "max", "leaderless", "max"], rows))


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks failover", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--real", action="store_true", help="use Apache Kafka (needs Java 17+ and Maven)")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--how", nargs="+", choices=["kill", "stop"], default=["kill", "stop"])
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=list(CLIENTS))
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--rate", type=float, default=300)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    asyncio.run(serve() if options.serve else run(options))


if __name__ == "__main__":
    main(sys.argv[1:])
