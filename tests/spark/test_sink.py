"""Batch and streaming writes as Spark's Python workers do them, and a few through Spark itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from aiokafka_lead.spark import kafka_options
from aiokafka_lead.spark.sink.task import WriteError
from aiokafka_lead.testing.thread import ClusterThread

from .support import connections_end, fill, numbered, read, source, stored_values, table, write

NewTopic = Callable[..., str]


def stored(cluster: ClusterThread, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in cluster.records(topic, partition)]


@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
def test_values_alone(cluster: ClusterThread, new_topic: NewTopic, stream: bool) -> None:
    topic = new_topic()
    batches = table(value=numbered(10)) + table(value=[None, b"", b"last"]) + table(value=[])
    assert write(cluster, batches, topic=f" {topic} ", stream=stream) == 13
    assert [value for _, value in stored(cluster, topic)] == [*numbered(10), None, b"", b"last"]


def test_strings_and_bytes_are_the_same(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    text = pa.schema([("key", pa.string()), ("value", pa.large_string())])
    write(cluster, table(text, key=["schl\u00fcssel", None, ""], value=["w\u00f6rt", "", None]), topic=topic)
    assert stored(cluster, topic) == [("schl\u00fcssel".encode(), "w\u00f6rt".encode()), (None, b""), (b"", None)]


def test_slices_are_written_as_such(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    whole = table(key=numbered(20), value=[None, *numbered(19)], headers=[None, *([[("a", b"1")]] * 19)])[0]
    assert write(cluster, [whole.slice(0, 3), whole.slice(7, 5)], topic=topic) == 8
    assert [key for key, _ in stored(cluster, topic)] == [*numbered(3), *numbered(5, 7)]
    assert [value for _, value in stored(cluster, topic)] == [None, *numbered(2), *numbered(5, 6)]


def test_rows_choose_topic_and_partition(cluster: ClusterThread, new_topic: NewTopic) -> None:
    one, other = new_topic(3), new_topic(2)
    rows = table(topic=[one, other, one, one, other], partition=[2, 1, 0, 2, 1], value=[b"a", b"b", b"c", b"d", b"e"])
    assert write(cluster, rows) == 5
    assert [stored(cluster, one, p) for p in range(3)] == [[(None, b"c")], [], [(None, b"a"), (None, b"d")]]
    assert [stored(cluster, other, p) for p in range(2)] == [[], [(None, b"b"), (None, b"e")]]


def test_rows_without_a_partition_overtake_no_others(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic, other = new_topic(), new_topic()
    write(cluster, table(value=numbered(7), key=[b"k"] * 7, partition=[None, 0, None, None, 0, 0, None]), topic=topic)
    write(cluster, table(topic=[topic, other] * 3, value=numbered(6, 7), partition=[None, 0, 0, None, None, 0]))
    assert stored_values(cluster, topic) == [*numbered(7), b"7", b"9", b"11"]
    assert stored_values(cluster, other) == [b"8", b"10", b"12"]
    with pytest.raises(WriteError, match="row 3: topic is null"):
        write(cluster, table(topic=[topic, topic, topic, None], value=numbered(4), partition=[0, None, 0, 0]))


def test_the_option_wins_over_the_column(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    write(cluster, table(topic=["elsewhere", None], value=[b"a", b"b"]), topic=topic)
    assert stored(cluster, topic) == [(None, b"a"), (None, b"b")]


def test_keys_choose_the_partition_as_in_java(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    keys = numbered(100)
    write(cluster, table(key=keys, partition=[None] * 99 + [3], value=keys), topic=topic)
    found = [{key for key, _ in stored(cluster, topic, partition)} for partition in range(4)]
    assert set().union(*found) == set(keys)
    assert sum(map(len, found)) == 100
    assert b"99" in found[3]
    # murmur2("21") = -973932308 (Java's UtilsTest): positive 1173551340, which 4 divides.
    assert b"21" in found[0]


def test_headers(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = [[("a", b"1"), ("a", None), ("b", b"")], [], None]
    write(cluster, table(value=numbered(3), headers=headers), topic=topic)
    found = read(cluster, subscribe=topic, includeHeaders="true")
    assert [row["headers"] for row in found] == [
        [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "b", "value": b""}],
        None,
        None,
    ]


def test_large_rows_in_small_memory(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    row = b"x" * 600_000
    assert write(cluster, table(value=[row] * 20), topic=topic, kafka__buffer__memory="2000000") == 20
    assert sum(len(stored(cluster, topic, partition)) for partition in range(2)) == 20


def test_leaders_move_during_a_write(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)

    def moving() -> Any:
        for first in range(0, 5000, 500):
            cluster.move_all_leaders(topic)
            yield from table(partition=[0, 1] * 250, value=numbered(500, first))

    found = source(cluster, topic=topic)
    writer = found.writer(from_arrow_schema(table(partition=[0], value=[b""])[0].schema), overwrite=False)
    assert isinstance(writer, DataSourceArrowWriter)
    writer.write(moving())
    for partition in range(2):
        assert [value for _, value in stored(cluster, topic, partition)] == numbered(5000)[partition::2]


# --- refusals --------------------------------------------------------------------------------------------------------


def _schema(**types: Any) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (_schema(value=StringType()), "a column 'topic' or the option 'topic' is required"),
        (_schema(topic=StringType(), key=StringType()), "a column 'value' is required"),
        (_schema(topic=StringType(), Value=StringType()), "a column 'value' is required"),
        (_schema(topic=BinaryType(), value=StringType()), "column 'topic' must be string, not binary"),
        (_schema(topic=StringType(), value=LongType()), "column 'value' must be string or binary, not bigint"),
        (_schema(topic=StringType(), value=VarcharType(5)), r"must be string or binary, not varchar\(5\)"),
        (_schema(topic=StringType(), value=BinaryType(), key=IntegerType()), "column 'key' must be"),
        (_schema(topic=StringType(), value=BinaryType(), partition=LongType()), "column 'partition' must be int, not"),
        (_schema(topic=StringType(), value=BinaryType(), headers=ArrayType(StringType())), "column 'headers' must be"),
    ],
)
def test_refused_columns(cluster: ClusterThread, schema: StructType, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source(cluster).writer(schema, overwrite=False)
    with pytest.raises(ValueError, match=message):
        source(cluster).streamWriter(schema, overwrite=False)


def test_columns_with_upper_case_letters_are_mentioned(
    cluster: ClusterThread, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's ``select("Key", "value")`` names the column so, and the rows are written without a key."""
    monkeypatch.setattr(kafka_options, "_mentioned", set())
    for _ in range(2):
        source(cluster, topic="t").writer(_schema(Key=BinaryType(), value=BinaryType()), overwrite=False)
    assert caplog.messages == ["column 'Key' is ignored, because only a column named 'key' is written"]


