"""The source within Spark: found automatically, read by queries, stopped without leftovers.

All tests share one JVM; tests without one are in other files.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

from aiokafka_lead import TopicPartition
from aiokafka_lead.spark import FORMAT, lag, refresh, register
from aiokafka_lead.testing.thread import ClusterThread

from .support import connections_end, fill, numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NewTopic = Callable[..., str]


def _batch(spark: SparkSession, cluster: ClusterThread, **options: str) -> DataFrame:
    reader = spark.read.format(FORMAT).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def _stream(spark: SparkSession, cluster: ClusterThread, **options: str) -> DataFrame:
    reader = spark.readStream.format(FORMAT).option("kafka.bootstrap.servers", cluster.bootstrap_servers)
    return reader.options(**options).load()


def _values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_batch_queries(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(1000), headers=[[("a", b"1"), ("a", None)]] + [[]] * 999)
    fill(cluster, topic, numbered(1000, 1000), partition=1)
    frame = _batch(spark, cluster, subscribe=topic, includeHeaders="true", minPartitions="3")
    assert frame.schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    total = frame.agg(f.count("*"), f.sum(f.length("value")), f.count("headers")).first()
    assert total is not None
    assert tuple(total) == (2000, sum(map(len, numbered(2000))), 1)
    assert _values(_batch(spark, cluster, subscribePattern="no such topic")) == []


def test_a_dataframe_in_several_places_of_a_query(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    for partition in range(2):
        fill(cluster, topic, numbered(10, 10 * partition), partition=partition)
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = _batch(spark, cluster, subscribe=topic)
        assert _values(frame.where("partition = 1 and offset < 3")) == [10, 11, 12]
        assert frame.count() == 20, "a filter is forgotten with its query"
        assert _values(frame.where("partition = 0").union(frame.where("partition = 1"))) == [*range(20)]
        assert frame.alias("a").join(frame.alias("b"), ["partition", "offset"]).count() == 20
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_a_dataframe_reads_what_was_there_until_it_is_refreshed(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(10))
    frame = _batch(spark, cluster, subscribe=topic)
    part = frame.where("offset >= 5")
    frame.createOrReplaceTempView("frozen")
    servers = f"'kafka.bootstrap.servers' = '{cluster.bootstrap_servers}'"
    columns = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema)
    spark.sql(f"create table kafka ({columns}) using aiokafka_lead")
    spark.sql(f"create temporary view fresh as select * from kafka with ({servers}, 'subscribe' = '{topic}')")

    def counts() -> list[int]:
        views = [spark.sql(f"select * from {name}") for name in ("frozen", "fresh")]
        return [found.count() for found in (frame, part, *views, frame.unionAll(part))]

    try:
        assert counts() == [10, 5, 10, 10, 15]
        fill(cluster, topic, numbered(10, 10))
        assert counts() == [10, 5, 10, 20, 15]
        assert len(refresh(part).collect()) == 15
        assert counts() == [20, 15, 20, 20, 35]
        fill(cluster, topic, numbered(10, 20))
        inner = spark.sql("select 1 as one where 29 in (select offset from frozen where exists (select * from frozen))")
        assert (inner.count(), refresh(inner).count(), frame.count()) == (0, 1, 30)
        read = spark.read.format("AIOKafka_Lead").option("kafka.bootstrap.servers", cluster.bootstrap_servers)
        other = read.option("subscribe", topic).load()
        assert other.count() == 30
        fill(cluster, topic, numbered(10, 30))
        assert (other.count(), refresh(other).count()) == (30, 40)
    finally:
        spark.sql("drop table kafka")


def test_the_static_side_of_a_join_is_refreshed_between_micro_batches(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic
) -> None:
    topic, changes = new_topic(), new_topic()
    fill(cluster, topic, numbered(10))
    static = _batch(spark, cluster, subscribe=topic).select("partition", "offset")
    stream = _stream(spark, cluster, subscribe=changes, startingOffsets="earliest").select("partition", "value")
    found: list[int] = []
    joined = stream.join(static, "partition").writeStream
    query = joined.foreachBatch(lambda rows, number: found.append(rows.count())).start()
    try:
        query.processAllAvailable()
        fill(cluster, changes, [b"1"])
        query.processAllAvailable()
        fill(cluster, topic, numbered(10, 10))
        refresh(static)
        fill(cluster, changes, [b"2"])
        query.processAllAvailable()
    finally:
        query.stop()
    assert [count for count in found if count] == [10, 20]


def test_only_a_dataframe_of_a_classic_session_is_refreshed() -> None:
    with pytest.raises(RuntimeError, match=r"cannot refresh a DataFrame in this session; call load\(\) again"):
        refresh(object())  # type: ignore[arg-type]


SECRET = "MARKED"


def _shown(spark: SparkSession) -> list[str]:
    """Return the plans of this application's SQL page, as the UI's REST interface answers."""
    applications = f"{spark.sparkContext.uiWebUrl}/api/v1/applications/{spark.sparkContext.applicationId}"
    with urllib.request.urlopen(f"{applications}/sql?length=10000", timeout=60) as answer:
        return [query["planDescription"] for query in json.load(answer)]


def test_plans_and_ui_show_nothing_private(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The options that the README names. This cluster does not need them, but Spark prints them.

    Spark hides values that mention a secret, and would hide this test's name and file if they did.
    """
    topic = new_topic()
    fill(cluster, topic, numbered(3))
    hidden = tmp_path / "orders.properties"
    hidden.write_text(f"key={SECRET}")
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.sasl.jaas.config": f'PlainLoginModule required username="a" password="{SECRET}";',
        "kafka.ssl.key.password": SECRET,
        "kafka.config.providers": "file",
        "kafka.config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "kafka.ssl.keystore.key": f"${{file:{hidden}:key}}",
    }
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    try:
        frame = spark.read.format(FORMAT).options(**options, subscribe=topic).load()
        assert len(frame.collect()) == 3
        frame.select("value").write.format(FORMAT).options(**options, topic=topic).mode("append").save()
    finally:
        spark.conf.unset("spark.sql.ui.explainMode")
    plan_of: Any = frame
    shown = [*_shown(spark), plan_of._jdf.queryExecution().toString()]
    assert any(f"topic={topic}" in plan and str(hidden) in plan for plan in shown), shown
    assert not [plan for plan in shown if SECRET in plan]


