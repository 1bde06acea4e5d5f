"""Run clients for hours, and check that they do not grow.

::

    python -m tests.prove.soak --minutes 120 --loop uvloop

A child process serves an embedded cluster, moves leaders and coordinators, and kills a broker every minute. All kinds
of clients work in this process: a producer, whose sends are also cancelled, transactions, consumers of both group
protocols, a share consumer, a handler, an admin client that deletes old records, and clients that live for a few
seconds. Every minute a garbage collection is forced, and memory, objects, tasks, file descriptors and threads are
counted. The exit status is 0 unless one of these has grown between the second quarter of the run and the last.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import random
import statistics
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

import anyio
import anyio.lowlevel

from aiokafka_lead import AdminClient, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.testing import EmbeddedCluster

PARTITIONS = 6
TOPICS = ("plain", "listed")
FAULT_EVERY_S = 4.0
KEPT_RECORDS = 2_000
"""Records of a partition that the admin client leaves."""
LOOPS: dict[str, dict[str, Any]] = {
    "asyncio": {"backend": "asyncio"},
    "uvloop": {"backend": "asyncio", "backend_options": {"use_uvloop": True}},
    "trio": {"backend": "trio"},
}


async def serve() -> None:
    """Serve a cluster, and cause faults, until standard input is closed."""
    rng = random.Random(0)
    async with EmbeddedCluster(brokers=3, topic_configs={"min.insync.replicas": "1"}) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        cluster.shares.configure("sharers", {"share.auto.offset.reset": "earliest"})
        print(cluster.bootstrap_servers, flush=True)  # noqa: T201
        async with anyio.create_task_group() as group:
            group.start_soon(_faults, cluster, rng)
            await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)
            group.cancel_scope.cancel()


async def _faults(cluster: EmbeddedCluster, rng: random.Random) -> None:
    turn = 0
    while True:
        await anyio.sleep(FAULT_EVERY_S)
        turn += 1
        cluster.move_leader(rng.choice(TOPICS), rng.randrange(PARTITIONS), gap_ms=rng.choice([0, 50]))
        if turn % 10 == 0:
            cluster.move_coordinator(rng.choice(["classic", "consumer", "handled"]))
        if turn % 15 == 0:
            broker = rng.choice(cluster.broker_ids)
            await cluster.kill_broker(broker)
            await anyio.sleep(FAULT_EVERY_S)
            await cluster.start_broker(broker)


class Sample(NamedTuple):
    """Resources of a process."""

    minutes: float
    memory_mib: float
    objects: int
    tasks: int
    files: int
    threads: int


class Soak:
    """Runs the clients, and counts their work."""

    def __init__(self, servers: str, minutes: float) -> None:
        self.servers = servers
        self.done: Counter[str] = Counter()
        self.failed: Counter[str] = Counter()
        self.samples: list[Sample] = []
        self._began = time.monotonic()
        self._ends_at = self._began + minutes * 60
        self._rng = random.Random(0)

    async def run(self) -> None:
        """Let the clients work for the given time."""
        work: list[Callable[[], Awaitable[None]]] = [
            self._write, self._cancel, self._transact, self._share, self._handle, self._administer, self._visit,
        ]  # fmt: skip
        async with anyio.create_task_group() as group:
            for one in work:
                group.start_soon(self._again, one)
            group.start_soon(self._again, self._reading("classic"))
            group.start_soon(self._again, self._reading("consumer"))
            while time.monotonic() < self._ends_at:
                await anyio.sleep(min(60.0, self._ends_at - time.monotonic()))
                self._sample()
            group.cancel_scope.cancel()

    def _sample(self) -> None:
        gc.collect()
        with open("/proc/self/statm") as statm:
            memory = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        files = len(os.listdir("/proc/self/fd"))
        minutes = (time.monotonic() - self._began) / 60
        tasks = len(anyio.get_running_tasks())
        sample = Sample(minutes, memory, len(gc.get_objects()), tasks, files, threading.active_count())
        self.samples.append(sample)
        print(  # noqa: T201
            f"{minutes:5.0f} min  {memory:6.1f} MiB  {sample.objects} objects  {tasks} tasks  {files} files  "
            f"{sample.threads} threads  {dict(self.done)}  {dict(self.failed)}",
            flush=True,
        )

    async def _again(self, work: Callable[[], Awaitable[None]]) -> None:
        """Repeat the work. After a failure, count it and begin again with a new client."""
        while True:
            try:
                await work()
            except Exception as error:
                if not self.failed[type(error).__name__]:
                    traceback.print_exception(error, limit=-3)
                self.failed[type(error).__name__] += 1
                await anyio.sleep(1)

    async def _write(self) -> None:
        async with Producer(self.servers) as producer:
            while True:
                await producer.send_and_wait("plain", b"x" * self._rng.randrange(2_000), key=os.urandom(2))
                self.done["sent"] += 1
                await anyio.sleep(0.1)

    async def _cancel(self) -> None:
        async with Producer(self.servers, linger_ms=0) as producer, Consumer(bootstrap_servers=self.servers) as reader:
            reader.assign([TopicPartition("plain", 0)])
            while True:
                with anyio.move_on_after(self._rng.random() / 200):
                    await producer.send_and_wait("plain", b"cancelled", partition=0)
                with anyio.move_on_after(self._rng.random() / 50):
                    await reader.getmany()
                self.done["cancelled"] += 1
                await anyio.sleep(0.25)

    async def _transact(self) -> None:
        async with Producer(self.servers, transactional_id="soak", compression_type="zstd") as producer:
            while True:
                try:
                    async with producer.transaction() as transaction:
                        for _ in range(5):
                            await transaction.send("listed", b"value")
                        if self._rng.random() < 0.1:
                            raise InterruptedError
                except InterruptedError:
                    self.done["aborted"] += 1
                else:
                    self.done["committed"] += 1
                await anyio.sleep(1)

    def _reading(self, protocol: Literal["classic", "consumer"]) -> Callable[[], Awaitable[None]]:
        async def read() -> None:
            async with Consumer(
                *TOPICS,
                bootstrap_servers=self.servers,
                group_id=protocol,
                group_protocol=protocol,
                isolation_level="read_committed",
                auto_offset_reset="latest",
            ) as consumer:
                while True:
                    found = await consumer.getmany(timeout_ms=1_000)
                    self.done[f"read by {protocol}"] += sum(map(len, found.values()))

        return read

    async def _share(self) -> None:
        async with ShareConsumer("plain", bootstrap_servers=self.servers, group_id="sharers") as consumer:
            async for _ in consumer:
                self.done["shared"] += 1

    async def _handle(self) -> None:
        async def handle(record: Any) -> None:
            if self._rng.random() < 0.01:
                raise InterruptedError
            self.done["handled"] += 1

        async with Consumer(
            "plain", bootstrap_servers=self.servers, group_id="handled", auto_offset_reset="latest"
        ) as consumer:
            await consumer.run(handle, retries=1, retry_backoff_ms=100, dead_letter_topic="dead")

    async def _administer(self) -> None:
        async with AdminClient(self.servers) as admin, Consumer(bootstrap_servers=self.servers) as reader:
            while True:
                await anyio.sleep(20)
                partitions = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
                ends = await reader.end_offsets(partitions)
                old = {tp: end - KEPT_RECORDS for tp, end in ends.items() if end > KEPT_RECORDS}
                if old:
                    await admin.delete_records(old)
                await admin.describe_consumer_groups(["classic", "consumer", "handled"])
                self.done["administered"] += 1

    async def _visit(self) -> None:
        """Start clients that are stopped or cancelled after a moment."""
        while True:
            await anyio.sleep(6)
            with anyio.move_on_after(self._rng.random() * 2):
                async with (
                    Producer(self.servers) as producer,
                    Consumer("plain", bootstrap_servers=self.servers, group_id="visitors") as consumer,
                ):
                    await producer.send_and_wait("plain", b"visit")
                    await consumer.getmany(timeout_ms=500)
            self.done["visits"] += 1

    def grown(self) -> list[str]:
        """Compare the last quarter with the second, and name what has grown."""
        quarter = len(self.samples) // 4
        if not quarter:
            return []
        bounds = {"memory_mib": 4.0, "objects": 2_000, "tasks": 3, "files": 3, "threads": 2}
        grown = []
        for name, bound in bounds.items():
            early, late = (
                statistics.median(getattr(sample, name) for sample in samples)
                for samples in (self.samples[quarter : 2 * quarter], self.samples[-quarter:])
            )
            print(f"{name}: {early:g} in the second quarter, {late:g} in the last")  # noqa: T201
            if late > early + bound:
                grown.append(name)
        return grown


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.prove.soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--loop", choices=LOOPS, default="asyncio")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    logging.getLogger("aiokafka_lead").setLevel(logging.CRITICAL)
    if options.serve:
        anyio.run(serve)
        return 0
    command = [sys.executable, "-m", "tests.prove.soak", "--serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        soak = Soak(cluster.stdout.readline().strip(), options.minutes)
        anyio.run(soak.run, **LOOPS[options.loop])
        cluster.communicate()
    grown = soak.grown()
    print(f"grown: {', '.join(grown)}" if grown else "flat")  # noqa: T201
    return 1 if grown else 0


if __name__ == "__main__":
    sys.exit(main())
