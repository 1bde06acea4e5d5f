"""Outages of all brokers: queries and tasks wait until their timeouts, even if they begin during the outage."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable

from aiokafka_lead.errors import KafkaConnectionError, SslAuthenticationError
from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.thread import ClusterThread

from ..io.script import Certificates
from .exactly_once_support import MicroBatch, counted
from .support import batch_reader, batches, fill, numbered, rows, source, stored_values, stream_reader, values

NewTopic = Callable[..., str]
OUTAGE_S = 1.5


@contextmanager
def outage(cluster: ClusterThread, seconds: float = OUTAGE_S) -> Iterator[None]:
    """Stop all brokers and close connections; restart them after the time, or at the end of the block."""
    brokers = [broker for broker in cluster.broker_ids if cluster.is_running(broker)]
    over = threading.Event()

    def end() -> None:
        over.wait(seconds)
        for broker in brokers:
            cluster.start_broker(broker)

    client_loop().close_idle()
    for broker in brokers:
        cluster.kill_broker(broker)
    back = threading.Thread(target=end)
    back.start()
    try:
        yield
    finally:
        over.set()
        back.join()


def test_planning_begins_in_an_outage(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic)
    with outage(cluster):
        partitions = reader.partitions()
    assert values(rows(reader, partitions)) == numbered(10)


def test_a_reading_task_begins_in_an_outage(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic)
    partitions = reader.partitions()
    with outage(cluster):
        assert values(rows(reader, partitions)) == numbered(10)


def test_a_reading_task_waits_longer_than_one_question_may_take(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    for first in range(0, 300, 10):
        fill(cluster, topic, numbered(10, first))
    quick = {"kafka__request__timeout__ms": "1500", "kafka__default__api__timeout__ms": "1500"}
    reader = batch_reader(cluster, subscribe=topic, kafka__fetch__max__bytes="100", **quick)
    (partition,) = reader.partitions()
    reading = batches(reader, partition)
    found = values(next(reading).to_pylist())
    assert len(found) < 300
    with outage(cluster, 4):
        for batch in reading:
            found += values(batch.to_pylist())
    assert found == numbered(300)


def test_a_reading_task_ends_where_brokers_stay_away(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = batch_reader(cluster, subscribe=topic, kafkaConsumer__pollTimeoutMs="500")
    partitions = reader.partitions()
    with outage(cluster, 30), pytest.raises(KafkaConnectionError, match="no bootstrap server could be used"):
        rows(reader, partitions)


def test_a_writing_task_begins_in_an_outage(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    row = pa.record_batch([pa.array(numbered(10), pa.binary())], names=["value"])
    writer = source(cluster, topic=topic).writer(from_arrow_schema(row.schema), overwrite=False)
    assert isinstance(writer, DataSourceArrowWriter)
    with outage(cluster):
        writer.write(iter([row]))
    assert stored_values(cluster, topic) == numbered(10)


def test_a_decision_of_exactly_once_begins_in_an_outage(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    run = MicroBatch(cluster, topic)
    written = [run.write([b"a"], 0), run.write([b"b"], 1)]
    with outage(cluster):
        run.commit(written)
    with outage(cluster):
        run = MicroBatch(cluster, topic, 1)
    run.run([b"c"])
    assert counted(cluster, topic) == [b"a", b"b", b"c"]


def test_a_listener_with_tls_is_no_outage() -> None:
    with ClusterThread(EmbeddedCluster(brokers=1, ssl_context=Certificates().server("localhost"))) as secured:
        for servers in (secured.bootstrap_servers, f"localhost:{secured.bootstrap_servers.rpartition(':')[2]}"):
            reader = batch_reader(secured, subscribe="t", **{"kafka.bootstrap.servers": servers})
            with pytest.raises(SslAuthenticationError, match=rf"{servers} requires TLS; set kafka\.security\.protocol"):
                reader.partitions()


def test_a_streams_driver_meets_outages(cluster: ClusterThread, new_topic: NewTopic) -> None:
    topic = new_topic()
    fill(cluster, topic, numbered(10))
    reader = stream_reader(cluster, subscribe=topic, startingOffsets="earliest", commitGroupId="outage")
    with outage(cluster):
        start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    with outage(cluster):
        partitions = reader.partitions(start, end)
        assert values(rows(reader, partitions)) == numbered(10)
        reader.commit(end)
        assert reader.latestOffset(end, ReadAllAvailable()) == end
    reader.stop()