@pytest.mark.parametrize("mode", ["formatted", "extended"])
def test_a_registered_session_hides_private_keys(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, mode: str
) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(3))
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "Kafka.SSL.keystore.key": SECRET,
        "kafka.sasl.oauthbearer.assertion.private.key.passphrase": SECRET,
    }
    session = spark.newSession()
    session.conf.set("spark.sql.ui.explainMode", mode)
    session.conf.set("spark.sql.redaction.options.regex", "^anything$")
    register(session)
    frame = session.read.format(FORMAT).options(**options, subscribe=topic).load()
    frame.createOrReplaceTempView("by_frame")
    proxied = {**options, "kafka.proxy.url": f"socks5://user:{SECRET}@proxy:1080", "subscribe": topic}
    session.read.format(FORMAT).options(**proxied).load().createOrReplaceTempView("by_proxy")
    given = ", ".join(f"'{name}' '{text}'" for name, text in {**options, "subscribe": topic}.items())
    session.sql(f"create temporary view by_sql using {FORMAT} options ({given})")
    session.sql("create temporary view by_view as select * from by_sql")
    assert session.table("by_view").unionAll(session.table("by_frame")).count() == 6
    writer = frame.select("value").write.format(FORMAT).options(**options, topic=topic).mode("append")
    writer.save()
    with pytest.raises(PySparkException, match=r"PLAINTEXT does not use kafka\.ssl\.keydata"):
        writer.option("kafka.ssl.keydata", SECRET).save()
    shown = [plan for plan in _shown(spark) if topic in plan]
    assert any("Kafka.SSL.keystore.key=****" in plan for plan in shown), shown
    assert not [plan for plan in shown if SECRET in plan]


def test_options_are_checked_at_load(spark: SparkSession, cluster: ClusterThread) -> None:
    for frame in (_batch, _stream):
        with pytest.raises(
            PySparkException, match=r"option 'kafka\.request\.timeout\.ms' must be a number, not 'soon'"
        ):
            frame(spark, cluster, subscribe="t", **{"kafka.request.timeout.ms": "soon"})
        with pytest.raises(PySparkException, match="'startingOffsets': a partition of topic 't' must be from 0"):
            frame(spark, cluster, subscribe="t", startingOffsets='{"t":{"-1":5}}')


