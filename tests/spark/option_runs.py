"""`option_cases` as queries of a Spark session."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from aiokafka_lead.testing.thread import ClusterThread

from .option_cases import REFUSED, Case, offsets_read
from .option_cluster import options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class Outcome(NamedTuple):
    """Outcome of a case."""

    text: str
    """In the form of `Case.outcome`."""
    content: tuple[str, ...]
    """The schema and rows that were read, or the records that were written."""
    error: str = ""


def outcome(spark: SparkSession, cluster: ClusterThread, kind: str, case: Case) -> Outcome:
    """Return the outcome of the case with this format."""
    run = {"batch": _batch, "stream": _stream, "write": _write, "write stream": _write_stream}[case.kind]
    if case.rows:
        new_sink(cluster)
    try:
        return run(spark, cluster, kind, case)
    except (PySparkException, Py4JError) as error:
        return Outcome(REFUSED, (), str(error))


def new_sink(cluster: ClusterThread) -> None:
    """Create the topic for writes, empty."""
    if "sink" in cluster.topic_names():
        cluster.delete_topic("sink")
    cluster.create_topic("sink")


def _batch(spark: SparkSession, cluster: ClusterThread, kind: str, case: Case) -> Outcome:
    frame = spark.read.format(kind).options(**options(cluster, case)).load()
    rows = frame.orderBy("topic", "partition", "offset").collect()
    return Outcome(offsets_read(row.asDict() for row in rows), (frame.schema.simpleString(), *map(str, rows)))


def _stream(spark: SparkSession, cluster: ClusterThread, kind: str, case: Case) -> Outcome:
    frame = spark.readStream.format(kind).options(**options(cluster, case)).load()
    end(frame.writeStream.format("memory").queryName("found").trigger(availableNow=True).start())
    rows = spark.table("found").orderBy("topic", "partition", "offset").collect()
    return Outcome(offsets_read(row.asDict() for row in rows), (frame.schema.simpleString(), *map(str, rows)))


def _write(spark: SparkSession, cluster: ClusterThread, kind: str, case: Case) -> Outcome:
    rows = spark.range(1).selectExpr(*_columns(case.rows))
    rows.write.format(kind).options(**options(cluster, case)).mode(case.mode).save()
    return _written(cluster)


def _write_stream(spark: SparkSession, cluster: ClusterThread, kind: str, case: Case) -> Outcome:
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    frame = reader.options(subscribe="orders-more", startingOffsets="earliest").load().selectExpr(*_columns(case.rows))
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = frame.writeStream.format(kind).options(**options(cluster, case), checkpointLocation=checkpoint)
        end(writer.trigger(availableNow=True).start())
    return _written(cluster)


def _columns(rows: str) -> list[str]:
    """Split at commas outside of parentheses and types."""
    found, depth, start = [], 0, 0
    for at, letter in enumerate(rows):
        depth += (letter in "(<") - (letter in ")>")
        if letter == "," and not depth:
            found.append(rows[start:at])
            start = at + 1
    return [*found, rows[start:]]


def end(query: StreamingQuery) -> None:
    """Wait until the query ends by itself; raise its error."""
    try:
        if not query.awaitTermination(240):
            raise TimeoutError(f"the query does not end: {query.status}")
    finally:
        query.stop()


def _written(cluster: ClusterThread) -> Outcome:
    found = tuple(str((record.key, record.value, record.headers)) for record in cluster.records("sink"))
    return Outcome(str(len(found)), found)
