"""Streaming queries as Spark drives them: one reader on the driver, copies of it in tasks."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable
from functools import partial
from io import BytesIO
from typing import Any

import pytest
from pyspark.serializers import read_int, write_with_length
from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.datasource_internal import _SimpleStreamReaderWrapper
from pyspark.sql.streaming import python_streaming_source_runner as runner
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from aiokafka_lead import Consumer, TopicPartition
from aiokafka_lead.errors import GroupAuthorizationFailedError
from aiokafka_lead.spark.source.progress import DataLossError
from aiokafka_lead.testing.thread import ClusterThread

from .support import Query, fill, numbered, source, stream_reader, transactions

NewTopic = Callable[..., str]


def test_from_the_beginning(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, startingOffsets="earliest"))
    assert query.step() == numbered(10)
    assert not query.plan(), "nothing new: no micro-batch"
    fill(cluster, topic, numbered(5, 10), partition=1)
    assert query.step() == numbered(5, 10)
    query.reader.stop()


def test_from_the_end(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic))
    assert query.step() == []
    assert query.done == 1, "the first micro-batch is there to have its offset stored"
    fill(cluster, topic, numbered(5, 10))
    assert query.step() == numbered(5, 10)


def test_a_driver_killed_in_its_first_batch_loses_nothing(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic))
    query.plan()
    fill(cluster, topic, numbered(5, 10))
    again = query.restarted(stream_reader(cluster, subscribe=topic))
    assert again.run() == []
    assert again.step() == numbered(5, 10)


def test_a_first_batch_that_is_repeated_begins_where_it_began(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    for first in range(0, 100, 10):
        fill(cluster, topic, numbered(10, first))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    query = Query(stream_reader(cluster, **options))
    query.plan()
    cluster.delete_records(topic, 0, 60)
    again = query.restarted(stream_reader(cluster, **options))
    with pytest.raises(DataLossError, match=r"offsets 0 to 59 of .* are gone"):
        again.run()
    tolerant = query.restarted(stream_reader(cluster, **options, failOnDataLoss="false"))
    assert tolerant.run() == numbered(40, 60)
    assert not tolerant.plan(), "nothing new: no micro-batch"


def test_a_first_batch_from_the_end_has_what_came_meanwhile(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic))
    query.reader.initialOffset()
    fill(cluster, topic, numbered(5, 10))
    query.plan()
    again = query.restarted(stream_reader(cluster, subscribe=topic))
    assert query.run() == again.run() == numbered(5, 10)


def test_a_first_batch_of_a_topic_that_was_created_again(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    query = Query(stream_reader(cluster, **options))
    query.plan()
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, numbered(20))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        query.restarted(stream_reader(cluster, **options)).run()


def test_a_first_batch_of_sparks_connector_has_no_known_beginning(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(6))
    fill(cluster, topic, numbered(4, 6))
    planned = [json.dumps({topic: {"0": 8}})]

    def run(start: str, **options: str) -> list[bytes | None]:
        reader = stream_reader(cluster, subscribe=topic, startingOffsets=start, **options)
        return Query(reader, planned=planned).run()

    assert run(f'{{"{topic}":{{"0":3}}}}') == numbered(5, 3)
    assert run("earliest") == run(f'{{"{topic}":{{"0":-2}}}}') == numbered(8), "a log that was never cut"
    cluster.delete_records(topic, 0, 6)
    for start, left in [("earliest", numbered(2, 6)), (f'{{"{topic}":{{"0":-2}}}}', numbered(2, 6)), ("latest", [])]:
        with pytest.raises(DataLossError, match="the start of the first micro-batch is unknown"):
            run(start)
        assert run(start, failOnDataLoss="false") == left


@pytest.mark.parametrize("now", [False, True], ids=["endless", "available now"])
def test_a_start_beyond_the_end_is_data_loss(cluster: ClusterThread, new_topic: NewTopic, now: bool) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    start = {"startingOffsets": f'{{"{topic}":{{"0":15}}}}', "dataLossTimeoutMs": "0"}

    def begun(**options: str) -> list[bytes | None]:
        query = Query(stream_reader(cluster, subscribe=topic, **start, **options))
        if now:
            query.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
        for _ in range(5):
            query.step()
        return query.read

    with pytest.raises(DataLossError, match="ended at offset 15 and now ends at 10"):
        begun()
    assert begun(failOnDataLoss="false") == []


def test_a_restarted_driver_plans_the_same_ranges(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    for partition in range(3):
        fill(cluster, topic, numbered(100, 100 * partition), partition=partition)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "70", "minPartitions": "4"}
    query = Query(stream_reader(cluster, **options))
    query.step()
    query.plan()
    again = query.restarted(stream_reader(cluster, **options))
    start, end = json.loads(query.planned[0]), json.loads(query.planned[1])
    one = [partition.ranges for partition in query.reader.partitions(start, end)]  # type: ignore[attr-defined]
    other = [partition.ranges for partition in again.reader.partitions(start, end)]  # type: ignore[attr-defined]
    assert one == other
    assert sum(part.size for task in one for part in task) == 70
    while again.done < len(again.planned) or again.plan():
        again.run()
    assert sorted([*query.read, *again.read], key=lambda value: int(value or b"")) == numbered(300)


def test_caps(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(90))
    fill(cluster, topic, numbered(10, 90), partition=1)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "30"}
    query = Query(stream_reader(cluster, **options))
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(30)
    sizes = []
    while query.plan():
        sizes.append(len(query.run()))
    assert sizes == [30, 30, 30, 10]
    everything = Query(stream_reader(cluster, **options))
    assert len(everything.step(ReadAllAvailable())) == 100


def test_a_cap_in_bytes(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition, size in enumerate((1000, 100)):
        for _ in range(6):  # a fetch reads whole batches
            fill(cluster, topic, [b"x" * size] * 10, partition=partition)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "10000"}
    query = Query(stream_reader(cluster, **options))
    assert query.reader.getDefaultReadLimit() == ReadMaxBytes(10_000)
    found = []
    while query.plan():
        found.append(query.run())
    assert sum(map(len, found)) == 120
    assert all(len(b"".join(value or b"" for value in part)) < 20_000 for part in found), "close to the limit"
    assert 5 <= len(found) <= 12
    both = Query(stream_reader(cluster, **options, maxOffsetsPerTrigger="3"))
    assert [len(both.step()) for _ in range(2)] == [3, 3], "the smaller limit counts"
    assert len(Query(stream_reader(cluster, **options)).step(ReadAllAvailable())) == 120
    assert len(Query(stream_reader(cluster, **options | {"maxBytesPerTrigger": "1"})).step()) == 1
    with pytest.raises(ValueError, match="'maxBytesPerTrigger' must be from 1"):
        stream_reader(cluster, **options | {"maxBytesPerTrigger": "0"})


def test_a_cap_in_bytes_for_records_too_large_for_a_whole_sample(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    for _ in range(20):
        fill(cluster, topic, [b"x" * 300_000])
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxBytesPerTrigger": "1000000"}
    assert len(Query(stream_reader(cluster, **options)).step()) == 3


def test_rows_of_a_small_micro_batch_go_to_spark_with_its_plan(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for partition in range(2):
        fill(cluster, topic, numbered(40, 40 * partition), partition=partition)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "50"}

    def planned(reader: DataSourceStreamReader, start: dict[str, Any]) -> tuple[dict[str, Any], int, int]:
        """Return the end, the number of tasks, and PySpark's answer about rows."""
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        question, answer = BytesIO(), BytesIO()
        for text in (start, end):
            write_with_length(json.dumps(text).encode(), question)  # type: ignore[no-untyped-call]
        question.seek(0)
        runner.partitions_func(reader, source(cluster, **options), reader.schema, 1000, question, answer)  # type: ignore[attr-defined]
        answer.seek(0)
        number = partial(read_int, answer)
        tasks = number()
        for _ in range(tasks):
            answer.read(number())
        return end, tasks, number()

    one = stream_reader(cluster, **options, maxTasks="1")
    start = one.initialOffset()
    for _ in range(2):
        start, tasks, rows = planned(one, start)
        assert (tasks, rows) == (1, runner.NON_EMPTY_PYARROW_RECORD_BATCHES)
        assert one.reportLatestOffset() is not None
        assert not isinstance(one, _SimpleStreamReaderWrapper), "this class reports no lag"
    for more in ({"maxTasks": "2", "minPartitions": "2"}, {"maxTasks": "1", "includeHeaders": "true"}):
        reader = stream_reader(cluster, **options, **more)
        assert planned(reader, reader.initialOffset())[2] == runner.PREFETCHED_RECORDS_NOT_FOUND
    quick = stream_reader(cluster, **options)
    end, *answer = planned(quick, quick.initialOffset())
    assert answer == [2, runner.PREFETCHED_RECORDS_NOT_FOUND]
    assert planned(quick, end)[1:] == (1, runner.NON_EMPTY_PYARROW_RECORD_BATCHES), "one task is enough for them"
    # A task waits for a leader, and raises errors.
    held = cluster.faults.add("Fetch", hold=True)
    late = stream_reader(cluster, **options, maxTasks="1")
    end, *answer = planned(late, late.initialOffset())
    assert answer == [1, runner.PREFETCHED_RECORDS_NOT_FOUND]
    held.remove()
    assert planned(late, end)[1:] == (1, runner.PREFETCHED_RECORDS_NOT_FOUND), "it does not try each time"


