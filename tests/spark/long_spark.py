"""Tests exactly-once copies of a topic in a standalone Spark cluster whose processes are killed. Takes many minutes.

    python -m tests.spark.long_spark                                   # 60 kills in 100 micro-batches
    python -m tests.spark.long_spark --kills 8 --batches 16 --seed 7
    python -m tests.spark.long_spark --shapes stream foreach --embedded # without Apache Kafka
    python -m tests.spark.long_spark --connect                         # drivers are Spark Connect servers

The micro-batches and the kills are divided evenly among the kinds of job ("shapes"): a streaming query,
`Trigger.AvailableNow`, numbered writes of ``foreachBatch``, and numbered writes of a batch job. The test randomly kills
the driver (Python and JVM), an executor, a Python process of an executor, or a Python process of the driver, and
decommissions executors. The exit status is 0 only if confluent-kafka reads each row once from every copy, and no
transaction is open at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import confluent_kafka

from aiokafka_lead import AdminClient
from aiokafka_lead.admin import TransactionState

from .standalone import LOCAL_SETTINGS, StandaloneSpark, checkout, command_of, descendants, kill

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SOURCE, PARTITIONS = "orders", 4
SHAPES = ("stream", "now", "foreach", "batch")
KINDS = ("driver", "executor", "decommissioned executor", "worker of an executor", "worker of the driver")


# --- the driver -------------------------------------------------------------------------------------------------------


class Driver:
    """A user's program, which copies the topic, and continues where it was killed.

    ``mode`` is "classic", or "connect" for a program that starts a Spark Connect server, and is its client.
    """

    def __init__(self, mode: str, shape: str, bootstrap: str, master: str, folder: Path, batches: int, rows: int):
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master(master).appName(shape)
        for name, value in {**LOCAL_SETTINGS, "spark.decommission.enabled": "true", "spark.api.mode": mode}.items():
            builder = builder.config(name, value)
        self._spark: SparkSession = builder.getOrCreate()
        self._servers = {"kafka.bootstrap.servers": bootstrap}
        self._sink = {**self._servers, "topic": shape, "exactlyOnce": "true", "transactionalIdPrefix": shape}
        self._folder = folder
        self._batches, self._rows = batches, rows

    def run(self, shape: str) -> None:
        """Copy the rest."""
        run: dict[str, Callable[[], None]] = {
            "stream": self._stream, "now": self._now, "foreach": self._foreach, "batch": self._batch,
        }  # fmt: skip
        run[shape]()
        self._spark.stop()

    def _source(self) -> DataFrame:
        reader = self._spark.readStream.format("aiokafka_lead").options(**self._servers, subscribe=SOURCE)
        return reader.options(startingOffsets="earliest", maxOffsetsPerTrigger=str(self._rows)).load()

    def _stream(self) -> None:
        writer = self._source().select("key", "value").writeStream.format("aiokafka_lead").options(**self._sink)
        query = writer.option("checkpointLocation", str(self._folder)).start()
        query.processAllAvailable()
        query.stop()

    def _now(self) -> None:
        writer = self._source().select("key", "value").writeStream.format("aiokafka_lead").options(**self._sink)
        query = writer.option("checkpointLocation", str(self._folder)).trigger(availableNow=True).start()
        query.awaitTermination()

    def _foreach(self) -> None:
        writer = self._source().writeStream.foreachBatch(partial(_write, self._sink))
        query = writer.option("checkpointLocation", str(self._folder)).trigger(availableNow=True).start()
        query.awaitTermination()

    def _batch(self) -> None:
        commits = self._folder / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        for number in range(len(list(commits.iterdir())), self._batches):
            each = self._rows // PARTITIONS
            reader = self._spark.read.format("aiokafka_lead").options(**self._servers, subscribe=SOURCE)
            rows = reader.options(fromOffset=number * each, untilOffset=(number + 1) * each).load()
            _write(self._sink, rows, number)
            (commits / str(number)).touch()


def _write(sink: dict[str, str], rows: DataFrame, number: int) -> None:
    """Write one micro-batch; with Spark Connect a copy of this runs in the server."""
    writer = rows.select("key", "value").write.format("aiokafka_lead").options(**sink, batchId=number)
    writer.mode("append").save()


# --- kills ------------------------------------------------------------------------------------------------------------


class Job:
    """A driver that is started again whenever it ends too early."""

    def __init__(self, spark: StandaloneSpark, shape: str, bootstrap: str, given: argparse.Namespace, batches: int):
        self.folder = spark.folder / shape
        self._spark = spark
        mode = "connect" if given.connect else "classic"
        self._command = [sys.executable, "-m", __spec__.name, "drive", mode, shape, bootstrap, spark.url]
        self._command += [str(self.folder), str(batches), str(given.rows)]
        self._batches = batches
        self.kills = Counter[str]()
        self.failures = 0
        """Number of drivers that ended by themselves, with an error."""
        self._driver = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        # A Spark Connect server that is under test listens at a free port.
        own = {"PYSPARK_PYTHON": sys.executable, "SPARK_TESTING": "1"}
        environment = {**os.environ, **self._spark.environment, **own}
        with Path(f"{self.folder}.log").open("ab") as log:
            return subprocess.Popen(
                self._command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    @property
    def done(self) -> int:
        """Return the number of finished micro-batches."""
        return sum(path.name.isdigit() for path in (self.folder / "commits").glob("*"))

    def over(self) -> bool:
        """Return True if everything is copied; start a driver again that has ended before."""
        status = self._driver.poll()
        if status is None:
            return False
        if status == 0:
            return True
        self.failures += status > 0
        self._driver = self._start()
        return False

    def kill_something(self, rng: random.Random) -> None:
        """Kill a process of a random kind, if there is one, or let an executor decommission itself."""
        kind = rng.choice(KINDS)
        if kind == "driver":
            self.stop()
            self.kills[kind] += 1
            self._driver = self._start()
            return
        if kind in ("executor", "decommissioned executor"):
            found = self._spark.executors()
        else:
            found = list(self._workers(of_driver=kind == "worker of the driver"))
        if found and kill(rng.choice(found), signal.SIGKILL if kind != "decommissioned executor" else signal.SIGPWR):
            self.kills[kind] += 1

    def _workers(self, *, of_driver: bool) -> Iterator[int]:
        for parent in [self._driver.pid] if of_driver else self._spark.executors():
            # Of the driver's processes the first is the user's program; its JVM starts the others.
            yield from (pid for pid in descendants(parent) if "pyspark.daemon" in command_of(pid))

    def stop(self) -> None:
        """Kill the driver's Python and its JVM."""
        if self._driver.poll() is None:
            os.killpg(self._driver.pid, signal.SIGKILL)
            self._driver.wait()