def test_errors_are_told(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    with pytest.raises(PySparkException, match="endingOffsets can't be earliest"):
        _batch(spark, cluster, subscribe="t", endingOffsets="earliest").collect()
    topic = new_topic()
    for first in range(0, 20, 5):
        fill(cluster, topic, numbered(5, first))
    cluster.delete_records(topic, 0, 10)
    with pytest.raises(PySparkException, match=r"offsets 3 to 9 of .* are gone because of retention or deletion"):
        _batch(spark, cluster, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":3}}}}').collect()


class Counted:
    """A query into Parquet files, started and restarted from one checkpoint."""

    def __init__(self, spark: SparkSession, path: Path) -> None:
        self._spark = spark
        self._path = path

    def start(self, frame: DataFrame, **trigger: Any) -> StreamingQuery:
        writer = frame.writeStream.format("parquet").option("checkpointLocation", str(self._path / "checkpoint"))
        return writer.trigger(**trigger).start(str(self._path / "out"))

    def values(self) -> list[int]:
        return _values(self._spark.read.parquet(str(self._path / "out")))


def test_available_now_again_and_again(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    counted = Counted(spark, tmp_path)
    for run in range(2):
        fill(cluster, topic, numbered(300, 300 * run), partition=run)
        frame = _stream(spark, cluster, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="200")
        query = counted.start(frame, availableNow=True)
        assert query.awaitTermination(120)
        found = [progress for progress in query.recentProgress if progress.numInputRows]
        assert [progress.numInputRows for progress in found] == [200, 100]
        assert [sum(lag(progress).values()) for progress in found] == [100, 0]
        assert counted.values() == list(range(300 * (run + 1)))


def test_small_micro_batches_are_read_where_they_are_planned(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    """The rows are the same as from Python tasks, which ``headers`` need."""
    topic = new_topic(3)
    for partition in range(3):
        values = [None, *numbered(39, 40 * partition)]
        fill(cluster, topic, values, partition=partition, keys=values[::-1])
    options = {"subscribe": topic, "maxTasks": "1", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}
    names = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]

    def rows(headers: str) -> list[Any]:
        found: list[Any] = []
        frame = _stream(spark, cluster, **options, includeHeaders=headers).select(*names)
        writer = frame.writeStream.foreachBatch(lambda part, number: found.extend(part.collect()))
        query = writer.option("checkpointLocation", str(tmp_path / headers)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        assert query.lastProgress is not None
        assert lag(query.lastProgress) == {TopicPartition(topic, partition): 0 for partition in range(3)}
        return sorted(found, key=lambda row: (row.partition, row.offset))

    found = rows("false")
    assert len(found) == 120
    assert found == rows("true")


def test_an_idle_stream_does_nothing_and_leaves_nothing_when_stopped(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    counted = Counted(spark, tmp_path)
    query = counted.start(_stream(spark, cluster, subscribe=topic), processingTime="0 seconds")
    try:
        query.processAllAvailable()
        first = query.lastProgress
        for turn in range(2):
            fill(cluster, topic, numbered(100, 100 * turn), partition=turn)
            query.processAllAvailable()
        asked = cluster.requests.count("ListOffsets")
        cluster.wait_for_requests("ListOffsets", count=asked + 50, timeout_ms=60_000)
        last = query.lastProgress
        assert first is not None
        assert last is not None
        assert last.batchId == first.batchId + 2, "no micro-batch without records"
        assert counted.values() == list(range(200))
    finally:
        query.stop()
    assert connections_end(cluster, 5)


def test_a_first_batch_that_failed_is_repeated_from_where_it_began(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    for first in range(0, 100, 10):
        fill(cluster, topic, numbered(10, first))
    found: list[int] = []

    def run(take: Callable[[DataFrame], None], **options: str) -> None:
        frame = _stream(spark, cluster, subscribe=topic, startingOffsets="earliest", **options)
        writer = frame.writeStream.foreachBatch(lambda rows, number: take(rows))
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def fail(rows: DataFrame) -> None:
        raise RuntimeError("the batch failed")

    def keep(rows: DataFrame) -> None:
        found.extend(_values(rows))

    with pytest.raises(PySparkException, match="the batch failed"):
        run(fail)
    cluster.delete_records(topic, 0, 60)
    with pytest.raises(PySparkException, match=r"offsets 0 to 59 of .* are gone"):
        run(keep)
    assert found == []
    run(keep, failOnDataLoss="false")
    assert found == list(range(60, 100))


def test_a_failed_query_leaves_no_connection(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    frame = _stream(spark, cluster, subscribe=topic, startingOffsets="earliest")
    query = Counted(spark, tmp_path).start(frame.selectExpr("assert_true(value is null)"), processingTime="0 seconds")
    with pytest.raises(PySparkException):
        query.awaitTermination(120)
    assert connections_end(cluster, 5)


def test_register_by_hand(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    register(spark)
    topic = new_topic()
    fill(cluster, topic, [b"7"])
    assert _values(_batch(spark, cluster, subscribe=topic)) == [7]