def test_waiting_for_enough(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(3))
    options = {"subscribe": topic, "startingOffsets": "earliest", "minOffsetsPerTrigger": "5"}
    query = Query(stream_reader(cluster, **options, maxTriggerDelay="1h"))
    assert query.reader.getDefaultReadLimit() == ReadMinRows(5)
    assert query.step() == numbered(3), "the first one does not wait"
    fill(cluster, topic, numbered(4, 3))
    assert not query.plan()
    fill(cluster, topic, numbered(1, 7))
    assert query.step() == numbered(5, 3)
    fill(cluster, topic, numbered(1, 8))
    assert query.restarted(stream_reader(cluster, **options, maxTriggerDelay="0")).step() == numbered(1, 8)


def test_available_now_ends_where_it_began(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(100))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    limits = {"maxOffsetsPerTrigger": "40", "minOffsetsPerTrigger": "40"}
    query = Query(stream_reader(cluster, **options, **limits))
    query.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    while query.plan():
        query.run()
        fill(cluster, topic, [b"later"])
    assert query.read == numbered(100)
    # A query without a checkpoint that begins at the end reads no records, whatever arrives in between.
    latest = stream_reader(cluster, subscribe=topic)
    latest.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    fill(cluster, topic, [b"later"])
    query = Query(latest)
    assert query.step() == query.step() == []