def test_other_columns_are_ignored(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    schema = pa.schema([("offset", pa.int64()), ("value", pa.binary())])
    write(cluster, table(schema, offset=[7], value=[b"v"]), topic=topic)
    assert stored(cluster, topic) == [(None, b"v")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.key.serializer": "x"}, "option 'kafka.key.serializer' is not supported"),
        ({"kafka.value.serializer": "x"}, "'kafka.value.serializer' is not supported"),
        ({"kafka.transactional.id": "x"}, "'kafka.transactional.id' is not supported"),
        ({"kafka.partitioner.class": "x"}, "use a column 'partition'"),
        ({"kafka.interceptor.classes": "x"}, "names Java classes"),
        ({"kafka.acks": "2"}, r"^kafka\.acks must be one of"),
        (
            {"kafka.compression.type": "lz4", "kafka.compression.lz4.level": "x"},
            "'kafka.compression.lz4.level' must be",
        ),
        (
            {"kafka.compression.type": "lz4", "kafka.compression.lz4.level": "99"},
            r"^kafka\.compression\.lz4\.level must",
        ),
        (
            {"kafka.batch.size": "70000", "kafka.batch.size.max": "60000"},
            r"^kafka\.batch\.size .* kafka\.batch\.size\.max",
        ),
        ({"topic": "no such topic"}, "option 'topic' must be .*, not 'no such topic'"),
        ({"topic": " "}, "option 'topic' must not be empty"),
        (
            {"exactlyOnce": "true", "transactionalIdPrefix": "p", "ledgerTopic": "no such topic"},
            "option 'ledgerTopic' must be .*, not 'no such topic'",
        ),
        (
            {"exactlyOnce": "true", "transactionalIdPrefix": "p", "kafka.transaction.timeout.ms": "0"},
            r"^kafka\.transaction\.timeout\.ms must be from 1",
        ),
        ({"kafka.bootstrap.servers": " "}, "must be specified"),
    ],
)
def test_refused_options(cluster: ClusterThread, options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source(cluster, **{"topic": "t", **options}).writer(_schema(value=BinaryType()), overwrite=False)


def test_batches_no_larger_than_the_user_wants_them(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """The sink's own ``kafka.batch.size`` yields to a lower ``kafka.batch.size.max``."""
    topic = new_topic()
    options: dict[str, Any] = {"topic": topic, "kafka.batch.size.max": "50000"}
    assert write(cluster, table(value=[b"v"]), **options) == 1


def test_overwrite_is_refused(cluster: ClusterThread) -> None:
    with pytest.raises(ValueError, match="use mode"):
        source(cluster, topic="t").writer(_schema(value=BinaryType()), overwrite=True)
    # In a stream that is the output mode "complete", which Spark's connector appends, too.
    source(cluster, topic="t").streamWriter(_schema(value=BinaryType()), overwrite=True)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": ["t", None], "value": [b"a", b"b"]}, "row 5: topic is null; set the option 'topic'"),
        ({"topic": ["t", "a b"], "value": [b"a", b"b"]}, "row 5: not written to a b: "),
        ({"topic": ["t", "t"], "partition": [0, 9], "value": [b"a", b"b"]}, "row 5: not written to t-9: ConfigError: "),
        ({"topic": ["t", "t"], "partition": [0, -1], "value": [b"a", b"b"]}, "row 5: not written to t--1: "),
        ({"topic": ["t", "t"], "value": [b"a", b"x" * 2_000_000]}, "row 5: not written to t: MessageTooLargeError: "),
        (
            {"topic": ["t", "t"], "value": [b"a", b"b"], "headers": [[("k", b"")], [(None, b"")]]},
            "row 5: the key of a header is null",
        ),
    ],
)
def test_a_row_that_cannot_be_written_is_named(
    cluster: ClusterThread, columns: dict[str, list[Any]], message: str
) -> None:
    if "t" not in cluster.topic_names():
        cluster.create_topic("t")
    good = table(**{name: [column[0]] * 4 for name, column in columns.items()})
    with pytest.raises(WriteError) as caught:
        write(cluster, good + table(**columns))
    assert str(caught.value).startswith(message)
    assert connections_end(cluster), "a failed task's producer is stopped"