def copy(
    spark: StandaloneSpark, shape: str, bootstrap: str, given: argparse.Namespace, rng: random.Random
) -> list[str]:
    """Run one job under kills; return the violations."""
    batches, kills = given.batches // len(given.shapes), given.kills // len(given.shapes)
    job = Job(spark, shape, bootstrap, given, batches)
    began = time.monotonic()
    try:
        while not job.over() and (passed_s := time.monotonic() - began) < given.timeout:
            time.sleep(rng.uniform(0.1, given.pause))
            # Spread over the micro-batches, so that a job advances between two kills.
            due = kills * (job.done + 1) / batches
            if job.kills.total() < due and passed_s < given.minutes * 60 / len(given.shapes):
                job.kill_something(rng)
    finally:
        job.stop()
    if given.errors:
        print(Path(f"{job.folder}.log").read_text(errors="replace")[-4000:], file=sys.stderr)
    # Rows are numbered in the order of micro-batches. Time may end before the last one, whose rows may be there.
    expected, possible = (
        Counter({b"%d" % number: 1 for number in range(count * given.rows)}) for count in (job.done, batches)
    )
    found = committed(bootstrap, shape)
    print(
        f"{shape}: {job.done} micro-batches in {time.monotonic() - began:.0f} s; killed {job.kills.total()}: "
        f"{dict(job.kills)}; drivers that failed: {job.failures}; {found.total()} rows, {len(found)} different, of "
        f"{expected.total()} to {possible.total()}",
        flush=True,
    )
    problems = [] if job.done == batches else [f"{shape}: time for {job.done} of {batches} micro-batches only"]
    if (missing := expected - found) or (found - possible):
        problems.append(f"{shape}: {len(missing)} rows missing, {(found - possible).total()} too many")
    return problems


