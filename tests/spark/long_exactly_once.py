"""Tests the exactly-once sink while drivers and workers are killed at random: minutes, on Apache Kafka.

    python -m tests.spark.long_exactly_once                  # 100 kills in 50 micro-batches, three brokers
    python -m tests.spark.long_exactly_once --kills 20 --seed 7

A driver runs a micro-batch in Spark's steps, with a process for each attempt of a task, and keeps Spark's two logs in a
checkpoint: the contents of a micro-batch, and its completion. Each attempt divides the rows among one to four tasks
again. The exit status is 0 only if readers of committed records see each row once, among them a reader that was present
all the time, and no transaction is open at the end.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
from pyspark.sql.datasource import CaseInsensitiveDict
from pyspark.sql.pandas.types import from_arrow_schema

from aiokafka_lead import AdminClient, Consumer, TopicPartition
from aiokafka_lead.admin import TransactionState
from aiokafka_lead.spark.data_source import KafkaDataSource
from tests.kafka.harness import NEWEST, KafkaCluster
from tests.kafka.support import in_thread

from .exactly_once_support import QUERY, ROWS, in_task

TOPIC = "target"
PARTITIONS = 3
ATTEMPTS = 4
"""Attempts of a task before its micro-batch fails, like ``spark.task.maxFailures``."""


# --- a driver and its workers -----------------------------------------------------------------------------------------


def writer(bootstrap: str) -> Any:
    """Return a writer, as Spark builds one for each step."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": TOPIC, "exactlyOnce": "true"}
    options |= {"transactionalIdPrefix": "long", "kafka.max.block.ms": "20000"}
    source = KafkaDataSource(CaseInsensitiveDict(options))
    return source.streamWriter(from_arrow_schema(ROWS), overwrite=False)


def drive(bootstrap: str, checkpoint: Path, batches: int, rows: int) -> None:
    """Continue from the checkpoint to the last micro-batch."""
    done = checkpoint / "done"
    for batch in range(int(done.read_text()) if done.exists() else 0, batches):
        values = [b"%d" % number for number in range(batch * rows, (batch + 1) * rows)]
        random.shuffle(values)
        tasks = random.randrange(1, 5)
        (checkpoint / "writer").write_bytes(pickle.dumps(writer(bootstrap)))
        messages = run_tasks(checkpoint, batch, [values[task::tasks] for task in range(tasks)])
        try:
            writer(bootstrap).commit(messages, batch)
        except BaseException:
            writer(bootstrap).abort(messages, batch)
            raise
        fresh = checkpoint / "done.new"
        fresh.write_text(str(batch + 1))
        fresh.rename(done)


def run_tasks(checkpoint: Path, batch: int, shares: Sequence[list[bytes]]) -> list[Any]:
    """Return the messages of the tasks, retrying dead ones."""
    running: dict[int, tuple[int, subprocess.Popen[bytes]]] = {}
    found: dict[int, Any] = {}
    for task, values in enumerate(shares):
        (checkpoint / f"rows-{task}").write_bytes(pickle.dumps(values))
        running[task] = 0, start_task(checkpoint, batch, task, 0)
    while running:
        for task, (attempt, process) in list(running.items()):
            if process.poll() is None:
                continue
            del running[task]
            if process.returncode == 0:
                found[task] = pickle.loads((checkpoint / f"message-{task}-{attempt}").read_bytes())
            elif attempt + 1 < ATTEMPTS:
                running[task] = attempt + 1, start_task(checkpoint, batch, task, attempt + 1)
            else:
                raise RuntimeError(f"task {task} failed {ATTEMPTS} times")
        time.sleep(0.01)
    return [found[task] for task in range(len(shares))]


def start_task(checkpoint: Path, batch: int, task: int, attempt: int) -> subprocess.Popen[bytes]:
    """Start a worker."""
    # Not in the driver's group: workers outlive a killed driver for a while, as Spark's do.
    arguments = ["task", str(checkpoint), str(batch), str(task), str(attempt)]
    worker = subprocess.Popen([sys.executable, "-m", __spec__.name, *arguments])
    (checkpoint / f"pid-{task}").write_text(str(worker.pid))
    return worker


def write_task(checkpoint: Path, batch: int, task: int, attempt: int) -> None:
    """Run one task in a worker."""
    rows = pickle.loads((checkpoint / f"rows-{task}").read_bytes())
    own: Any = pickle.loads((checkpoint / "writer").read_bytes())
    table = [
        pa.record_batch([pa.array(rows[at : at + 100], pa.binary())], schema=ROWS) for at in range(0, len(rows), 100)
    ]
    with in_task(task, attempt, QUERY, batch):
        message = own.write(iter(table))
    (checkpoint / f"message-{task}-{attempt}").write_bytes(pickle.dumps(message))


# --- faults -----------------------------------------------------------------------------------------------------------


