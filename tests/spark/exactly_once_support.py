"""The steps of a micro-batch without a JVM: of the driver and of each task, either of which may die."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema

from aiokafka_lead.spark.client_loop import client_loop
from aiokafka_lead.spark.sink.exactly_once.settings import Entry, ExactlyOnce, exactly_once, write

from .support import Servers, read, source

ROWS = pa.schema([("value", pa.binary())])
QUERY = "11111111-2222-3333-4444-555555555555"
Writer = DataSourceArrowWriter | DataSourceStreamArrowWriter


@contextmanager
def in_task(task: int, attempt: int, query: str, batch: int) -> Iterator[None]:
    """Set up the environment that Spark's worker gives a task."""
    properties = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(batch)}
    TaskContext._setTaskContext(TaskContext(partitionId=task, attemptNumber=attempt, localProperties=properties))
    try:
        yield
    finally:
        TaskContext._setTaskContext(None)


class MicroBatch:
    """One attempt at a micro-batch, with a new driver."""

    def __init__(self, cluster: Servers, topic: str, number: int = 0, *, query: str = QUERY, **options: str) -> None:
        self.query, self.number = query, number
        self._source = source(
            cluster, **{"topic": topic, "exactlyOnce": "true", "transactionalIdPrefix": topic, **options}
        )
        self._pickled = pickle.dumps(self._writer())

    def _writer(self) -> Any:
        return self._source.streamWriter(from_arrow_schema(ROWS), overwrite=False)

    def write(self, values: Sequence[bytes], task: int = 0, attempt: int = 0) -> WriterCommitMessage:
        """Run one task."""
        writer: Writer = pickle.loads(self._pickled)
        rows = pa.record_batch([pa.array(values, pa.binary())], schema=ROWS)
        with in_task(task, attempt, self.query, self.number):
            message = writer.write(iter([rows] if values else []))
        found: WriterCommitMessage = pickle.loads(pickle.dumps(message))
        return found

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit as the driver; if that fails, Spark aborts."""
        try:
            self._writer().commit(list(messages), self.number)
        except BaseException:
            self._writer().abort(list(messages), self.number)
            raise

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort as the driver after a task has failed."""
        self._writer().abort(list(messages), self.number)

    def run(self, *shares: Sequence[bytes]) -> None:
        """Run the whole micro-batch: a task for each share."""
        self.commit([self.write(values, task) for task, values in enumerate(shares)])


def counted(cluster: Servers, topic: str) -> list[bytes]:
    """Return the values that readers of committed records see, sorted."""
    found = read(cluster, subscribe=topic, kafka__isolation__level="read_committed")
    return sorted(row["value"] for row in found)


def settings_of(cluster: Servers, topic: str) -> ExactlyOnce:
    given = source(cluster, topic=topic, exactlyOnce="true", transactionalIdPrefix=topic).options
    found = exactly_once(given, streaming=True)
    assert found is not None
    return found


def decide(cluster: Servers, topic: str, messages: list[Any]) -> None:
    """Let the driver die after its decision, before it commits the other tasks' transactions."""
    settings = settings_of(cluster, topic)
    shares = [message.share for message in messages]
    others = tuple(share.opened for share in shares[1:] if share.opened is not None)
    query, number = shares[0].batch
    with client_loop().started(lambda: settings.resumed(shares[0].opened), settings.within_ms) as producer:
        entry = Entry(shares[0].run, True, query, number, 1_700_000_000_000, others)
        client_loop().run(write, settings, producer, entry)