# --- the judge --------------------------------------------------------------------------------------------------------


def fill(bootstrap: str, rows: int) -> None:
    """Write all rows, evenly over the partitions."""
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 10**6})
    for number in range(rows):
        producer.produce(SOURCE, b"%d" % number, partition=number % PARTITIONS)
    if producer.flush(120):
        raise TimeoutError("not every row was written")


def committed(bootstrap: str, topic: str) -> Counter[bytes]:
    """Return the values that confluent-kafka reads of committed transactions."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "judge", "isolation.level": "read_committed"}
    consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True, "enable.auto.commit": False})
    begin = confluent_kafka.OFFSET_BEGINNING
    consumer.assign([confluent_kafka.TopicPartition(topic, number, begin) for number in range(PARTITIONS)])
    found: Counter[bytes] = Counter()
    ended: set[int] = set()
    deadline = time.monotonic() + 120
    while len(ended) < PARTITIONS and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            if (error := message.error()) is None:
                found[message.value() or b""] += 1
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
    consumer.close()
    return found


async def open_transactions(bootstrap: str) -> list[str]:
    """Return the ids of open transactions."""
    async with AdminClient(bootstrap) as admin:
        return sorted(await admin.list_transactions(states=[TransactionState.ONGOING]))


@contextmanager
def kafka(*, embedded: bool) -> Iterator[str]:
    """Provide a cluster with all topics."""
    topics = [SOURCE, *SHAPES]
    if embedded:
        from aiokafka_lead.testing import EmbeddedCluster
        from aiokafka_lead.testing.thread import ClusterThread

        with ClusterThread(EmbeddedCluster(brokers=3)) as running:
            for topic in topics:
                running.create_topic(topic, PARTITIONS)
            yield running.bootstrap_servers
        return
    from tests.kafka.harness import NEWEST, KafkaCluster

    cluster = KafkaCluster(NEWEST, brokers=1)
    try:
        cluster.start()
        for topic in topics:
            cluster.create_topic(topic, partitions=PARTITIONS)
        yield cluster.bootstrap()
    finally:
        cluster.stop()


def main(given: argparse.Namespace) -> list[str]:
    """Run all jobs in succession; return the violations."""
    problems: list[str] = []
    with kafka(embedded=given.embedded) as bootstrap, StandaloneSpark(environment=checkout()) as spark:
        fill(bootstrap, given.rows * (given.batches // len(given.shapes)))
        for shape in given.shapes:
            problems += copy(spark, shape, bootstrap, given, random.Random(f"{given.seed} {shape}"))
        if left := asyncio.run(open_transactions(bootstrap)):
            problems.append(f"open: {', '.join(left)}")
    return problems


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--batches", type=int, default=100, help="of all shapes together")
    parser.add_argument("--kills", type=int, default=60, help="of all shapes together")
    parser.add_argument("--rows", type=int, default=400, help="of a micro-batch")
    parser.add_argument("--pause", type=float, default=4, help="the longest between two kills, in seconds")
    parser.add_argument("--minutes", type=float, default=120, help="no kills after that, the jobs only end")
    parser.add_argument("--timeout", type=float, default=3000, help="of a shape, in seconds")
    parser.add_argument("--connect", action="store_true", help="with Spark Connect")
    parser.add_argument("--embedded", action="store_true", help="on the embedded cluster, not on Apache Kafka")
    parser.add_argument("--errors", action="store_true", help="show what drivers said last")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["drive", mode, shape, bootstrap, master, folder, batches, rows]:
            Driver(mode, shape, bootstrap, master, Path(folder), int(batches), int(rows)).run(shape)
        case _:
            problems = main(parsed())
            print(json.dumps(problems, indent=1) if problems else "each row is in every copy exactly once")
            sys.exit(bool(problems))
