"""Runs `option_cases` with this package and with Spark's connector: ``python -m tests.spark.beside_connector``.

Prints the cases in which the two differ from each other or from the recorded outcome, and fails if there are any. It
then uses DataFrames in several ways, and continues from each format's checkpoint with the other format. Maven downloads
the connector's jars once. PySpark is taken from PYTHONPATH, or from this Python. This is a separate program, since the
jars have to be present when the JVM starts.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

import pyspark
from pyspark.sql import DataFrame, SparkSession

from aiokafka_lead.spark import FORMAT
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.thread import ClusterThread

from .maven import fetched_jars
from .option_cases import CASES
from .option_cluster import prepare
from .option_runs import end, outcome
from .support import fill, numbered

_ROOT = Path(__file__).parents[2]
_CONNECTOR = "kafka"
_VERSION = "4.2.0"


def main() -> None:
    """Compare the two and print the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.beside_connector", description=__doc__)
    parser.add_argument("--only", default="", help="cases whose text contains this")
    parser.add_argument("--errors", action="store_true", help="print why a case is refused")
    given = parser.parse_args()
    with ClusterThread(EmbeddedCluster(brokers=1)) as cluster:
        prepare(cluster)
        spark = _session(connector_jars())
        _say(f"PySpark {pyspark.__version__}, connector {_VERSION}")
        failed = _cases(spark, cluster, given.only, show_errors=given.errors) + _uses(spark, cluster)
        for first, second in ((FORMAT, _CONNECTOR), (_CONNECTOR, FORMAT)):
            failed += _checkpoint(spark, cluster, first, second)
        spark.stop()
    sys.exit(failed > 0)


def _cases(spark: SparkSession, cluster: ClusterThread, only: str, *, show_errors: bool) -> int:
    """Return the number of cases that differ."""
    cases = [case for case in CASES if only in str(case)]
    different = 0
    for case in cases:
        mine, theirs = (outcome(spark, cluster, kind, case) for kind in (FORMAT, _CONNECTOR))
        if show_errors and mine.error + theirs.error:
            _say(f"{case}:\n  {FORMAT}: {mine.error}\n  {_CONNECTOR}: {theirs.error}")
        if not mine.text == theirs.text == case.outcome:
            _say(f"{case}: {FORMAT} {mine.text!r}, {_CONNECTOR} {theirs.text!r}, recorded {case.outcome!r}")
        elif mine.content != theirs.content:
            _say(f"{case}: {FORMAT} {mine.content}, {_CONNECTOR} {theirs.content}")
        else:
            continue
        different += 1
    _say(f"{len(cases) - different} of {len(cases)} the same")
    return different


Use = Callable[[SparkSession, DataFrame, Callable[[], None]], list[int]]


def _united(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    both = frame.where("partition = 0").union(frame.where("partition = 1"))
    return [both.count(), both.select("partition").distinct().count()]


def _filtered(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    return [frame.where("offset >= 5").count(), frame.count(), frame.limit(3).count()]


def _joined(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    return [frame.alias("a").join(frame.alias("b"), ["partition", "offset"]).count()]


def _again(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    before = frame.count()
    more()
    return [before, frame.count(), frame.where("partition = 0").count()]


def _viewed(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    frame.createOrReplaceTempView("viewed")
    before = spark.table("viewed").count()
    more()
    return [before, spark.sql("select * from viewed").count()]


def _cached(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    before = frame.cache().count()
    more()
    return [before, frame.count(), frame.unpersist(blocking=True).count()]


def _joined_by_a_stream(spark: SparkSession, frame: DataFrame, more: Callable[[], None]) -> list[int]:
    found: list[int] = []
    with tempfile.TemporaryDirectory() as folder:
        stream = spark.readStream.format("text").load(folder).selectExpr("cast(value as int) as partition")
        joined = stream.join(frame.select("partition", "offset"), "partition").writeStream
        query = joined.foreachBatch(lambda rows, number: found.append(rows.count())).start()
        for name in ("before", "after"):
            Path(folder, name).write_text("0")
            query.processAllAvailable()
            more()
        query.stop()
    return found


_USES: Mapping[Use, tuple[list[int], list[int]]] = {
    _united: ([20, 2], [20, 2]),
    _filtered: ([10, 20, 3], [10, 20, 3]),
    _joined: ([20], [20]),
    _again: ([20, 20, 10], [20, 30, 20]),
    _viewed: ([20, 20], [20, 30]),
    _cached: ([20, 20, 20], [20, 20, 30]),
    _joined_by_a_stream: ([10, 10], [10, 20]),
}
"""Numbers returned by this package and by the connector. Two partitions have ten records each, then ten more."""


def _uses(spark: SparkSession, cluster: ClusterThread) -> int:
    """Return the number of uses of a DataFrame with another outcome than the recorded one."""
    different = 0
    for number, (use, expected) in enumerate(_USES.items()):
        for kind, recorded in zip((FORMAT, _CONNECTOR), expected, strict=True):
            topic = f"used-{number}-{kind}".replace("_", "-")
            cluster.create_topic(topic, 2)
            for partition in range(2):
                fill(cluster, topic, numbered(10), partition=partition)
            reader = spark.read.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            frame = reader.option("subscribe", topic).load()
            found = use(spark, frame, partial(fill, cluster, topic, numbered(10)))
            if found != recorded:
                different += 1
                _say(f"a DataFrame {use.__name__[1:]}, {kind}: {found}, recorded {recorded}")
    _say(f"{2 * len(_USES) - different} of {2 * len(_USES)} uses of DataFrames as recorded")
    return different


def _checkpoint(spark: SparkSession, cluster: ClusterThread, first: str, second: str) -> bool:
    """Continue a query of one format by the other and back; return True if a record was lost or repeated."""
    topic = f"from-{first}-to-{second}".replace("_", "-")
    cluster.create_topic(topic, 2)
    with tempfile.TemporaryDirectory() as folder:
        for turn, kind in enumerate((first, second, first)):
            for partition in range(2):
                fill(cluster, topic, numbered(10, 20 * turn + 10 * partition), partition=partition)
            reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
            frame = reader.options(subscribe=topic, startingOffsets="earliest").load()
            writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
            end(writer.trigger(availableNow=True).start(f"{folder}/out"))
        found = sorted(int(row.value) for row in spark.read.parquet(f"{folder}/out").select("value").collect())
    same = found == list(range(60))
    _say(f"checkpoints from {first} to {second} and back: {'every record once' if same else found}")
    return not same


def connector_jars() -> Sequence[Path]:
    """Return the connector's jars and their dependencies; Maven downloads them once."""
    return fetched_jars("connector", _VERSION)


def _session(jars: Iterable[Path]) -> SparkSession:
    paths = [str(_ROOT), str(_ROOT / "aiokafka_lead/spark/autoload"), *sys.path]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.jars": ",".join(map(str, jars)),
        "spark.log.level": "OFF",
        "spark.python.authenticate.socketTimeout": "120s",  # for a busy machine
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("option cases")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
