"""Cost of this package's Spark source and sink, and of Spark's own connector, which take turns in one session.

    python -m benchmarks spark                  # starts a broker; Maven fetches the connector
    python -m benchmarks spark --partitions 6 --only read count --records 500000
    python -m benchmarks spark --bootstrap HOST:9092 --alone    # without the connector

The records of each topic have 100 bytes, and are spread evenly over its partitions. Compare ratios within one run, not
figures of different runs. `tests.spark.beside_connector` compares the results of both formats.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StructField, StructType

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.spark import FORMAT

from .stats import table
from .suite.brokers import kafka

_ROOT = Path(__file__).parents[1]
_CONNECTOR = "kafka"
_SIZE = 100
_TICKS = os.sysconf("SC_CLK_TCK")
_VALUE = StructType([StructField("value", BinaryType())])
_TRIGGER_MS = 200
_ROWS_PER_TRIGGER = 600
_WARM_BATCHES = 10
"""Number of micro-batches at the beginning that do not count."""
_SAMPLE_S = 0.2
"""Interval of samples of memory."""


def main(args: Sequence[str]) -> None:
    """Run the requested parts and print their results."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--bootstrap", help="an Apache Kafka cluster (default: start one broker)")
    parser.add_argument("--alone", action="store_true", help="run without the connector")
    parser.add_argument("--records", type=int, default=2_000_000, help="number of records to read")
    parser.add_argument("--written", type=int, default=200_000, help="number of rows to write")
    parser.add_argument("--partitions", type=int, nargs="+", default=[6, 100, 1000])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batches", type=int, default=50, help="number of micro-batches to measure")
    parser.add_argument("--only", choices=list(_PARTS), nargs="+", default=list(_PARTS), help="run only these parts")
    parser.add_argument("--formats", nargs="+", default=[FORMAT, _CONNECTOR], help=argparse.SUPPRESS)
    given = parser.parse_args(args)
    if given.alone:
        given.formats = [FORMAT]
    with kafka(given.bootstrap, 1) as place:
        given.bootstrap = place.bootstrap
        rows: list[list[Any]] = []
        print(f"load of the machine before: {os.getloadavg()[0]:.1f}", flush=True)
        with _session(given.formats) as spark:
            for name in given.only:
                for count in given.partitions:
                    for row in _PARTS[name](spark, given, count):
                        print(*row, flush=True)
                        rows.append(row)
        print(f"load of the machine after: {os.getloadavg()[0]:.1f}\n")
    print(table(["", "partitions", *given.formats, "ratio", "ratio of CPU"], rows))


