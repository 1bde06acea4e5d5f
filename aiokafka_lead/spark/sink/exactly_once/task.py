"""A task's part of a run: its rows in a transaction that stays open."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa
from pyspark import TaskContext

from ...._io.transactions.handover import OpenTransaction, hand_over
from ....producer import Producer
from ...client_loop import ClientLoop, client_loop, freeze_imports
from ..bulks import RecordColumns
from ..task import Sending, place
from .settings import ExactlyOnce, read

_log = logging.getLogger("aiokafka_lead.spark")


class Batch(NamedTuple):
    """The micro-batch to write."""

    query: str
    """The query's id, stored in its checkpoint."""
    number: int


class Run(NamedTuple):
    """One attempt at a micro-batch or a write, as sent to tasks."""

    name: str
    query: str | None
    """Query of the last micro-batch in the ledger when the run began."""
    batch: int

    def has(self, batch: Batch) -> bool:
        """Return True if the micro-batch was decided. Raises `ExactlyOnceError` for another query's ledger."""
        if self.query is None:
            return False
        if self.query == batch.query:
            if self.batch > batch.number:
                raise ExactlyOnceError(
                    f"batch {batch.number} comes after batch {self.batch}: the checkpoint was set back, or copied; "
                    "with another transactionalIdPrefix the query writes from here on again"
                )
            return self.batch == batch.number
        if batch.number > 0:
            raise ExactlyOnceError(
                f"the transactionalIdPrefix belongs to query {self.query}, which was at batch {self.batch}: "
                "give each query its own"
            )
        return False  # a new query takes over, for example after its checkpoint was deleted


class Share(NamedTuple):
    """The rows written by an attempt of a task."""

    run: str
    task: int
    rows: int
    opened: OpenTransaction | None
    """The transaction with its rows; None if it has none, or they were written before."""
    batch: Batch | None
    """None for the write of a DataFrame."""
    written_before: bool = False
    """True if the ledger already had the micro-batch."""


class ExactlyOnceError(Exception):
    """The micro-batch or the write does not count, and may be repeated."""


class TransactionsLostError(Exception):
    """The cluster aborted part of a decision before it could be committed. The rows of this part are lost."""


NAMELESS = "without a name"
"""Query of a numbered write outside streaming queries."""


def write_share(
    settings: ExactlyOnce,
    columns: RecordColumns,
    run: Run,
    batches: Iterable[pa.RecordBatch],
    *,
    streaming: bool,
) -> Share:
    """Write a task's rows and leave their transaction open. Raises `WriteError`, `ExactlyOnceError` or a KafkaError."""
    freeze_imports()
    context = TaskContext.get()
    if context is None:
        raise ExactlyOnceError("Spark does not say which task this is")
    task = context.partitionId()
    batch = _batch(context, settings, streaming)
    if batch is not None and run.has(batch):
        return Share(run.name, task, 0, None, batch, written_before=True)
    if task == 0 and batch is not None and batch.number > 0 and run.query is None:
        _log.warning(
            "there is no record of what '%s' wrote before batch %d: if that batch was interrupted, it is written again",
            settings.prefix,
            batch.number,
        )
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if task != 0 and first is None:
        return Share(run.name, task, 0, None, batch)
    loop = client_loop()
    name = settings.task_id(task, context.attemptNumber())
    with loop.started(lambda: settings.producer(name), settings.within_ms) as producer:
        if task == 0:
            loop.run(_check_run, settings, run)
        rows, opened = _write(loop, producer, columns, _chained(first, filled))
    return Share(run.name, task, rows, opened, batch)


def _batch(context: TaskContext, settings: ExactlyOnce, streaming: bool) -> Batch | None:
    query = context.getLocalProperty("sql.streaming.queryId")
    if not streaming:
        # In foreachBatch the query is known, except with Spark Connect. The micro-batch's number is used only if given
        # as batchId, because a micro-batch may have several writes.
        return None if settings.batch is None else Batch(query or NAMELESS, settings.batch)
    number = context.getLocalProperty("streaming.sql.batchId")
    if query is None or number is None:
        raise ExactlyOnceError("Spark does not say which micro-batch this is")
    return Batch(query, int(number))


async def _check_run(settings: ExactlyOnce, run: Run) -> None:
    """Raise `ExactlyOnceError` if a later run has begun."""
    found = await read(settings)
    if found is None or found.run != run.name:
        raise ExactlyOnceError(
            f"another run has taken over the transactionalIdPrefix '{settings.prefix}': another query has the same "
            "prefix or checkpoint, or this one was restarted"
        )


def _write(
    loop: ClientLoop, producer: Producer, columns: RecordColumns, batches: Iterable[pa.RecordBatch]
) -> tuple[int, OpenTransaction]:
    loop.run(producer.begin_transaction)
    sending = Sending(producer, place())
    rows = sending.write(loop, batches, columns)
    return rows, loop.run(hand_over, producer)


def _chained(first: pa.RecordBatch | None, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if first is not None:
        yield first
    yield from rest