def test_available_now_of_a_topic_that_is_created_again(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic, other = new_topic(), new_topic()
    for name in (topic, other):
        fill(cluster, name, numbered(10))
    options = {"subscribe": f"{topic},{other}", "startingOffsets": "earliest", "maxOffsetsPerTrigger": "10"}
    strict, tolerant = (Query(stream_reader(cluster, failOnDataLoss=fail, **options)) for fail in ("true", "false"))
    for query in (strict, tolerant):
        query.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
        assert sorted(query.step(), key=str) == sorted(numbered(5) * 2, key=str)
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, numbered(8, 100))
    fill(cluster, other, [b"later"])
    with pytest.raises(DataLossError, match=f"topic {topic} was deleted and created again"):
        strict.plan()
    while tolerant.plan():
        tolerant.run()
    assert sorted(tolerant.read[10:], key=str) == sorted([*numbered(5, 5), *numbered(8, 100)], key=str)


def test_a_restart_from_the_end_plans_nothing(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(5))
    query = Query(stream_reader(cluster, subscribe=topic))
    query.step()
    fill(cluster, topic, numbered(5, 5))
    assert query.step() == numbered(5, 5)
    again = query.restarted(stream_reader(cluster, subscribe=topic))
    again.reader.initialOffset()  # the query's position
    assert not again.plan(), "no micro-batch without records"


def test_a_restart_does_not_read_the_last_micro_batch(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(5))
    query = Query(stream_reader(cluster, subscribe=topic, startingOffsets="earliest"))
    assert query.step() == numbered(5)
    again = query.restarted(stream_reader(cluster, subscribe=topic))
    end = json.loads(again.planned[-1])
    assert again.reader.partitions(end, end) == []
    assert not again.plan()


def test_the_initial_offset_stays(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    reader = stream_reader(cluster, subscribe=topic)
    first = reader.initialOffset()
    fill(cluster, topic, [b"v"])
    assert reader.initialOffset() == first


def test_new_partitions_and_topics(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    query = Query(stream_reader(cluster, subscribePattern=f"{topic}.*"))
    query.step()
    cluster.add_partitions(topic, 2)
    fill(cluster, topic, numbered(3), partition=1)
    assert query.step() == numbered(3)
    cluster.create_topic(f"{topic}-more", 1)
    fill(cluster, f"{topic}-more", numbered(3, 3))
    assert query.step() == numbered(3, 3)


def test_a_topic_created_again(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, startingOffsets="earliest"))
    query.step()
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, numbered(20, 100))
    tolerant = query.restarted(stream_reader(cluster, subscribe=topic, failOnDataLoss="false"))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        query.plan()
    assert tolerant.step() == numbered(20, 100)


def test_a_planned_batch_of_a_topic_created_again(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    query = Query(stream_reader(cluster, **options))
    query.step()
    fill(cluster, topic, numbered(5, 10))
    query.plan()
    cluster.delete_topic(topic)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, numbered(20, 100))
    with pytest.raises(DataLossError, match="was deleted and created again"):
        query.restarted(stream_reader(cluster, **options)).run()
    tolerant = query.restarted(stream_reader(cluster, failOnDataLoss="false", **options))
    assert tolerant.run() == []
    assert tolerant.step() == numbered(20, 100)


