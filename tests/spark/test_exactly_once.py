"""The exactly-once sink: micro-batches in Spark's steps, any of which may be a process's last."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import BinaryType, StructField, StructType

from aiokafka_lead._io.transactions.handover import OpenTransaction
from aiokafka_lead.admin import TransactionDescription, TransactionState
from aiokafka_lead.errors import ClusterAuthorizationFailedError, KafkaError
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.sink.exactly_once import driver
from aiokafka_lead.spark.sink.exactly_once.settings import exactly_once, read
from aiokafka_lead.spark.sink.exactly_once.task import ExactlyOnceError, TransactionsLostError
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.thread import ClusterThread

from .exactly_once_support import QUERY, ROWS, MicroBatch, counted, decide, in_task, settings_of
from .support import fill, numbered, source

NewTopic = Callable[..., str]
A, B, C = [b"a1", b"a2"], [b"b1"], [b"c1"]


def open_ids(cluster: ClusterThread, *names: str) -> list[str]:
    views = {name: cluster.transactions.view(name) for name in names}
    return [name for name, view in views.items() if view is not None and view.state == "Ongoing"]


def test_batches_of_one_and_of_several_tasks(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    MicroBatch(cluster, topic, 0).run(A)
    MicroBatch(cluster, topic, 1).run(B, C, [])
    MicroBatch(cluster, topic, 2).run([], [b"d1"])
    MicroBatch(cluster, topic, 3).run([])
    assert counted(cluster, topic) == sorted([*A, *B, *C, b"d1"])
    assert open_ids(cluster, f"{topic}-0-0", f"{topic}-1-0") == []
    assert cluster.transactions.view(f"{topic}-2-0") is None, "a task without rows has no transaction"


# --- moments of a process's death -------------------------------------------------------------------------------------


def test_dead_before_the_tasks(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    MicroBatch(cluster, topic)
    MicroBatch(cluster, topic).run(A)
    assert counted(cluster, topic) == A


def test_dead_with_open_transactions(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    dead = MicroBatch(cluster, topic)
    for task, values in enumerate((A, B, C)):
        dead.write(values, task)
    ids = [f"{topic}-0-0", f"{topic}-1-0", f"{topic}-2-0"]
    assert open_ids(cluster, *ids) == ids
    again = MicroBatch(cluster, topic)
    assert open_ids(cluster, *ids) == [], "those of tasks that the query has not any more, too"
    again.run([*A, *B, *C])
    assert counted(cluster, topic) == sorted([*A, *B, *C])


def test_dead_when_decided(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Before the other transactions were committed. The micro-batch comes again, its rows in other tasks."""
    topic = new_topic()
    dead = MicroBatch(cluster, topic)
    decide(cluster, topic, [dead.write(A, 0), dead.write(B, 1), dead.write(C, 2)])
    again = MicroBatch(cluster, topic)
    assert counted(cluster, topic) == sorted([*A, *B, *C]), "before any task begins"
    again.run([*B, *A], C)
    MicroBatch(cluster, topic, 1).run([b"d"])
    assert counted(cluster, topic) == sorted([*A, *B, *C, b"d"])


