"""The Spark source on a real cluster, beside Spark's own connector in the same session if its jars are given.

    python -m benchmarks spark --bootstrap localhost:9092 --jars DIRECTORY

Reads a topic of 100-byte records (made at the first run), compares rows of awkward records one by one, goes through
options that must be taken or refused, and times micro-batches and writes. Figures of one run are comparable, figures
of two are not. The jars are spark-sql-kafka-0-10, spark-token-provider-kafka-0-10, kafka-clients and commons-pool2.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, StructField, StructType

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.spark import FORMAT

_ROOT = Path(__file__).parents[1]
_CONNECTOR = "kafka"
_SIZE = 100
_TICKS = os.sysconf("SC_CLK_TCK")


def main(args: Sequence[str]) -> None:
    """Run the requested parts and print their results."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks spark", description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--jars", type=Path, help="a directory with the jars of Spark's connector")
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--batches", type=int, default=20, help="micro-batches to time")
    parser.add_argument("--only", choices=["read", "rows", "options", "stream", "write"], help="only this part")
    given = parser.parse_args(args)
    spark = _session(given.jars)
    formats = [FORMAT, *([_CONNECTOR] if given.jars else [])]
    parts: dict[str, Callable[[], None]] = {
        "read": lambda: _read(spark, formats, given.bootstrap, given.partitions, given.records, given.repeat),
        "rows": lambda: _rows(spark, formats, given.bootstrap),
        "options": lambda: _options(spark, formats, given.bootstrap),
        "stream": lambda: _stream(spark, formats, given.bootstrap, given.partitions, given.batches),
        "write": lambda: _write(spark, formats, given.bootstrap, given.partitions, given.repeat),
    }
    try:
        for name, part in parts.items():
            if given.only in (None, name):
                part()
    finally:
        spark.stop()


def _session(jars: Path | None) -> SparkSession:
    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload")]
    os.environ["PYTHONPATH"] = os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(str(path) for path in sorted(jars.glob("*.jar"))) if jars else "",
        "spark.log.level": "OFF",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    warnings.simplefilter("ignore")
    builder = SparkSession.builder.master("local[2]").appName("aiokafka-lead benchmark")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


async def _topic(bootstrap: str, name: str, partitions: int, configs: dict[str, str | None]) -> bool:
    """Create a topic; False if it is there already."""
    async with AdminClient(bootstrap) as admin:
        if name in await admin.list_topics():
            return False
        await admin.create_topics([NewTopic(name, partitions, topic_configs=configs)])
        return True


# --- a large read ----------------------------------------------------------------------------------------------------


