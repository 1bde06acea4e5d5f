"""Helpers that fill a topic and read it as Spark would, with and without a JVM."""

from __future__ import annotations

import asyncio
import json
import pickle
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, Protocol

import confluent_kafka
import pyarrow as pa
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit

from aiokafka_lead import Producer
from aiokafka_lead.spark.data_source import KafkaDataSource
from aiokafka_lead.testing.thread import ClusterThread

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ROWS = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)


def fill(
    cluster: ClusterThread, topic: str, content: Iterable[bytes | None], *, partition: int = 0, **more: Any
) -> None:
    """Write values into one partition."""

    async def write() -> None:
        async with Producer(cluster.bootstrap_servers) as producer:
            for outcome in await (await producer.send_many(topic, list(content), partition=partition, **more)):
                assert not isinstance(outcome, BaseException), outcome

    asyncio.run(write())


def transactions(cluster: ClusterThread, topic: str, outcomes: str, *, size: int = 10) -> None:
    """Write transactions of numbered records: one for each letter, "c" to commit, "a" to abort, "o" to leave open."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    for number, outcome in enumerate(outcomes):
        producer.begin_transaction()
        for i in range(size):
            producer.produce(topic, b"%d" % (number * size + i), partition=0)
        producer.flush(30)
        if outcome == "c":
            producer.commit_transaction(30)
        elif outcome == "a":
            producer.abort_transaction(30)


class Servers(Protocol):
    """A cluster, embedded or not, as seen by a query."""

    @property
    def bootstrap_servers(self) -> str: ...


def source(cluster: Servers, **options: str) -> KafkaDataSource:
    """Return the data source with options in Spark's form."""
    given = {"kafka.bootstrap.servers": cluster.bootstrap_servers, **options}
    return KafkaDataSource(CaseInsensitiveDict({name.replace("__", "."): value for name, value in given.items()}))


def batch_reader(cluster: Servers, **options: str) -> DataSourceReader:
    """Return the reader of a batch query."""
    found = source(cluster, **options)
    return found.reader(found.schema())


def stream_reader(cluster: ClusterThread, **options: str) -> DataSourceStreamReader:
    """Return the reader of a streaming query."""
    found = source(cluster, **options)
    return found.streamReader(found.schema())


def rows(
    reader: DataSourceReader | DataSourceStreamReader, partitions: Sequence[InputPartition]
) -> list[dict[str, Any]]:
    """Return the rows of all tasks."""
    found: list[dict[str, Any]] = []
    for partition in partitions:
        for batch in batches(reader, partition):
            found += batch.to_pylist()
    return found


def batches(
    reader: DataSourceReader | DataSourceStreamReader, partition: InputPartition
) -> Generator[pa.RecordBatch, None, None]:
    """Return the batches of one task."""
    for batch in reader.read(partition):
        assert isinstance(batch, pa.RecordBatch)
        yield batch


def read(cluster: Servers, **options: str) -> list[dict[str, Any]]:
    """Run a whole batch query; return its rows."""
    reader = batch_reader(cluster, **options)
    return rows(reader, reader.partitions())


def table(schema: pa.Schema = ROWS, **columns: Sequence[Any]) -> list[pa.RecordBatch]:
    """Return some of the columns, as one Arrow batch."""
    wanted = pa.schema([field for field in schema if field.name in columns])
    return [pa.record_batch([pa.array(columns[f.name], f.type) for f in wanted], schema=wanted)]


def write(cluster: ClusterThread, batches: list[pa.RecordBatch], *, stream: bool = False, **options: str) -> int:
    """Run a task with a pickled writer, as Spark does; return its reported number of rows."""
    found = source(cluster, **options)
    schema = from_arrow_schema(batches[0].schema)
    writer = found.streamWriter(schema, overwrite=False) if stream else found.writer(schema, overwrite=False)
    task = pickle.loads(pickle.dumps(writer))
    assert isinstance(task, DataSourceArrowWriter | DataSourceStreamArrowWriter)
    message = pickle.loads(pickle.dumps(task.write(iter(batches))))
    rows: int = message.rows
    return rows


def connections_end(cluster: ClusterThread, timeout_s: float = 30) -> bool:
    """Return True if the brokers see all connections close within the time."""
    deadline = time.monotonic() + timeout_s
    while sum(cluster.connection_count(broker) for broker in cluster.broker_ids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def values(found: Iterable[Mapping[str, Any]]) -> list[bytes | None]:
    """Return the rows' values."""
    return [row["value"] for row in found]


def numbered(count: int, start: int = 0) -> list[bytes]:
    """Return numbered values."""
    return [b"%d" % number for number in range(start, start + count)]


def stored_values(cluster: ClusterThread, topic: str, partition: int = 0) -> list[bytes | None]:
    """Return the values in a partition's log."""
    return [record.value for record in cluster.records(topic, partition)]


class Query:
    """A small streaming engine with its checkpoint, like Spark's MicroBatchExecution."""

    def __init__(self, reader: DataSourceStreamReader, *, planned: list[str] | None = None, done: int = 0) -> None:
        self.reader = reader
        self.planned: list[str] = planned or []
        """Offset log: the end of each micro-batch, as text."""
        self.done = done
        """Commit log: the number of finished micro-batches."""
        self.rows: list[dict[str, Any]] = []

    def _start(self, batch: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.planned[batch - 1]) if batch else self.reader.initialOffset()
        return found

    def plan(self, limit: ReadLimit | None = None) -> bool:
        """Plan the next micro-batch; return False without new records."""
        start = self._start(len(self.planned))
        end = json.dumps(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit()))
        if self.planned and end == self.planned[-1]:
            return False
        self.planned.append(end)
        return True

    def run(self) -> list[bytes | None]:
        """Run the micro-batch planned last; return its rows."""
        assert self.done == len(self.planned) - 1
        partitions = self.reader.partitions(self._start(self.done), json.loads(self.planned[-1]))
        task = pickle.loads(pickle.dumps(self.reader)) if self.reader._driver is None else self.reader  # type: ignore[attr-defined]
        found = rows(task, partitions)
        self.done += 1
        self.rows += found
        return values(found)

    @property
    def read(self) -> list[bytes | None]:
        """Return the values of all micro-batches."""
        return values(self.rows)

    def step(self, limit: ReadLimit | None = None) -> list[bytes | None]:
        """Run one trigger."""
        return self.run() if self.plan(limit) else []

    def restarted(self, reader: DataSourceStreamReader) -> Query:
        """Return the same query with a new driver."""
        return Query(reader, planned=list(self.planned), done=self.done)
