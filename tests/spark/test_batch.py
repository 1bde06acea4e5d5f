"""Batch queries as Spark's Python workers run them, against brokers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType

from aiokafka_lead import Producer
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.source.progress import DataLossError
from aiokafka_lead.testing import RequestRecord
from aiokafka_lead.testing.thread import ClusterThread

from .support import batch_reader, batches, connections_end, fill, numbered, read, rows, source, transactions, values

NewTopic = Callable[..., str]


def test_all_columns(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)

    async def write() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            headers = [("a", b"1"), ("a", None), ("", b"")]
            await producer.send_and_wait(topic, b"v", key=b"k", partition=1, timestamp_ms=1_500, headers=headers)
            await producer.send_and_wait(topic, None, key=None, partition=1, timestamp_ms=2_000)

    asyncio.run(write())
    with_headers, without = read(cluster, subscribe=topic, includeHeaders="true")
    assert with_headers == {
        "key": b"k",
        "value": b"v",
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "timestamp": datetime.fromtimestamp(1.5, UTC),
        "timestampType": 0,
        "headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": None}, {"key": "", "value": b""}],
    }
    assert (without["key"], without["value"], without["headers"]) == (None, None, None)


def test_times_of_the_broker(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(1, {"message.timestamp.type": "LogAppendTime"})
    fill(cluster, topic, [b"v"], timestamps_ms=[5])
    (row,) = read(cluster, subscribe=topic)
    assert row["timestampType"] == 1
    assert row["timestamp"].year > 2000


def test_a_time_that_spark_does_not_have(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2, {"message.timestamp.after.max.ms": str(2**63 - 1)})
    nanoseconds = 1_700_000_000_000_000_000
    fill(cluster, topic, numbered(3))
    fill(cluster, topic, numbered(3), partition=1, timestamps_ms=[5, 253402300800000, nanoseconds])
    words = f"record of {topic}-1 at offset 2: Spark cannot represent its timestamp, {nanoseconds} ms"
    with pytest.raises(OverflowError, match=words):
        read(cluster, subscribe=topic)
    reader = source(cluster, subscribe=topic).reader(StructType([StructField("value", BinaryType())]))
    assert values(rows(reader, reader.partitions())) == numbered(3) * 2


def test_batches_have_the_schema_that_spark_expects(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, [b"v"])
    found = source(cluster, subscribe=topic, includeHeaders="true")
    schema = found.schema()
    assert isinstance(schema, StructType)
    reader = found.reader(schema)
    for partition in reader.partitions():
        for batch in batches(reader, partition):
            assert to_arrow_schema(schema, timezone="UTC").equals(batch.schema, check_metadata=True)


def test_columns_that_are_asked_for(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, [b"v"])
    reader = source(cluster, subscribe=topic).reader(
        StructType([StructField("offset", LongType()), StructField("value", BinaryType())])
    )
    assert rows(reader, reader.partitions()) == [{"offset": 0, "value": b"v"}]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        (StructField("values", BinaryType()), "no column"),
        (StructField("offset", IntegerType()), "must have the type bigint"),
    ],
)
def test_columns_that_are_not_there(cluster: ClusterThread, field: StructField, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        source(cluster, subscribe="t").reader(StructType([field, StructField("topic", StringType())]))


def test_schemas_that_would_hide_rows(cluster: ClusterThread) -> None:
    for fields, words in (
        ([], "a schema must have at least one column"),
        ([StructField("value", BinaryType(), nullable=False)], "column 'value' may be null"),
    ):
        for reader in (source(cluster, subscribe="t").reader, source(cluster, subscribe="t").streamReader):
            with pytest.raises(ValueError, match=words):
                reader(StructType(fields))
    source(cluster, subscribe="t").reader(StructType([StructField("offset", LongType(), nullable=False)]))


def test_every_record_once_whatever_the_tasks(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    for partition in range(3):
        fill(cluster, topic, numbered(400), partition=partition)
    expected = sorted((partition, offset) for partition in range(3) for offset in range(400))
    for options, tasks in [
        ({}, 3),
        ({"maxTasks": "1"}, 1),
        ({"minPartitions": "7"}, 7),
        ({"maxRecordsPerPartition": "150"}, 9),
        ({"minPartitions": "7", "maxTasks": "7"}, 7),
    ]:
        reader = batch_reader(cluster, subscribe=topic, **options)
        partitions = reader.partitions()
        assert len(partitions) == tasks
        found = rows(reader, partitions)
        assert sorted((row["partition"], row["offset"]) for row in found) == expected


def test_ranges_begin_and_end_within_batches(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(100))
    offsets = {
        "startingOffsets": f'{{"{topic}":{{"0":37,"1":-2}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":63,"1":-1}}}}',
    }
    assert values(read(cluster, subscribe=topic, **offsets)) == numbered(26, 37)


def test_a_part_of_each_partition(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    for partition in range(4):
        fill(cluster, topic, numbered(20 * partition), partition=partition)
    found = read(cluster, subscribe=topic, partitions="1-2,3,9", fromOffset="15", untilOffset="45")
    assert {tp: len([row for row in found if row["partition"] == tp]) for tp in range(4)} == {0: 0, 1: 5, 2: 25, 3: 30}
    assert min(row["offset"] for row in found) == 15
    # Offsets by partition apply to the remaining partitions.
    only = {"partitions": "3", "startingOffsets": f'{{"{topic}":{{"3":58}}}}'}
    assert values(read(cluster, subscribe=topic, **only)) == numbered(2, 58)
    assert read(cluster, subscribe=topic, fromOffset="60") == read(cluster, subscribe=topic, untilOffset="0") == []


def test_times_as_bounds(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(10), timestamps_ms=[1000 * (i + 1) for i in range(10)])
    assert values(read(cluster, assign=f'{{"{topic}":[0]}}', startingTimestamp="3001", endingTimestamp="6000")) == [
        b"3",
        b"4",
    ]
    # The other partition has no record at or after that time.
    with pytest.raises(ValueError, match="no record"):
        read(cluster, subscribe=topic, startingTimestamp="3001")
    latest = {"startingTimestamp": "9500", "startingOffsetsByTimestampStrategy": "latest"}
    assert values(read(cluster, subscribe=topic, **latest)) == [b"9"]


def test_nothing_to_read_is_no_rows(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    reader = batch_reader(cluster, subscribe=topic)
    assert reader.partitions() == []
    # Spark's call for an empty plan.
    assert list(reader.read(InputPartition(None))) == []
    assert read(cluster, subscribePattern="no such topic.*") == []


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        ({"assign": '{"TOPIC":[0,9]}'}, "TOPIC-9"),
        ({"subscribe": "TOPIC", "partitions": "2"}, "TOPIC"),
        ({"subscribe": "TOPIC"}, ""),
    ],
)
def test_what_the_options_name_in_vain_is_mentioned(
    cluster: ClusterThread,
    new_topic: NewTopic,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, str],
    lacking: str,
) -> None:
    topic = new_topic(2)
    read(cluster, **{name: text.replace("TOPIC", topic) for name, text in options.items()})
    texts = [text.partition(":")[0] for text in caplog.messages if "nothing is read" in text]
    assert texts == ([f"nothing is read from {lacking.replace('TOPIC', topic)}"] if lacking else [])


def test_patterns_match_anywhere_in_a_name(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, [b"v"])
    assert values(read(cluster, subscribePattern=topic[3:-3])) == [b"v"]


def test_partitions_that_do_not_fit_the_offsets(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    with pytest.raises(ValueError, match="all partitions to read"):
        read(cluster, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')


def test_transactions_end_exactly(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    transactions(cluster, topic, "caca")
    committed = [*numbered(10), *numbered(10, 20)]
    # Offsets count control records, too; no record follows the last ones.
    assert values(read(cluster, subscribe=topic, kafka__isolation__level="read_committed")) == committed
    assert values(read(cluster, subscribe=topic)) == numbered(40)
    # A range of hidden records only.
    hidden = {
        "startingOffsets": f'{{"{topic}":{{"0":33}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":44}}}}',
        "kafka__isolation__level": "read_committed",
    }
    assert read(cluster, subscribe=topic, **hidden) == []


def test_retention_is_data_loss_or_skipped(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    for first in range(0, 100, 10):
        fill(cluster, topic, numbered(10, first))
    cluster.delete_records(topic, 0, 50)
    start = {"startingOffsets": f'{{"{topic}":{{"0":30}}}}'}
    with pytest.raises(DataLossError, match=r"offsets 30 to 49 .* retention or deletion; the log begins at 50"):
        read(cluster, subscribe=topic, **start)
    assert values(read(cluster, subscribe=topic, failOnDataLoss="false", **start)) == numbered(50, 50)
    gone = {**start, "endingOffsets": f'{{"{topic}":{{"0":40}}}}', "failOnDataLoss": "false"}
    assert read(cluster, subscribe=topic, **gone) == []


def test_retention_after_the_planning_is_no_loss_for_a_query_from_the_beginning(
    cluster: ClusterThread, new_topic: NewTopic
) -> None:
    topic = new_topic()
    for first in range(0, 100, 10):
        fill(cluster, topic, numbered(10, first))
    whole, parts = batch_reader(cluster, subscribe=topic), batch_reader(cluster, subscribe=topic, minPartitions="4")
    given = batch_reader(cluster, subscribe=topic, startingOffsets=f'{{"{topic}":{{"0":0}}}}')
    plans = [(reader, reader.partitions()) for reader in (whole, parts, given)]
    cluster.delete_records(topic, 0, 10)
    for reader, plan in plans[:2]:
        assert sorted(values(rows(reader, plan)), key=lambda value: int(value or b"")) == numbered(90, 10)
    with pytest.raises(DataLossError, match=r"offsets 0 to 9 .* are gone"):
        rows(*plans[2])
    cluster.delete_records(topic, 0, 100)
    assert rows(*plans[0]) == []
    with pytest.raises(DataLossError, match=r"offsets \d+ to \d+ .* are gone"):  # the later parts do not begin there
        rows(*plans[1])
    fill(cluster, topic, [b"new"] * 2)
    cluster.delete_records(topic, 0, 101)
    with pytest.raises(DataLossError, match=r"offsets 0 to 99 .* are gone"):  # a kept DataFrame is not empty
        rows(*plans[0])


def _recreate(cluster: ClusterThread, topic: str) -> None:
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, [b"new"] * 300)


@pytest.mark.parametrize("idle", [True, False])
def test_a_plan_of_a_topic_that_was_created_again(cluster: ClusterThread, new_topic: NewTopic, idle: bool) -> None:
    topic, other = new_topic(), new_topic()
    for name in (topic, other):
        fill(cluster, name, numbered(100))
    options = {"subscribe": f"{topic},{other}", "maxTasks": "1"}
    strict, tolerant = (batch_reader(cluster, failOnDataLoss=fail, **options) for fail in ("true", "false"))
    planned = strict.partitions()
    if idle:  # the task's consumer still knows the old topic
        assert len(rows(strict, planned)) == 200
    else:
        client_loop().close_idle()
    _recreate(cluster, topic)
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        rows(strict, planned)
    assert values(rows(tolerant, planned)) == numbered(100), "the other topic"
    assert values(rows(strict, strict.partitions())).count(b"new") == 300, "another plan"


def test_a_topic_that_is_created_again_while_a_task_reads(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    for first in range(0, 300, 10):
        fill(cluster, topic, numbered(10, first))
    reader = batch_reader(cluster, subscribe=topic, kafka__fetch__max__bytes="100")
    (partition,) = reader.partitions()
    reading = batches(reader, partition)
    found = values(next(reading).to_pylist())
    assert len(found) < 300
    _recreate(cluster, topic)

    def read_on() -> None:
        for batch in reading:
            found.extend(values(batch.to_pylist()))

    with pytest.raises(DataLossError):
        read_on()
    assert b"new" not in found


def test_an_end_beyond_the_log_is_data_loss_or_cut(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    end = {"endingOffsets": f'{{"{topic}":{{"0":15}}}}'}
    with pytest.raises(DataLossError, match="ends at offset 10, not at 15"):
        read(cluster, subscribe=topic, **end)
    assert values(read(cluster, subscribe=topic, failOnDataLoss="false", **end)) == numbered(10)
    beyond = {"startingOffsets": f'{{"{topic}":{{"0":12}}}}', **end}
    with pytest.raises(DataLossError, match=r"ends at offset 10, (before 12|not at 15)"):  # by what is confirmed first
        read(cluster, subscribe=topic, **beyond)
    assert read(cluster, subscribe=topic, failOnDataLoss="false", **beyond) == []


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_start_beyond_the_end_is_refused(cluster: ClusterThread, new_topic: NewTopic, fail: str) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10), timestamps_ms=[1000 * (i + 1) for i in range(10)])
    start = {"startingOffsets": f'{{"{topic}":{{"0":11}}}}', "failOnDataLoss": fail}
    for end in ({}, {"endingTimestamp": "5000"}):
        with pytest.raises(ValueError, match=r"the starting offset of .* is after its ending offset: 11, (10|4)"):
            read(cluster, subscribe=topic, **start, **end)
    cluster.delete_records(topic, 0, 5)
    with pytest.raises(ValueError, match="is after its ending offset: 5, 3"):
        read(cluster, subscribe=topic, endingOffsets=f'{{"{topic}":{{"0":3}}}}', failOnDataLoss=fail)


def test_a_read_without_progress_ends(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    transactions(cluster, topic, "c")
    transactions(cluster, topic, "o")
    # The open transaction's records exist, but cannot be read yet.
    end = {"endingOffsets": f'{{"{topic}":{{"0":15}}}}', "kafka__isolation__level": "read_committed"}
    words = r"no progress for 3 s .*-0 up to 15 \(a transaction that began at offset 11 is still open\)"
    with pytest.raises(TimeoutError, match=words):
        read(cluster, subscribe=topic, kafkaConsumer__pollTimeoutMs="3000", failOnDataLoss="false", **end)


def test_leaders_move_and_a_broker_dies_while_tasks_read(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    for partition in range(3):
        for first in range(0, 500, 50):
            fill(cluster, topic, numbered(50, 500 * partition + first), partition=partition)
    # One batch is read ahead, so that brokers always have a request.
    reader = batch_reader(cluster, subscribe=topic, maxTasks="1", kafka__fetch__max__bytes="500")
    found = []
    (task,) = reader.partitions()
    at = 0
    for at, batch in enumerate(batches(reader, task)):
        found += values(batch.to_pylist())
        if at % 2 == 0:
            cluster.move_all_leaders(topic)
        if at == 1:
            cluster.kill_broker(cluster.leader(topic, 0))
    assert at > 2
    for broker in cluster.broker_ids:
        if not cluster.is_running(broker):
            cluster.start_broker(broker)
    assert sorted(int(value or b"") for value in found) == list(range(1500))


def test_a_task_that_is_cancelled_leaves_no_connection(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic)
    (partition,) = reader.partitions()
    reading = batches(reader, partition)
    next(reading)
    reading.close()
    client_loop().close_idle()
    assert connections_end(cluster)


def test_one_task_beside_another(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic)
    (partition,) = reader.partitions()
    one, other = batches(reader, partition), batches(reader, partition)
    assert values(next(one).to_pylist()) == values(next(other).to_pylist()) == numbered(10)
    assert (list(one), list(other)) == ([], [])


def test_a_partition_that_brokers_disagree_about_is_not_left_out_silently(
    cluster: ClusterThread, new_topic: NewTopic
) -> None:
    one, other = new_topic(), new_topic()
    for topic in (one, other):
        fill(cluster, topic, numbered(3))
    asked_before = cluster.requests.count("ListOffsets")

    def looks_for_the_end(request: RequestRecord) -> bool:
        return (cluster.requests.count("ListOffsets") - asked_before) % 2 == 1

    missing = cluster.faults.add("Metadata", topic=other, error_code=3, when=looks_for_the_end)
    options = {
        "subscribePattern": f"^({one}|{other})$",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "1",
    }
    with pytest.raises(DataLossError, match=f"brokers disagree about partition {other}-0"):
        read(cluster, **options)
    assert values(read(cluster, **options, failOnDataLoss="false")) == numbered(3)
    missing.remove()
    assert values(read(cluster, **options)) == numbered(3) * 2