def test_dead_when_all_is_committed(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Before Spark had logged it: the micro-batch comes again."""
    topic = new_topic()
    for _ in range(2):
        MicroBatch(cluster, topic, 4).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


def test_the_same_before_kip_890() -> None:
    """On a cluster that has not raised ``transaction.version``."""
    with ClusterThread(EmbeddedCluster(brokers=1, features={"transaction.version": 1})) as cluster:
        cluster.create_topic("old")
        MicroBatch(cluster, "old").run(A)
        MicroBatch(cluster, "old", 1).write([b"never"], 2)
        dead = MicroBatch(cluster, "old", 1)
        decide(cluster, "old", [dead.write(B, 0), dead.write(C, 1)])
        for number in (1, 2):
            MicroBatch(cluster, "old", number).run(B, C)
        assert counted(cluster, "old") == sorted([*A, *B, *B, *C, *C])
        client_loop().close_idle()


def test_prefixes_that_begin_alike(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """The queries "p" and "p-1" have different transactional ids: neither ends a transaction of the other."""
    topic = new_topic()
    prefixes = [f"{topic}{end}" for end in ("-0", "-1", "-1-0")]
    dead = MicroBatch(cluster, topic)
    messages = [dead.write(A, 0), dead.write(B, 1)]
    for prefix in prefixes:
        MicroBatch(cluster, topic, transactionalIdPrefix=prefix).run(C)
    decide(cluster, topic, messages)
    waiting = [MicroBatch(cluster, topic, 1, transactionalIdPrefix=prefix) for prefix in prefixes]
    theirs = [[other.write([b"d"], 0), other.write([b"e"], 1)] for other in waiting]
    MicroBatch(cluster, topic, 1).run([])
    for other, written in zip(waiting, theirs, strict=True):
        other.commit(written)
    assert counted(cluster, topic) == sorted([*A, *B, *[*C, b"d", b"e"] * 3])


# --- failures ---------------------------------------------------------------------------------------------------------


def test_a_task_that_is_tried_again(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Readers do not wait until the transactions of killed attempts time out."""
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    run.write([b"never"], 0)
    run.write([b"never"], 1)
    run.commit([run.write(A, 0, attempt=1), run.write(B, 1, attempt=1)])
    assert open_ids(cluster, f"{topic}-1-0", f"{topic}-1-1") == []
    assert counted(cluster, topic) == sorted([*A, *B])


def test_leftovers_that_cannot_be_aborted_yet(
    cluster: ClusterThread, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    """The micro-batch counts all the same, and the next one aborts them."""
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    run.write([b"never"], 1)
    messages = [run.write(A, 0), run.write(B, 1, attempt=1)]
    fault = cluster.faults.add("ListTransactions", error_code=ClusterAuthorizationFailedError)
    try:
        run.commit(messages)
    finally:
        fault.remove()
    assert f"transactions of '{topic}' were not aborted yet" in caplog.text
    assert open_ids(cluster, f"{topic}-1-0") == [f"{topic}-1-0"]
    MicroBatch(cluster, topic, 1).run(C)
    assert counted(cluster, topic) == sorted([*A, *B, *C])


def test_an_aborted_batch_leaves_nothing(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Neither of tasks that have ended, nor of a task that was killed."""
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    run.write(B, 1)
    run.abort([run.write(A, 0), None, run.write(C, 2)])
    assert open_ids(cluster, *(f"{topic}-{task}-0" for task in range(3))) == []
    assert counted(cluster, topic) == []


def test_a_write_whose_tasks_were_all_killed_leaves_nothing(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Of the write of a DataFrame, Spark asks the writer that the tasks had to abort it."""
    topic = new_topic()
    options = {"topic": topic, "exactlyOnce": "true", "transactionalIdPrefix": topic}
    pickled = pickle.dumps(source(cluster, **options).writer(from_arrow_schema(ROWS), overwrite=False))
    for task in range(2):
        with in_task(task, 0, QUERY, 0):
            pickle.loads(pickled).write(iter([pa.record_batch([pa.array(A, pa.binary())], schema=ROWS)]))
    assert open_ids(cluster, f"{topic}-0-0", f"{topic}-1-0") == [f"{topic}-0-0", f"{topic}-1-0"]
    pickle.loads(pickled).abort([None, None])
    assert open_ids(cluster, f"{topic}-0-0", f"{topic}-1-0") == []
    assert counted(cluster, topic) == []


def test_an_abort_does_not_touch_what_is_decided(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    messages: list[WriterCommitMessage] = [run.write(A, 0), run.write(B, 1)]
    decide(cluster, topic, messages)
    run.abort(messages)
    MicroBatch(cluster, topic).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


@pytest.mark.parametrize("task", [0, 1])
def test_an_attempt_that_was_fenced_fails_the_batch_as_a_whole(
    cluster: ClusterThread, new_topic: NewTopic, task: int
) -> None:
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    messages = [run.write(A, 0), run.write(B, 1)]
    run.write([b"never"], task)  # with the same number, as in a repeated stage
    with pytest.raises(ExactlyOnceError, match=r"nothing was committed: .* taken over by another attempt"):
        run.commit(messages)
    assert counted(cluster, topic) == []
    MicroBatch(cluster, topic).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


def test_a_timeout_before_the_decision_only_aborts(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    messages = [run.write(A, 0), run.write(B, 1)]
    assert cluster.transactions.time_out(f"{topic}-1-0")
    with pytest.raises(ExactlyOnceError, match=r"nothing was committed: .* or exceeded its timeout"):
        run.commit(messages)
    MicroBatch(cluster, topic).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


@pytest.mark.parametrize(
    ("age_ms", "since_began_ms", "why"),
    [
        (44_000, 50_000, ""),
        (46_000, 50_000, "has only 14 s left"),
        (70_000, 80_000, "has only 0 s left"),
        (70_000, 1_000, ""),  # the driver's clock is ahead
        (-70_000, 1_000, ""),  # the driver's clock is behind
        (-70_000, 70_000, "has only 0 s left"),
    ],
)
def test_too_little_time_left(age_ms: int, since_began_ms: int, why: str) -> None:
    opened = OpenTransaction("p-0", 5, 3, 2, begun=True)
    found = TransactionDescription("p-0", TransactionState.ONGOING, 5, 3, 60_000, 1_000_000, frozenset(), 0)
    assert driver.why_not(opened, found, 1_000_000 + age_ms, since_began_ms).startswith(why)
    assert bool(driver.why_not(opened, found, 1_000_000 + age_ms, since_began_ms)) == bool(why)


def test_a_loss_is_raised_by_every_run(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    dead = MicroBatch(cluster, topic, 7)
    decide(cluster, topic, [dead.write(A, 0), dead.write(B, 1), dead.write(C, 2)])
    assert cluster.transactions.time_out(f"{topic}-1-0")
    for _ in range(2):
        with pytest.raises(TransactionsLostError, match=r"batch 7 was decided \d+ s ago, but 1 of its 3 .*-1-0"):
            MicroBatch(cluster, topic, 7)
    other = {"transactionalIdPrefix": f"{topic}-anew"}
    MicroBatch(cluster, topic, 7, **other).run(A, B, C)
    assert counted(cluster, topic) == sorted([*A, *A, *B, *C, *C])


# --- two runs at a time -----------------------------------------------------------------------------------------------


def test_a_driver_that_was_thought_dead_cannot_commit(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    zombie = MicroBatch(cluster, topic)
    messages = [zombie.write([b"never"], 0), zombie.write([b"never"], 1)]
    run = MicroBatch(cluster, topic)
    with pytest.raises(ExactlyOnceError, match="taken over"):
        zombie.commit(messages)
    run.run(A, B)
    with pytest.raises(ExactlyOnceError, match="another run has taken over the transactionalIdPrefix"):
        zombie.write([b"never"], 0)
    assert counted(cluster, topic) == sorted([*A, *B])


def test_a_task_of_a_dead_driver_makes_a_run_fail_at_worst(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    zombie = MicroBatch(cluster, topic)
    run = MicroBatch(cluster, topic)
    messages = [run.write(A, 0), run.write(B, 1)]
    zombie.write([b"never"], 1)
    with pytest.raises(ExactlyOnceError, match="another run has taken over"):
        zombie.write([b"never"], 0)
    with pytest.raises(ExactlyOnceError, match="nothing was committed"):
        run.commit(messages)
    MicroBatch(cluster, topic).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


def test_a_task_that_comes_amid_the_begin_of_another_run(cluster: ClusterThread, new_topic: NewTopic) -> None:
    """Before the run is in the ledger, the last run to request the main id continues, and the other never begins."""
    topic = new_topic()
    first = MicroBatch(cluster, topic)
    cluster.requests.clear()
    fault = cluster.faults.add("TxnOffsetCommit", hold=True, count=1)
    with ThreadPoolExecutor(1) as thread:
        second = thread.submit(MicroBatch, cluster, topic)
        cluster.wait_for_requests("TxnOffsetCommit")
        assert fault.struck
        message = first.write(A)
        fault.release()
        with pytest.raises(KafkaError):
            second.result()
    first.commit([message])
    assert counted(cluster, topic) == A


def test_a_prefix_belongs_to_one_query(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    MicroBatch(cluster, topic, 3).run(A)
    with pytest.raises(ExactlyOnceError, match="belongs to query 1111"):
        MicroBatch(cluster, topic, 4, query="another").run(B)
    with pytest.raises(ExactlyOnceError, match="reset or copied"):
        MicroBatch(cluster, topic, 2).run(B)
    MicroBatch(cluster, topic, 0, query="another").run(B)
    assert counted(cluster, topic) == sorted([*A, *B]), "a query that begins takes over"


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_a_decision_with_many_transactions(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    MicroBatch(cluster, topic).run(A)
    settings = settings_of(cluster, topic)
    loop = client_loop()
    before = loop.run(read, settings)
    assert before is not None
    assert before.decided
    opened = MicroBatch(cluster, topic, 1).write(B, 0).share.opened  # type: ignore[attr-defined]
    others = tuple(
        opened._replace(transactional_id=settings.task_id(task, 0), producer_id=2**60 + task) for task in range(1, 901)
    )
    for entry in (before._replace(others=others), before):
        with loop.started(lambda: settings.producer(settings.main_id), settings.within_ms) as producer:
            loop.run(driver._write_next, settings, producer, entry)
        assert loop.run(read, settings) == entry


def test_an_outage_between_decision_and_commit(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    run = MicroBatch(cluster, topic, kafka__max__block__ms="1500")
    messages = [run.write(A, 0), run.write(B, 1)]
    fault = cluster.faults.add("EndTxn", skip=1, disconnect=True)
    with pytest.raises(ExactlyOnceError, match="is decided, but 1 of its transactions are not committed yet"):
        run.commit(messages)
    fault.remove()
    MicroBatch(cluster, topic).run(A, B)
    assert counted(cluster, topic) == sorted([*A, *B])


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"transactionalIdPrefix": "p"}, "'transactionalIdPrefix' needs the option 'exactlyOnce'"),
        ({"batchId": "1"}, "'batchId' needs the option 'exactlyOnce'"),
        ({"exactlyOnce": "yes"}, "'exactlyOnce' must be true or false"),
        ({"exactlyOnce": "true"}, "needs the option 'transactionalIdPrefix'"),
        ({"exactlyOnce": "true", "transactionalIdPrefix": " "}, "must have 1 to 200 characters"),
        ({"exactlyOnce": "true", "transactionalIdPrefix": "p", "topic": ""}, "option 'topic' must not be empty"),
        ({"exactlyOnce": "true", "transactionalIdPrefix": "p", "kafka.acks": "1"}, "acks"),
        (
            {"exactlyOnce": "true", "transactionalIdPrefix": "p", "kafka.transaction.timeout.ms": "x"},
            "must be a number",
        ),
    ],
)
@pytest.mark.parametrize("stream", [False, True], ids=["batch", "stream"])
def test_refused_options(cluster: ClusterThread, options: dict[str, str], message: str, stream: bool) -> None:
    found = source(cluster, **{"topic": "t", **options})
    make = found.streamWriter if stream else found.writer
    with pytest.raises(ValueError, match=message):
        make(StructType([StructField("value", BinaryType())]), False)


def test_refused_numbers(cluster: ClusterThread) -> None:
    options = {"topic": "t", "exactlyOnce": "true", "transactionalIdPrefix": "p"}
    schema = StructType([StructField("value", BinaryType())])
    with pytest.raises(ValueError, match="a streaming query numbers its micro-batches"):
        source(cluster, **options, batchId="1").streamWriter(schema, False)
    with pytest.raises(ValueError, match="'batchId' must be from 0"):
        source(cluster, **options, batchId="-1").writer(schema, False)


def test_a_timeout_that_brokers_do_not_allow(cluster: ClusterThread, new_topic: NewTopic) -> None:
    with pytest.raises(ValueError, match=r"'kafka.transaction.timeout.ms' is 900001, more than the brokers'"):
        MicroBatch(cluster, new_topic(), kafka__transaction__timeout__ms="900001")


def test_a_query_is_known_by_its_checkpoint(cluster: ClusterThread) -> None:
    def prefix(streaming: bool = True, **options: str) -> str:
        found = exactly_once(source(cluster, topic="t", exactlyOnce="true", **options).options, streaming=streaming)
        assert found is not None
        return found.prefix

    def prefixes(*places: str) -> set[str]:
        return {prefix(checkpointLocation=place) for place in places}

    here = Path.cwd()
    assert len(prefixes("/a/b", "/a/b/", "file:/a/b", "FILE:///a//b", " /a/./b", "/a/x/../b")) == 1
    assert len(prefixes(f"{here}/c", "c", "./c/")) == 1
    assert len(prefixes("s3a://Bucket/c", "s3a://bucket//c/")) == len(prefixes("dbfs:/c", "dbfs:///c")) == 1
    assert len(prefixes("/a/b", "/a/c", "hdfs://one/a/b", "hdfs://two/a/b", "dbfs:/a/b")) == 5
    with pytest.raises(ValueError, match="must stay the same when this job is repeated"):
        prefix(streaming=False, checkpointLocation="/a/b")


# --- through Spark ----------------------------------------------------------------------------------------------------


def test_spark_copies_a_topic_and_repeats_a_batch(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    here, there = new_topic(2), new_topic(2)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    checkpoint = tmp_path / "checkpoint"

    def copy() -> None:
        """Copy the topic to its current end, from the end of the last query, in a task for each of its partitions."""
        reader = spark.readStream.format("aiokafka_lead").options(**servers, subscribe=here)
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="40").load()
        writer = rows.writeStream.format("aiokafka_lead").options(**servers, topic=there, exactlyOnce="true")
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    fill(cluster, here, numbered(40))
    fill(cluster, here, numbered(20, 40), partition=1)
    copy()
    commits = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    assert len(commits) == 2
    commits[-1].unlink()  # simulates a driver that dies before writing this
    (checkpoint / "commits" / f".{commits[-1].name}.crc").unlink()
    fill(cluster, here, numbered(10, 60))
    copy()
    assert counted(cluster, there) == sorted(numbered(70))


def test_a_second_query_on_a_checkpoint_takes_over(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    """Spark ends the first query in the middle of its work."""
    here, there = new_topic(2), new_topic(2)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}

    def start() -> StreamingQuery:
        reader = spark.readStream.format("aiokafka_lead").options(**servers, subscribe=here)
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="20").load()
        writer = rows.writeStream.format("aiokafka_lead").options(**servers, topic=there, exactlyOnce="true")
        return writer.option("checkpointLocation", str(tmp_path)).start()

    for partition in range(2):
        fill(cluster, here, numbered(50, 50 * partition), partition=partition)
    first = start()
    while first.lastProgress is None:
        assert not first.awaitTermination(1)
    second = start()
    try:
        assert first.awaitTermination(120)
        second.processAllAvailable()
    finally:
        second.stop()
    assert counted(cluster, there) == sorted(numbered(100))


def test_spark_writes_a_dataframe_as_a_whole(spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    options = {"kafka.bootstrap.servers": cluster.bootstrap_servers, "exactlyOnce": "true"}
    rows = spark.range(10, numPartitions=2).selectExpr("cast(id as string) value", f"'{topic}' topic")
    writer = rows.write.format("aiokafka_lead").options(**options, transactionalIdPrefix=topic, ledgerTopic=topic)
    writer.mode("append").save()
    assert counted(cluster, topic) == numbered(10)
    bad = rows.union(spark.createDataFrame([("v", None)], "value string, topic string"))
    writer = bad.write.format("aiokafka_lead").options(**options, transactionalIdPrefix=topic, ledgerTopic=topic)
    with pytest.raises(Exception, match="topic is null"):
        writer.mode("append").save()
    assert counted(cluster, topic) == numbered(10)


def test_numbered_writes_of_spark_count_once(
    spark: SparkSession, cluster: ClusterThread, new_topic: NewTopic, tmp_path: Path
) -> None:
    """In ``foreachBatch``, and in a job that is run again."""
    here, there = new_topic(), new_topic(2)
    servers = {"kafka.bootstrap.servers": cluster.bootstrap_servers}
    options = {**servers, "topic": there, "exactlyOnce": "true", "transactionalIdPrefix": there}

    def write(rows: DataFrame, number: int, prefix: str) -> None:
        writer = rows.select("value").repartition(2).write.format("aiokafka_lead").mode("append")
        writer.options(**options | {"transactionalIdPrefix": prefix}, batchId=number).save()

    def copy(fails_at: int | None) -> None:
        def write_twice(rows: DataFrame, number: int) -> None:
            write(rows, number, f"{there}-a")
            if number == fails_at:
                raise RuntimeError("dead in between")
            write(rows, number, f"{there}-b")

        reader = spark.readStream.format("aiokafka_lead").options(**servers, subscribe=here)
        rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="5").load()
        writer = rows.writeStream.option("checkpointLocation", str(tmp_path)).foreachBatch(write_twice)
        writer.trigger(availableNow=True).start().awaitTermination(120)

    fill(cluster, here, numbered(10))
    with pytest.raises(Exception, match="dead in between"):
        copy(fails_at=1)
    copy(fails_at=None)
    assert counted(cluster, there) == sorted(numbered(10) * 2)
    job = spark.range(10, 13).selectExpr("cast(id as string) value")
    for number in (20261125, 20261126, 20261126):
        write(job, number, f"{there}-job")
    assert counted(cluster, there) == sorted(numbered(10) * 2 + numbered(3, 10) * 2)
    with pytest.raises(Exception, match="follows batch 20261126"):
        write(job, 20261125, f"{there}-job")
    with pytest.raises(Exception, match="belongs to query"):
        job.write.format("aiokafka_lead").options(**options | {"transactionalIdPrefix": f"{there}-job"}).mode(
            "append"
        ).save()