@contextmanager
def _session(formats: Sequence[str]) -> Iterator[SparkSession]:
    from tests.spark.beside_connector import connector_jars

    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(map(str, connector_jars())) if _CONNECTOR in formats else "",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    warnings.simplefilter("ignore")
    builder = SparkSession.builder.master("local[2]").appName("aiokafka-lead benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


# --- turns ------------------------------------------------------------------------------------------------------------


class Cost(NamedTuple):
    """Cost of one query."""

    seconds: float
    cpu_s: float
    """Processor time of the JVM and its Python processes in seconds."""


Costs = Mapping[str, Sequence[Cost]]
"""Costs by format, in the order of turns."""


def _costs(formats: Sequence[str], repeat: int, run: Callable[[str], None]) -> Costs:
    """Run the formats in turn. The first turn does not count."""
    found: dict[str, list[Cost]] = {kind: [] for kind in formats}
    for _ in range(repeat + 1):
        for kind in formats:
            began_at, cpu_s = time.perf_counter(), _cpu_s()
            run(kind)
            found[kind].append(Cost(time.perf_counter() - began_at, _cpu_s() - cpu_s))
    return {kind: costs[1:] for kind, costs in found.items()}


def _row(name: str, partitions: int, costs: Costs) -> list[Any]:
    """Return the medians and ranges of the times, and of the ratios in each turn."""
    times = [f"{_spread([cost.seconds for cost in found])} s" for found in costs.values()]
    if len(costs) == 1:
        return [name, partitions, *times, "", ""]
    turns = list(zip(*costs.values(), strict=True))
    ratios = [[mine[at] / theirs[at] for mine, theirs in turns] for at in range(len(Cost._fields))]
    return [name, partitions, *times, *map(_spread, ratios)]


def _spread(values: Sequence[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def _stats() -> dict[int, tuple[int, float]]:
    """Return the parent and the processor time (including ended children) of every process."""
    found: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # the process has ended in the meantime
            found[int(entry.name)] = (int(fields[1]), sum(int(field) for field in fields[11:15]) / _TICKS)
    return found


def _below(root: int, stats: Mapping[int, tuple[int, float]]) -> Iterator[int]:
    below = {root}
    while below := {pid for pid, (parent, _) in stats.items() if parent in below}:
        yield from below


def _cpu_s() -> float:
    stats = _stats()
    return sum(stats[pid][1] for pid in _below(os.getpid(), stats))


# --- topics -----------------------------------------------------------------------------------------------------------


def _topic(given: argparse.Namespace, name: str, partitions: int) -> bool:
    """Create a topic; return False if it exists."""

    async def create() -> bool:
        async with AdminClient(given.bootstrap) as admin:
            if name in await admin.list_topics():
                return False
            await admin.create_topics([NewTopic(name, partitions)])
            return True

    return asyncio.run(create())


def _filled(given: argparse.Namespace, partitions: int) -> str:
    topic = f"benchmark-spark-{given.records}-{partitions}"
    each = -(-given.records // partitions)

    async def fill() -> None:
        values = [b"%0*d" % (_SIZE, number) for number in range(5_000)]
        async with Producer(given.bootstrap, linger_ms=20) as producer:
            for partition in range(partitions):
                for first in range(0, each, len(values)):
                    await producer.send_many(topic, values[: each - first], partition=partition)
            await producer.flush()

    if _topic(given, topic, partitions):
        asyncio.run(fill())
    return topic


# --- parts ------------------------------------------------------------------------------------------------------------


def _reading(
    spark: SparkSession,
    given: argparse.Namespace,
    partitions: int,
    name: str,
    query: Callable[[DataFrame], int],
    schema: StructType | None = None,
) -> Iterator[list[Any]]:
    topic = _filled(given, partitions)
    expected = -(-given.records // partitions) * partitions

    def run(kind: str) -> None:
        reader = spark.read.format(kind).option("kafka.bootstrap.servers", given.bootstrap).option("subscribe", topic)
        # Spark's connector does not accept a schema.
        found = query((reader.schema(schema) if schema is not None and kind == FORMAT else reader).load())
        assert found == expected, f"{found} of {expected} rows"

    yield _row(name, partitions, _costs(given.formats, given.repeat, run))


def _read(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    def query(frame: DataFrame) -> int:
        lengths = [f.sum(f.length(column)) for column in ("value", "topic")]
        sums = [f.sum(column) for column in ("partition", "offset", "timestampType")]
        found = frame.agg(f.count("*"), *lengths, *sums, f.max("timestamp"), f.count("key")).first()
        return 0 if found is None else int(found[0])

    return _reading(spark, given, partitions, "read all columns", query)


def _value(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    def query(frame: DataFrame) -> int:
        found = frame.select("value").agg(f.count("*"), f.sum(f.length("value"))).first()
        return 0 if found is None else int(found[0])

    return _reading(spark, given, partitions, "read the value only", query, _VALUE)


def _count(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    return _reading(spark, given, partitions, "count", DataFrame.count)


def _write(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    topic = f"benchmark-spark-write-{os.getpid()}-{partitions}"
    _topic(given, topic, partitions)
    rows = spark.range(given.written).selectExpr(
        "cast(id as string) as key", f"lpad(cast(id as string), {_SIZE}, '0') as value"
    )

    def run(kind: str) -> None:
        writer = rows.write.format(kind).option("kafka.bootstrap.servers", given.bootstrap).option("topic", topic)
        writer.mode("append").save()

    yield _row("write key and value", partitions, _costs(given.formats, given.repeat, run))


def _trigger(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    """Time micro-batches of a query that is triggered every 200 ms while records arrive."""
    cases: dict[str, dict[str, str]] = {FORMAT: {}, f"{FORMAT}, maxTasks=1": {"maxTasks": "1"}, _CONNECTOR: {}}
    found = {
        name: _micro_batches(spark, given, name.partition(",")[0], partitions, more)
        for name, more in cases.items()
        if name.partition(",")[0] in given.formats
    }
    shown = {
        name: f"{one.seconds * 1000:.0f} ms, {in_time:.0%} in time, CPU {one.cpu_s * 1000:.0f} ms"
        for name, (one, in_time) in found.items()
    }
    for name in [one for one in found if one != _CONNECTOR]:
        title, ratios = f"trigger of {_TRIGGER_MS} ms{name.removeprefix(FORMAT)}", ["", ""]
        if _CONNECTOR in found:
            mine, theirs = found[name][0], found[_CONNECTOR][0]
            ratios = [f"{mine.seconds / theirs.seconds:.2f}", f"{mine.cpu_s / theirs.cpu_s:.2f}"]
        yield [title, partitions, *(shown[one] for one in (name, _CONNECTOR) if one in found), *ratios]


def _micro_batches(
    spark: SparkSession, given: argparse.Namespace, kind: str, partitions: int, more: Mapping[str, str]
) -> tuple[Cost, float]:
    """Return the cost of micro-batches with records, and the share of them that took no longer than the interval.

    The cost is their median duration and mean processor time, which includes the producer that writes the records.
    """
    topic = f"benchmark-spark-stream-{os.getpid()}-{partitions}-{kind}-{len(more)}".replace("_", "-")
    _topic(given, topic, partitions)
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", given.bootstrap)
    frame = reader.options(subscribe=topic, **more).load()
    over = threading.Event()

    async def feed() -> None:
        values = [b"x" * _SIZE] * -(-_ROWS_PER_TRIGGER // partitions)
        async with Producer(given.bootstrap, linger_ms=20) as producer:
            while not over.is_set():
                for partition in range(partitions):
                    await producer.send_many(topic, values, partition=partition)
                await asyncio.sleep(_TRIGGER_MS / 1000)

    def full() -> list[float]:
        return [one.durationMs["triggerExecution"] for one in query.recentProgress if one.numInputRows]

    feeding = threading.Thread(target=lambda: asyncio.run(feed()))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        query = writer.trigger(processingTime=f"{_TRIGGER_MS} milliseconds").start()
        feeding.start()
        try:
            while (warm := len(full())) < _WARM_BATCHES:
                query.awaitTermination(1)  # raises the query's error
            began_cpu_s = _cpu_s()
            while len(full()) < warm + given.batches:
                query.awaitTermination(1)
            cpu_s, durations = _cpu_s() - began_cpu_s, full()[warm:]
        finally:
            over.set()
            feeding.join()
            query.stop()
    in_time = sum(one <= _TRIGGER_MS for one in durations) / len(durations)
    return Cost(median(durations) / 1000, cpu_s / len(durations)), in_time


def _memory(spark: SparkSession, given: argparse.Namespace, partitions: int) -> Iterator[list[Any]]:
    """Measure each format in a separate session, because a JVM keeps the memory of earlier queries."""
    _filled(given, partitions)
    found = [_peak_mib(given, kind, partitions) for kind in given.formats]
    yield ["memory of a read", partitions, *(f"{one:.0f} MiB" for one in found), f"{found[0] / found[-1]:.2f}", ""]


def _peak_mib(given: argparse.Namespace, kind: str, partitions: int) -> float:
    """Return the peak memory in MiB of a session that reads a topic twice, including JVM and Python processes."""
    command = [sys.executable, "-m", "benchmarks", "spark", "--bootstrap", given.bootstrap, "--formats", kind]
    command += ["--only", "read", "--repeat", "1", "--records", str(given.records), "--partitions", str(partitions)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=_ROOT) as child:
        peak = 0
        while child.poll() is None:
            peak = max(peak, sum(map(_proportional_kib, _below(child.pid, _stats()))))
            time.sleep(_SAMPLE_S)
    if child.returncode:
        raise RuntimeError(f"the session of {kind} ended with status {child.returncode}")
    return peak / 1024


def _proportional_kib(pid: int) -> int:
    """Return the memory of a process in KiB, including its share of shared memory; 0 if the process has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


_PARTS: Mapping[str, Callable[[SparkSession, argparse.Namespace, int], Iterator[list[Any]]]] = {
    "read": _read,
    "value": _value,
    "count": _count,
    "write": _write,
    "trigger": _trigger,
    "memory": _memory,
}