def test_what_the_broker_refuses_is_named(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"max.message.bytes": "1000"})
    rows = table(partition=[0] * 3, value=[b"a", b"b", bytes(range(256)) * 20])
    with pytest.raises(WriteError, match=f"row 2: not written to {topic}-0: MessageTooLargeError"):
        write(cluster, rows, topic=topic)


def test_a_row_that_the_broker_refuses_with_its_batch_is_named(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(configs={"cleanup.policy": "compact"})
    rows = table(partition=[0] * 3, key=[b"k", None, b"k"], value=[b"v"] * 3)
    with pytest.raises(WriteError, match=f"row 1: not written to {topic}-0: InvalidRecordError"):
        write(cluster, rows, topic=topic)


def test_a_producer_serves_many_tasks_and_ends(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    assert connections_end(cluster)
    cluster.requests.clear()
    for number in range(5):
        write(cluster, table(value=numbered(1, number)), topic=topic, stream=True)
    assert [value for _, value in stored(cluster, topic)] == numbered(5)
    assert cluster.requests.count("InitProducerId") < 5
    assert connections_end(cluster)


# --- through Spark ---------------------------------------------------------------------------------------------------


def test_spark_writes_a_batch(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "topic": topic}
    rows = spark.range(1000).selectExpr(
        "cast(id as string) key", "concat('v', id) value", "cast(id % 2 as int) partition"
    )
    rows.write.format("aiokafka_lead").options(**options).mode("append").save()
    for partition in range(2):
        found = stored(cluster, topic, partition)
        assert sorted(found) == sorted((b"%d" % i, b"v%d" % i) for i in range(partition, 1000, 2))
    with pytest.raises(Exception, match="use mode"):
        rows.write.format("aiokafka_lead").options(**options).mode("overwrite").save()


def test_spark_copies_a_topic(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Any) -> None:
    here, there = new_topic(), new_topic()
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}

    def copy() -> None:
        """Copy the topic to its current end, from the end of the last query."""
        reader = spark.readStream.format("aiokafka_lead").options(**servers, subscribe=here)
        rows = reader.option("startingOffsets", "earliest").load()
        writer = rows.writeStream.format("aiokafka_lead").options(**servers, topic=there)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    fill(cluster, here, numbered(50))
    copy()
    fill(cluster, here, numbered(50, 50))
    copy()
    assert [value for _, value in stored(cluster, there)] == numbered(100)


def test_spark_tells_which_row(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    rows = spark.createDataFrame([(new_topic(), "a"), (None, "b")], "topic string, value string").coalesce(1)
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    with pytest.raises(Exception, match="task 0, row 1: topic is null"):
        rows.write.format("aiokafka_lead").options(**options).mode("append").save()