async def _fill(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    values = [b"%0*d" % (_SIZE, number) for number in range(5_000)]
    async with Producer(bootstrap, linger_ms=20) as producer:
        for first in range(0, count, len(values)):
            await producer.send_many(topic, values[: count - first], partition=first // len(values) % partitions)
        await producer.flush()


def _read(spark: SparkSession, formats: list[str], bootstrap: str, partitions: int, count: int, repeat: int) -> None:
    topic = f"benchmark-spark-{count}-{partitions}"
    if asyncio.run(_topic(bootstrap, topic, partitions, {})):
        asyncio.run(_fill(bootstrap, topic, partitions, count))
    value_only = StructType([StructField("value", BinaryType())])
    cases: list[tuple[str, str, StructType | None]] = [(name, name, None) for name in formats]
    cases.insert(1, (f"{FORMAT}, value alone", FORMAT, value_only))
    print(f"count and sum of lengths of {count:,} records of {_SIZE} bytes in {partitions} partitions")
    times: dict[str, list[float]] = {name: [] for name, _, _ in cases}
    used: dict[str, list[float]] = {name: [] for name, _, _ in cases}
    for turn in range(repeat + 1):
        for name, kind, schema in cases:
            reader = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
            frame = (reader if schema is None else reader.schema(schema)).load()
            began_at, cpu = time.perf_counter(), _python_cpu_s()
            found = frame.agg(f.count("*"), f.sum(f.length("value"))).first()
            if turn:  # the first one warms up
                times[name].append(time.perf_counter() - began_at)
                used[name].append(_python_cpu_s() - cpu)
            assert found is not None
            assert tuple(found) == (count, count * _SIZE), found
    for name, seconds in times.items():
        print(_speed(name, count, seconds, used[name]))


def _speed(name: str, count: int, seconds: list[float], used: list[float]) -> str:
    return (
        f"  {name:28} best {count / min(seconds):>12,.0f} rows/s   median {count / median(seconds):>12,.0f} rows/s"
        f"   Python CPU {median(used):.2f} s"
    )


def _python_cpu_s() -> float:
    """Processor time of all Python processes below Spark's JVM, children that have ended included."""
    stats: dict[int, tuple[int, float]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(") ")[2].split()
            except OSError:
                continue  # it has ended meanwhile
            stats[int(entry.name)] = (int(fields[1]), sum(int(field) for field in fields[11:15]) / _TICKS)
    jvms = {pid for pid, (parent, _) in stats.items() if parent == os.getpid()}
    total = 0.0
    below = jvms
    while below := {pid for pid, (parent, _) in stats.items() if parent in below}:
        total += sum(stats[pid][1] for pid in below)
    return total


# --- awkward records -------------------------------------------------------------------------------------------------


async def _fill_awkward(bootstrap: str, topic: str) -> None:
    headers: list[list[tuple[str, bytes | None]]] = [[], [("a", b"1"), ("a", b"2")], [("b", None)], [("", b"")]]
    async with Producer(bootstrap) as producer:
        for number in range(400):
            await producer.send(
                topic,
                None if number % 3 == 0 else b"v%d" % number,
                key=None if number % 5 == 0 else b"" if number % 5 == 1 else b"k%d" % number,
                partition=number % 3,
                timestamp_ms=number * 997,
                headers=headers[number % 4],
            )
        await producer.flush()


def _rows(spark: SparkSession, formats: list[str], bootstrap: str) -> None:
    for time_type in ("CreateTime", "LogAppendTime"):
        topic = f"benchmark-spark-rows-{time_type}"
        if asyncio.run(_topic(bootstrap, topic, 3, {"message.timestamp.type": time_type, "retention.ms": "-1"})):
            asyncio.run(_fill_awkward(bootstrap, topic))
        found = []
        for kind in formats:
            options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "includeHeaders": "true"}
            frame = spark.read.format(kind).options(**options).load()
            found.append((frame.schema, frame.orderBy("partition", "offset").collect()))
        same = all(one == found[0] for one in found)
        print(f"rows of {topic}: {len(found[0][1])}, {'the same' if same else 'DIFFERENT'} from {', '.join(formats)}")


# --- options ---------------------------------------------------------------------------------------------------------

_SUBSCRIBE = {"subscribe": "TOPIC"}
_BATCH_OPTIONS: list[dict[str, str]] = [
    {},
    {"subscribe": "TOPIC", "assign": '{"TOPIC":[0]}'},
    {"subscribe": " , "},
    {"subscribePattern": " "},
    {"subscribePattern": "ark-opti[n-p]ns"},
    {"assign": "TOPIC"},
    {"assign": '{"TOPIC":[0,9]}'},
    {"assign": '{"TOPIC":0}'},
    *(
        _SUBSCRIBE | more
        for more in (
            {},
            {"subscribe": "no-such-topic-at-all", "fetchOffset.numRetries": "1"},
            {"startingOffsets": "latest"},
            {"startingOffsets": "EARLIEST"},
            {"startingOffsets": "first"},
            {"startingOffsets": '{"TOPIC":{"0":1,"1":-2,"2":-2}}'},
            {"startingOffsets": '{"TOPIC":{"0":-1,"1":-2,"2":-2}}'},
            {"startingOffsets": '{"TOPIC":{"0":1}}'},
            {"endingOffsets": "earliest"},
            {"endingOffsets": '{"TOPIC":{"0":-2,"1":-1,"2":-1}}'},
            {"startingTimestamp": "1000"},
            {"startingTimestamp": "now"},
            {"startingTimestamp": "99999999999999"},
            {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
            {"startingTimestamp": "1000", "startingOffsetsByTimestampStrategy": "never"},
            {"endingTimestamp": "1000"},
            {"startingOffsetsByTimestamp": '{"TOPIC":{"0":1,"1":1,"2":1}}'},
            {"startingOffsetsByTimestamp": '{"TOPIC":{"0":1}}'},
            {"minPartitions": "0"},
            {"minPartitions": "7"},
            {"minPartitions": "x"},
            {"maxRecordsPerPartition": "0"},
            {"maxRecordsPerPartition": "10"},
            {"failOnDataLoss": "maybe"},
            {"includeHeaders": "perhaps"},
            {"groupIdPrefix": "mine"},
            {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
            {"kafka.group.id": "mine"},
            {"kafka.auto.offset.reset": "earliest"},
            {"kafka.key.deserializer": "x"},
            {"kafka.value.deserializer": "x"},
            {"kafka.enable.auto.commit": "true"},
            {"kafka.interceptor.classes": "x"},
            {"kafka.isolation.level": "read_committed"},
            {"kafka.isolation.level": "whatever"},
            {"kafka.no.such.setting": "1"},
            {"kafka.fetch.max.bytes": "x"},
        )
    ),
]
_STREAM_OPTIONS: list[dict[str, str]] = [
    _SUBSCRIBE | more
    for more in (
        {},
        {"startingOffsets": "latest"},
        {"endingOffsets": "latest"},
        {"endingOffsetsByTimestamp": "{}"},
        {"endingTimestamp": "1"},
        {"maxOffsetsPerTrigger": "x"},
        {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"},
        {"maxTriggerDelay": "soon"},
        {"maxTriggerDelay": "2m", "minOffsetsPerTrigger": "1"},
    )
]


def _options(spark: SparkSession, formats: list[str], bootstrap: str) -> None:
    topic = "benchmark-spark-options"
    if asyncio.run(_topic(bootstrap, topic, 3, {"retention.ms": "-1"})):
        asyncio.run(_fill_awkward(bootstrap, topic))
    cases = [("batch", case) for case in _BATCH_OPTIONS] + [("stream", case) for case in _STREAM_OPTIONS]
    print(f"{len(cases)} sets of options: taken or refused, and rows where taken")
    different = 0
    for mode, case in cases:
        options = {
            name: text.replace("TOPI", topic[:-1]).replace(topic[:-1] + "C", topic) for name, text in case.items()
        }
        outcomes = []
        for kind in formats:
            given = {"kafka.bootstrap.servers": bootstrap, "fetchOffset.retryIntervalMs": "1", **options}
            run = _count_batch if mode == "batch" else _count_stream
            try:
                outcomes.append(f"{run(spark, kind, given)} rows")
            except (PySparkException, Py4JError):
                outcomes.append("refused")
        if len(set(outcomes)) > 1:
            different += 1
            print(f"  {mode:7} {case}: {dict(zip(formats, outcomes, strict=True))}")
    print(f"  the same from {', '.join(formats)} but for {different}")


def _count_batch(spark: SparkSession, kind: str, options: dict[str, str]) -> int:
    return spark.read.format(kind).options(**options).load().count()


def _count_stream(spark: SparkSession, kind: str, options: dict[str, str]) -> int:
    frame = spark.readStream.format(kind).options(**{"startingOffsets": "earliest", **options}).load()
    query = frame.writeStream.format("noop").trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
        return sum(progress.numInputRows for progress in query.recentProgress)
    finally:
        query.stop()


# --- micro-batches ---------------------------------------------------------------------------------------------------


def _stream(spark: SparkSession, formats: list[str], bootstrap: str, partitions: int, batches: int) -> None:
    topic = f"benchmark-spark-stream-{os.getpid()}"
    asyncio.run(_topic(bootstrap, topic, partitions, {}))
    rows = 600 // partitions * partitions or partitions
    print(f"{batches} micro-batches of {rows} rows in {partitions} partitions: median milliseconds")
    cases: list[tuple[str, str, dict[str, str]]] = [(kind, kind, {}) for kind in formats]
    cases.insert(1, (f"{FORMAT}, maxTasks=1", FORMAT, {"maxTasks": "1"}))
    for name, kind, options in cases:
        frame = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
        frame = frame.options(**options)
        with tempfile.TemporaryDirectory() as checkpoint:
            writer = frame.load().writeStream.format("noop").option("checkpointLocation", checkpoint)
            query = writer.trigger(processingTime="0 seconds").start()
            try:
                query.processAllAvailable()
                for _ in range(batches + 3):
                    asyncio.run(_send(bootstrap, topic, partitions, rows))
                    query.processAllAvailable()
                full: list[dict[str, Any]] = [
                    progress.durationMs for progress in query.recentProgress if progress.numInputRows == rows
                ][3:]
            finally:
                query.stop()
        parts = ("triggerExecution", "latestOffset", "addBatch", "queryPlanning", "walCommit", "commitOffsets")
        figures = "   ".join(f"{part} {median(one.get(part, 0) for one in full):.0f}" for part in parts)
        print(f"  {name:25} {len(full)} batches: {figures}")


async def _send(bootstrap: str, topic: str, partitions: int, count: int) -> None:
    """Send all rows at once, so that one micro-batch gets them."""
    async with Producer(bootstrap, linger_ms=50) as producer:
        for partition in range(partitions):
            await producer.send_many(topic, [b"x" * _SIZE] * (count // partitions), partition=partition)
        await producer.flush()


# --- writes ----------------------------------------------------------------------------------------------------------

_WRITTEN = 200_000


def _write(spark: SparkSession, formats: list[str], bootstrap: str, partitions: int, repeat: int) -> None:
    topic = f"benchmark-spark-write-{os.getpid()}"
    asyncio.run(_topic(bootstrap, topic, partitions, {}))
    rows = spark.range(_WRITTEN).selectExpr(
        "cast(id as string) as key", f"lpad(cast(id as string), {_SIZE}, '0') as value"
    )
    rows.write.format("noop").mode("append").save()
    print(f"writes of {_WRITTEN:,} rows of {_SIZE} bytes")
    for kind in formats:
        for columns in (["value"], ["key", "value"]):
            name = f"{kind}, {' and '.join(columns)}"
            times, used = [], []
            for _ in range(repeat + 1):
                began_at, cpu = time.perf_counter(), _python_cpu_s()
                (
                    rows.select(*columns)
                    .write.format(kind)
                    .option("kafka.bootstrap.servers", bootstrap)
                    .option("topic", topic)
                    .mode("append")
                    .save()
                )
                times.append(time.perf_counter() - began_at)
                used.append(_python_cpu_s() - cpu)
            first = f"   first {times[0]:.2f} s, {used[0]:.2f} s"
            print(_speed(name, _WRITTEN, times[1:], used[1:]) + first)
