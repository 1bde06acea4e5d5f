"""The Spark source's readers against Apache Kafka, called as Spark's Python workers call them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import anyio
import confluent_kafka
import pytest
from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, DataSourceStreamReader
from pyspark.sql.streaming.datasource import ReadAllAvailable

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.data_source import KafkaDataSource
from aiokafka_lead.spark.source.progress import DataLossError

from .harness import KafkaCluster
from .support import make_consumer, make_producer

pytestmark = pytest.mark.timeout(600)

TopicName = Callable[[], str]


@pytest.fixture(autouse=True)
def _no_client_left() -> Iterator[None]:
    yield
    client_loop().close_idle()


def _reader(kafka: KafkaCluster, topic: str, **options: str) -> DataSourceReader:
    given = {"kafka.bootstrap.servers": kafka.bootstrap(), "subscribe": topic}
    source = KafkaDataSource(CaseInsensitiveDict({**given, **{k.replace("__", "."): v for k, v in options.items()}}))
    return source.reader(source.schema())


def _values(reader: DataSourceReader, after_batch: Callable[[int], None] = lambda at: None) -> list[bytes | None]:
    """Return all values, task by task; call ``after_batch`` after each Arrow batch."""
    found: list[bytes | None] = []
    at = 0
    for partition in reader.partitions():
        for batch in reader.read(partition):
            found += batch.column("value").to_pylist()  # type: ignore[union-attr]
            after_batch(at)
            at += 1
    return found


async def _write(kafka: KafkaCluster, topic: str, count: int, *, keys: int | None = None, partitions: int = 1) -> None:
    async with make_producer(kafka, linger_ms=0) as producer:
        for number in range(count):
            key = None if keys is None else b"k%d" % (number % keys)
            await producer.send(topic, b"%d" % number, key=key, partition=number % partitions)
            if number % 50 == 49:
                await producer.flush()  # many small batches
        await producer.flush()


def test_leaders_move_and_a_broker_dies_during_a_read(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = kafka.create_topic(topic_name(), partitions=3)
    anyio.run(lambda: _write(kafka, topic, 1500, partitions=3))
    killed = []

    def trouble(at: int) -> None:
        if at == 1:
            kafka.move_leader(topic, 1)
        if at == 3:
            killed.append(kafka.leader(topic))
            kafka.kill(killed[0])

    try:
        found = _values(_reader(kafka, topic, kafka__fetch__max__bytes="1000"), trouble)
    finally:
        for broker in killed:
            kafka.start_broker(broker)
        kafka.wait_in_sync(topic)
    assert killed
    assert sorted(int(value or b"") for value in found) == list(range(1500))


def test_transactions_and_their_control_records(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = kafka.create_topic(topic_name())
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap(), "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for i in range(10):
            producer.produce(topic, b"%d" % (number * 10 + i), partition=0)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    committed = [b"%d" % (10 * n + i) for n in (0, 2, 4) for i in range(10)]
    assert _values(_reader(kafka, topic, kafka__isolation__level="read_committed")) == committed
    assert _values(_reader(kafka, topic)) == [b"%d" % i for i in range(60)]


def test_a_compacted_topic_ends_without_false_alarm(kafka: KafkaCluster, topic_name: TopicName) -> None:
    compaction = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.001",
        "max.compaction.lag.ms": "100",
    }
    topic = kafka.create_topic(topic_name(), config=compaction)
    anyio.run(lambda: _write(kafka, topic, 2000, keys=20))

    async def offsets_left() -> list[int]:
        tp = TopicPartition(topic, 0)
        async with make_consumer(kafka) as consumer:
            consumer.assign([tp])
            found: list[int] = []
            end = (await consumer.end_offsets([tp]))[tp]
            while await consumer.position(tp) < end:
                for records in (await consumer.getmany(timeout_ms=500)).values():
                    found += [record.offset for record in records]
            return found

    deadline = time.monotonic() + 300
    while len(left := anyio.run(offsets_left)) >= 1500:
        assert time.monotonic() < deadline, "the broker does not compact"
    reader = _reader(kafka, topic)
    found = [
        offset
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for offset in batch.column("offset").to_pylist()  # type: ignore[union-attr]
    ]
    # Compaction may have run meanwhile, but never takes the last record of a key.
    assert set(found) <= set(left)
    assert max(found) == 1999


def test_a_first_micro_batch_is_repeated_from_where_it_began(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = kafka.create_topic(topic_name())
    anyio.run(lambda: _write(kafka, topic, 100))
    options = {"kafka.bootstrap.servers": kafka.bootstrap(), "subscribe": topic, "startingOffsets": "earliest"}

    def reader(**more: str) -> DataSourceStreamReader:
        source = KafkaDataSource(CaseInsensitiveDict({**options, **more}))
        return source.streamReader(source.schema())

    def read(again: DataSourceStreamReader) -> list[bytes | None]:
        found: list[bytes | None] = []
        for partition in again.partitions(again.initialOffset(), end):
            for batch in again.read(partition):
                found += batch.column("value").to_pylist()  # type: ignore[union-attr]
        return found

    async def cut() -> None:
        async with AdminClient(kafka.bootstrap()) as admin:
            await admin.delete_records({TopicPartition(topic, 0): 60})

    first = reader()
    end = first.latestOffset(first.initialOffset(), ReadAllAvailable())
    anyio.run(cut)
    with pytest.raises(DataLossError, match=r"offsets 0 to 59 of .* are gone"):
        read(reader())
    assert read(reader(failOnDataLoss="false")) == [b"%d" % number for number in range(60, 100)]