def test_a_log_that_was_cut(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(5))
    fill(cluster, topic, numbered(5, 5))
    quick = {"subscribe": topic, "startingOffsets": "earliest", "dataLossTimeoutMs": "0"}
    query = Query(stream_reader(cluster, **quick))
    query.step()
    cluster.truncate(topic, 0, 5)
    assert not query.plan(), "a leader that was elected just now may not know better"
    assert not query.plan()
    with pytest.raises(DataLossError, match="ended at offset 10 and now ends at 5"):
        query.plan()


def test_a_log_that_was_cut_does_not_lift_the_cap(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(5))
    fill(cluster, topic, numbered(5, 5))
    fill(cluster, topic, numbered(7), partition=1)
    cluster.truncate(topic, 0, 5)
    options = {"failOnDataLoss": "false", "dataLossTimeoutMs": "0", "maxOffsetsPerTrigger": "2"}
    reader = stream_reader(cluster, subscribe=topic, **options)
    query = Query(reader, planned=[json.dumps({topic: {"0": 10, "1": 0}})], done=1)
    sizes = []
    while query.plan():
        sizes.append(len(query.run()))
    assert sizes == [2, 2, 2, 1]


def test_checkpoints_of_sparks_connector(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic), planned=[json.dumps({topic: {"0": 4}})], done=1)
    assert query.step() == numbered(6, 4)


def test_transactions(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    options = {"subscribe": topic, "startingOffsets": "earliest", "kafka__isolation__level": "read_committed"}
    transactions(cluster, topic, "cao")
    query = Query(stream_reader(cluster, **options))
    assert query.step() == numbered(10)
    assert not query.plan(), "what the open transaction holds back is not offered"


def test_a_checkpoint_beyond_an_open_transaction(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    transactions(cluster, topic, "co")
    options = {"subscribe": topic, "startingOffsets": "earliest", "dataLossTimeoutMs": "0"}
    query = Query(stream_reader(cluster, **options))
    assert query.step() == numbered(20)
    query.reader.stop()
    query = query.restarted(stream_reader(cluster, kafka__isolation__level="read_committed", **options))
    for _ in range(5):
        assert not query.plan(), "neither a loss nor records again"
    query.reader.stop()


def test_progress_for_group_tools(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": "earliest", "commitGroupId": "lag"}
    query = Query(stream_reader(cluster, **options))
    query.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    query.step()
    cluster.faults.add("OffsetCommit", delay_ms=300, count=1)
    assert not query.plan()  # Spark kills the process now

    async def committed() -> int | None:
        servers = cluster.bootstrap_servers
        async with Consumer(bootstrap_servers=servers, group_id="lag", enable_auto_commit=False) as consumer:
            found = await consumer.committed(TopicPartition(topic, 0))
            return None if found is None else found.offset

    assert asyncio.run(committed()) == 10
    query.reader.stop()
    # A coordinator that does not answer delays no micro-batch of an endless query.
    query = query.restarted(stream_reader(cluster, **options))
    held, before = cluster.faults.add("OffsetCommit", hold=True, count=1), cluster.requests.count("OffsetCommit")
    for first in (10, 20):
        fill(cluster, topic, numbered(10, first))
        assert query.step() == numbered(10, first)
    assert cluster.requests.count("OffsetCommit") == before + 1
    held.release()
    while asyncio.run(committed()) != 30:
        assert not query.plan()
    query.reader.stop()


def test_progress_that_may_not_be_committed_any_more(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    options = {"subscribe": topic, "startingOffsets": "earliest", "commitGroupId": "refused"}
    query = Query(stream_reader(cluster, **options))
    for refusal in (None, GroupAuthorizationFailedError, None):
        if refusal is not None:
            cluster.faults.add("OffsetCommit", error_code=refusal, count=2)
        for number in range(2):
            fill(cluster, topic, numbered(1, number))
            assert query.step() == numbered(1, number)
    query.reader.stop()
    query = query.restarted(stream_reader(cluster, **options))
    refused = cluster.faults.add("OffsetCommit", error_code=GroupAuthorizationFailedError)
    fill(cluster, topic, numbered(1))
    query.step()
    with pytest.raises(GroupAuthorizationFailedError):  # it was never allowed, as far as this driver knows
        query.plan()
    refused.remove()


def test_the_ends_are_known_in_no_time(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(6)
    reader = stream_reader(cluster, subscribe=topic, startingOffsets="earliest")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    before = cluster.requests.count()
    reader.latestOffset(start, ReadAllAvailable())
    # Metadata of the topic and of the leaders, and offsets from each broker.
    assert cluster.requests.count() - before <= 2 + len(cluster.broker_ids)
    reader.stop()


def test_readers_make_no_connection_before_they_are_asked(cluster: ClusterThread) -> None:
    before = cluster.requests.count("ApiVersions")
    pickle.loads(pickle.dumps(stream_reader(cluster, subscribe="t")))
    assert cluster.requests.count("ApiVersions") == before