class Job:
    """A driver that is restarted whenever it ends too early."""

    def __init__(self, bootstrap: str, checkpoint: Path, batches: int, rows: int) -> None:
        self._arguments = ["drive", bootstrap, str(checkpoint), str(batches), str(rows)]
        self._checkpoint = checkpoint
        self._batches = batches
        self._driver = self._start()
        self.kills = Counter[str]()
        self.failures = 0
        """Number of drivers that ended by themselves, with an error."""

    def _start(self) -> subprocess.Popen[bytes]:
        errors = (self._checkpoint / "errors").open("ab")
        return subprocess.Popen([sys.executable, "-m", __spec__.name, *self._arguments], stderr=errors)

    @property
    def batch(self) -> int:
        """Return the number of finished micro-batches."""
        done = self._checkpoint / "done"
        return int(done.read_text()) if done.exists() else 0

    @property
    def over(self) -> bool:
        """Return True if all are finished; restart a driver that has ended before."""
        if self._driver.poll() is None:
            return False
        if self._driver.returncode == 0 and self.batch == self._batches:
            return True
        self.failures += self._driver.returncode > 0
        self._driver = self._start()
        return False

    def kill_something(self, rng: random.Random) -> None:
        """Kill the driver, or a worker."""
        if rng.random() < 0.5:
            self._driver.kill()
            self._driver.wait()
            self.kills["driver"] += 1
            self._driver = self._start()
            return
        pids = [int(path.read_text() or 0) for path in self._checkpoint.glob("pid-*")]
        living = [pid for pid in pids if pid and is_worker(pid)]
        if living:
            os.kill(rng.choice(living), signal.SIGKILL)
            self.kills["worker"] += 1

    def stop(self) -> None:
        """Stop the driver; its workers end by themselves."""
        self._driver.kill()
        self._driver.wait()


def is_worker(pid: int) -> bool:
    """Return True if the process is still one of ours."""
    try:
        return __spec__.name.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


async def read_committed(bootstrap: str, seen: Counter[bytes | None], stop: anyio.Event) -> None:
    """Count the records that readers of committed records see, until the end."""
    consumer = Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest")
    consumer.assign([TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)])
    async with consumer:
        while True:
            ending = stop.is_set()
            records = await consumer.getmany(timeout_ms=2000)
            for some in records.values():
                seen.update(record.value for record in some)
            if ending and not records:
                return


async def main(arguments: argparse.Namespace) -> list[str]:
    """Run it; return the violations."""
    rng = random.Random(arguments.seed)
    total = arguments.batches * arguments.rows
    kafka = KafkaCluster(NEWEST, brokers=arguments.brokers)
    with tempfile.TemporaryDirectory() as folder:
        try:
            await in_thread(kafka.start)
            await in_thread(lambda: kafka.create_topic(TOPIC, partitions=PARTITIONS))
            job = Job(kafka.bootstrap(), Path(folder), arguments.batches, arguments.rows)
            seen: Counter[bytes | None] = Counter()
            stop = anyio.Event()
            began, took_s = time.monotonic(), 0.0
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(read_committed, kafka.bootstrap(), seen, stop)
                    while not job.over and time.monotonic() - began < arguments.timeout:
                        await anyio.sleep(rng.uniform(0.1, arguments.pause))
                        # Spread over the micro-batches.
                        if job.kills.total() < arguments.kills * (job.batch + 1) / arguments.batches:
                            job.kill_something(rng)
                    took_s = time.monotonic() - began
                    stop.set()
            finally:
                job.stop()
            later: Counter[bytes | None] = Counter()
            await read_committed(kafka.bootstrap(), later, stop)
            async with AdminClient(kafka.bootstrap()) as admin:
                left = await admin.list_transactions(states=[TransactionState.ONGOING])
            print(
                f"{job.batch} of {arguments.batches} micro-batches in {took_s:.0f} s; killed: {dict(job.kills)}; "
                f"drivers that failed: {job.failures}; {len(later)} of {total} rows; open transactions: {len(left)}"
            )
            print((Path(folder) / "errors").read_text()[-3000:] if arguments.errors else "", file=sys.stderr)
        finally:
            await in_thread(kafka.stop)
    expected: Counter[bytes | None] = Counter({b"%d" % number: 1 for number in range(total)})
    problems = [
        f"{who} saw {len(expected - found)} rows less, and {(found - expected).total()} too many"
        for who, found in (("the reader from the beginning", seen), ("a later reader", later))
        if found != expected
    ]
    if left:
        problems.append(f"open: {', '.join(sorted(left))}")
    return problems


def parsed() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--rows", type=int, default=400, help="of a micro-batch")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--pause", type=float, default=4, help="the longest between two kills, in seconds")
    parser.add_argument("--brokers", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=3000)
    parser.add_argument("--errors", action="store_true", help="show what drivers said last")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["drive", bootstrap, checkpoint, batches, rows]:
            drive(bootstrap, Path(checkpoint), int(batches), int(rows))
        case ["task", checkpoint, batch, task, attempt]:
            write_task(Path(checkpoint), int(batch), int(task), int(attempt))
        case _:
            found = anyio.run(main, parsed())
            for problem in found:
                print(problem)
            sys.exit(bool(found))
