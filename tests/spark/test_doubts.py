"""Metadata that lies for a while: a stream keeps its offsets, and reports a loss only if it is certain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from aiokafka_lead import Consumer, RecordBatch, TopicPartition
from aiokafka_lead.errors import KafkaError, TopicAuthorizationFailedError, UnknownTopicOrPartitionError
from aiokafka_lead.spark.source.columns import Piece
from aiokafka_lead.spark.source.driver import Doubts
from aiokafka_lead.spark.source.progress import CheckpointError, DataLossError, Progress
from aiokafka_lead.spark.source.range_reader import RangeReader
from aiokafka_lead.spark.source.ranges import OffsetRange
from aiokafka_lead.testing.thread import ClusterThread

from .support import Query, batch_reader, fill, numbered, rows, stream_reader, values

NewTopic = Callable[..., str]
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
KNOWN = Progress({T0: 5, T1: 7}, {"t": "id"})
QUICK = {"startingOffsets": "earliest", "kafka__retry__backoff__ms": "1", "kafka__retry__backoff__max__ms": "1"}
AT_ONCE = {**QUICK, "dataLossTimeoutMs": "0", "fetchOffset__retryIntervalMs": "1"}


def test_what_is_missing_keeps_its_offset() -> None:
    doubts = Doubts(10)
    settled = doubts.settle(KNOWN, Progress({}), 0)
    assert (settled.ends, settled.losses, settled.in_doubt) == (KNOWN, [], {T0, T1})
    for now in (9, 9.5, 9.9):
        assert doubts.settle(KNOWN, Progress({T0: 9}, {"t": "id"}), now).ends.offsets == {T0: 9, T1: 7}


def test_a_loss_takes_time_and_answers() -> None:
    doubts = Doubts(10)
    assert not doubts.settle(KNOWN, Progress({}), 0).losses
    assert not doubts.settle(KNOWN, Progress({}), 60).losses, "two answers, however far from each other"
    settled = doubts.settle(KNOWN, Progress({}), 61, refusals={"t": "no such topic"})
    assert settled.losses == [f"partition {tp} has been missing for 10 s: no such topic" for tp in (T0, T1)]
    assert settled.ends == KNOWN, "it might come back"
    assert doubts.settle(KNOWN, Progress({}), 62).losses == [], "said once"


def test_one_good_answer_ends_the_doubt() -> None:
    doubts = Doubts(0)
    for now in range(10):
        assert not doubts.settle(KNOWN, KNOWN if now % 2 else Progress({}), now).losses


def test_a_shorter_log_is_believed_later() -> None:
    doubts, cut = Doubts(0), Progress({T0: 5, T1: 2}, {"t": "id"})
    assert [doubts.settle(KNOWN, cut, now).ends.offsets[T1] for now in range(3)] == [7, 7, 2]


def test_partitions_that_are_not_read_any_more() -> None:
    settled = Doubts(10).settle(KNOWN, Progress({T0: 5}, {"t": "id"}), 0, unread={T1})
    assert settled.losses == ["partition t-1 is no longer selected by the options"]
    assert settled.ends.offsets == {T0: 5}


@pytest.mark.parametrize("selection", ["subscribe", "subscribePattern"])
@pytest.mark.parametrize("fail", ["true", "false"])
@pytest.mark.parametrize("error", [UnknownTopicOrPartitionError, TopicAuthorizationFailedError])
def test_a_topic_that_is_hidden(
    cluster: ClusterThread,
    new_topic: NewTopic,
    selection: str,
    fail: str,
    error: type[UnknownTopicOrPartitionError | TopicAuthorizationFailedError],
) -> None:
    topic, other = new_topic(), new_topic()
    text = f"{topic},{other}" if selection == "subscribe" else f"^({topic}|{other})$"
    fill(cluster, topic, numbered(10))
    options: dict[str, str] = {selection: text, "failOnDataLoss": fail, **QUICK}
    query = Query(stream_reader(cluster, **options))
    assert query.step() == numbered(10)
    fill(cluster, topic, numbered(5, 10))
    hidden = cluster.faults.add("Metadata", topic=topic, error_code=error)
    assert not query.plan()
    fill(cluster, other, [b"other"])
    assert query.step() == [b"other"]
    query = query.restarted(stream_reader(cluster, **options))
    assert not query.plan()
    hidden.remove()
    assert query.step() == numbered(5, 10)


@pytest.mark.parametrize("api", ["Fetch", "Metadata"])
def test_a_task_waits_for_a_topic_that_it_may_not_read(cluster: ClusterThread, new_topic: NewTopic, api: str) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic, **QUICK)
    partitions = reader.partitions()
    cluster.faults.add(api, topic=topic, error_code=TopicAuthorizationFailedError, count=1)
    assert values(rows(reader, partitions)) == numbered(10)
    reader = batch_reader(cluster, subscribe=topic, **AT_ONCE)
    hidden = cluster.faults.add("Fetch", topic=topic, error_code=TopicAuthorizationFailedError)
    with pytest.raises(TopicAuthorizationFailedError):
        rows(reader, reader.partitions())
    hidden.remove()


async def chunks(
    consumer: Consumer[bytes | None, bytes | None], ranges: list[OffsetRange]
) -> AsyncIterator[list[Piece]]:
    """Read ranges with this consumer."""
    reader = RangeReader(consumer, ranges, {}, fail_on_data_loss=True, timeout_ms=20_000, loss_timeout_ms=20_000)
    await reader.begin()
    while (pieces := await reader.chunk()) is not None:
        yield pieces


class Interrupted(Consumer[bytes | None, bytes | None]):
    """Reports an error between two batches that have already arrived, as it does if a broker lags."""

    errors: Sequence[KafkaError] = ()

    def batches(self) -> AsyncIterator[RecordBatch[bytes | None, bytes | None]]:
        arrived = super().batches()

        async def found() -> AsyncIterator[RecordBatch[bytes | None, bytes | None]]:
            yield await anext(arrived)
            if self.errors:
                first, *self.errors = self.errors
                raise first
            async for batch in arrived:
                yield batch

        return found()


@pytest.mark.parametrize("error", [UnknownTopicOrPartitionError, TopicAuthorizationFailedError])
def test_an_error_between_two_batches_loses_no_record(
    cluster: ClusterThread, new_topic: NewTopic, error: type[KafkaError]
) -> None:
    topic = new_topic()
    for first in range(0, 1000, 100):
        fill(cluster, topic, numbered(100, first))

    async def read_all() -> list[int]:
        offsets: list[int] = []
        async with Interrupted(bootstrap_servers=cluster.bootstrap_servers, max_poll_records=100) as consumer:
            consumer.errors = [error("another topic cannot be seen")]
            async for pieces in chunks(consumer, [OffsetRange(topic, 0, 0, 1000)]):
                for batch, count in pieces:
                    offsets += batch.offsets[:count]
            assert not consumer.errors
        return offsets

    assert asyncio.run(read_all()) == list(range(1000))


class Assigned(Consumer[bytes | None, bytes | None]):
    """Counts the partitions of all assignments."""

    count = 0

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = list(partitions)
        self.count += len(wanted)
        super().assign(wanted)


def test_ends_of_many_partitions_cost_few_assignments(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(50)
    for partition in range(50):
        fill(cluster, topic, numbered(5), partition=partition)

    async def read_all() -> tuple[list[tuple[int, int]], int]:
        found: list[tuple[int, int]] = []
        async with Assigned(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            # Records follow after each range, and some partitions have two ranges.
            ranges = [OffsetRange(topic, partition, 0, 3) for partition in range(50)]
            ranges += [OffsetRange(topic, partition, 4, 5) for partition in range(0, 50, 2)]
            async for pieces in chunks(consumer, ranges):
                for batch, count in pieces:
                    found += [(batch.partition, offset) for offset in batch.offsets[:count]]
            assert consumer.assignment() == frozenset()
            return found, consumer.count

    found, assigned = asyncio.run(read_all())
    assert sorted(found) == [(at, n) for at in range(50) for n in range(5) if n < 3 or (n == 4 and at % 2 == 0)]
    assert assigned <= 2 * 50


def test_a_partition_whose_leader_does_not_know_it(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, **QUICK))
    assert query.step() == numbered(10)
    fill(cluster, topic, [b"1"], partition=1)
    lost = cluster.faults.add("ListOffsets", topic=topic, partition=0, error_code=UnknownTopicOrPartitionError)
    assert query.step() == [b"1"]
    lost.remove()
    assert not query.plan()


def test_one_broker_that_knows_no_topics(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    query = Query(stream_reader(cluster, subscribe=topic, **AT_ONCE))
    query.step()
    lagging = cluster.faults.add("Metadata", broker=1, topic=topic, error_code=UnknownTopicOrPartitionError)
    for number in range(10):
        fill(cluster, topic, [b"%d" % number], partition=number % 3)
        assert query.step() == [b"%d" % number]
    lagging.remove()


def _lose(query: Query) -> None:
    """Trigger until a loss is certain."""
    for _ in range(5):
        assert not query.plan()


def test_a_deleted_topic_is_a_loss_that_the_checkpoint_does_not_have(
    cluster: ClusterThread, new_topic: NewTopic
) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, **AT_ONCE))
    query.step()
    planned = list(query.planned)
    cluster.delete_topic(topic)
    with pytest.raises(DataLossError, match=r"has been missing for 0 s: .*: The broker does not know this topic"):
        _lose(query)
    assert query.planned == planned
    tolerant = query.restarted(stream_reader(cluster, subscribe=topic, failOnDataLoss="false", **AT_ONCE))
    _lose(tolerant)
    cluster.create_topic(topic, 1)
    fill(cluster, topic, numbered(5, 100))
    assert tolerant.step() == numbered(5, 100), "another topic of that name is read from its beginning"


@pytest.mark.parametrize(("done", "fail"), [(0, "false"), (1, "true")])
def test_a_planned_batch_of_a_topic_that_was_deleted(
    cluster: ClusterThread, new_topic: NewTopic, done: int, fail: str
) -> None:
    topic, other = new_topic(), new_topic()
    options = {"subscribe": f"{topic},{other}", "maxTasks": "1", **AT_ONCE}
    query = Query(stream_reader(cluster, **options))
    for _ in range(done):
        query.step()
    fill(cluster, topic, numbered(10))
    fill(cluster, other, [b"other"])
    query.plan()
    cluster.delete_topic(topic)
    again = query.restarted(stream_reader(cluster, failOnDataLoss=fail, **options))
    if fail == "true":
        with pytest.raises(DataLossError, match=rf"partition {topic}-0 has been missing for 0 s: no broker knows it"):
            again.run()
    else:
        assert again.run() == [b"other"]
        assert not again.plan()
        fill(cluster, other, [b"another"])
        assert again.step() == [b"another"]
    assert topic not in cluster.topic_names(), "a reader creates no topic"


def test_a_batch_query_of_a_topic_that_was_deleted(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic, failOnDataLoss="false", **AT_ONCE)
    partitions = reader.partitions()
    cluster.delete_topic(topic)
    assert rows(reader, partitions) == []


def test_a_start_that_is_not_found_matters_to_a_new_query_alone(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    options = {"subscribe": topic, "startingOffsets": f'{{"{topic}":{{"0":5}}}}'}
    query = Query(stream_reader(cluster, **options))
    query.plan()
    cluster.add_partitions(topic, 2)
    assert query.restarted(stream_reader(cluster, **options)).run() == numbered(5, 5)
    for planned in ([], [json.dumps({topic: {"0": 10}})]):  # a new query, and a first micro-batch of the connector
        again = Query(stream_reader(cluster, **options), planned=planned)
        with pytest.raises(ValueError, match="offsets must be given for all partitions"):
            again.run() if planned else again.plan()


def test_a_topic_that_comes_back_after_its_loss_was_reported(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, failOnDataLoss="false", **AT_ONCE))
    query.step()
    hidden = cluster.faults.add("Metadata", topic=topic, error_code=UnknownTopicOrPartitionError)
    _lose(query)
    hidden.remove()
    fill(cluster, topic, numbered(5, 10))
    assert query.step() == numbered(5, 10)


def test_a_query_that_ends_waits_until_it_is_certain(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=topic, **AT_ONCE))
    query.step()
    cluster.delete_topic(topic)
    now = query.restarted(stream_reader(cluster, subscribe=topic, **AT_ONCE))
    now.reader.prepareForTriggerAvailableNow()  # type: ignore[attr-defined]
    with pytest.raises(DataLossError, match="has been missing"):
        now.plan()


def test_a_checkpoint_that_lacks_a_topic_says_how_to_mend_it(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic, other = new_topic(), new_topic()
    fill(cluster, topic, numbered(10))
    query = Query(stream_reader(cluster, subscribe=f"{topic},{other}", **AT_ONCE))
    query.step()
    query.planned.append(json.dumps({other: {"0": 0}}))
    for fail in ("true", "false"):
        reader = stream_reader(cluster, subscribe=f"{topic},{other}", failOnDataLoss=fail, **AT_ONCE)
        with pytest.raises(CheckpointError, match=rf"did not report {topic}-0\. .*'offsets', delete the file"):
            query.restarted(reader).run()
    mended = Query(reader, planned=query.planned[:-1], done=1)
    fill(cluster, topic, numbered(5, 10))
    assert mended.step() == numbered(5, 10)


def test_a_new_partition_whose_beginning_is_not_known_at_once(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    query = Query(stream_reader(cluster, subscribe=topic, **QUICK, fetchOffset__retryIntervalMs="1"))
    query.step()
    cluster.add_partitions(topic, 2)
    fill(cluster, topic, numbered(3), partition=1)
    assert query.plan(ReadAllAvailable())
    cluster.faults.add("ListOffsets", topic=topic, partition=1, error_code=UnknownTopicOrPartitionError, count=6)
    assert query.run() == numbered(3)
