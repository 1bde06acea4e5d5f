"""Step of a run in each task: write the rows in a transaction, and leave it open for the driver."""

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
    """Identity of a micro-batch, or of a DataFrame write with the option ``batchId``."""

    query: str
    """Id of the query, which Spark stores in the checkpoint."""
    number: int


class Run(NamedTuple):
    """One attempt at a micro-batch or write, which the driver sends to tasks."""

    name: str
    query: str | None
    """Query of the last decision in the ledger when the run began; None without a decision."""
    batch: int
    """Micro-batch of that decision."""
    began_s: float
    """Monotonic time at which the run began, by the clock of the driver's machine."""

    def has(self, batch: Batch) -> bool:
        """Return True if the ledger has a decision for this micro-batch.

        Raises `ExactlyOnceError` if the ledger belongs to another query, or contains a later micro-batch.
        """
        if self.query is None:
            return False
        if self.query == batch.query:
            if self.batch > batch.number:
                raise ExactlyOnceError(
                    f"batch {batch.number} follows batch {self.batch}, so the checkpoint was reset or copied. To write "
                    "again from this batch on, set another transactionalIdPrefix"
                )
            return self.batch == batch.number
        if batch.number > 0:
            raise ExactlyOnceError(
                f"the transactionalIdPrefix belongs to query {self.query}, which has written batch {self.batch}; "
                "set a different prefix for each query"
            )
        return False  # a new query takes over the prefix, for example after the checkpoint was deleted


class Share(NamedTuple):
    """Result of a task attempt, sent to the driver: the rows written and their open transaction."""

    run: str
    began_s: float
    """Monotonic time at which the run began, by the clock of the driver's machine."""
    task: int
    rows: int
    opened: OpenTransaction | None
    """Open transaction with the rows; None if there are no rows, or if they were written before."""
    batch: Batch | None
    """None for a write of a DataFrame without a number."""
    written_before: bool = False
    """True if the ledger already had a decision for the micro-batch."""


class ExactlyOnceError(Exception):
    """A micro-batch or write failed without visible rows, or one that is decided is not completely committed yet."""


class TransactionsLostError(Exception):
    """The cluster aborted transactions of a micro-batch after others were committed, so some of its rows are lost."""


NAMELESS = "without a name"
"""Value of `Batch.query` for a write with ``batchId`` outside of a streaming query."""


def write_share(
    settings: ExactlyOnce,
    columns: RecordColumns,
    run: Run,
    batches: Iterable[pa.RecordBatch],
    *,
    streaming: bool,
) -> Share:
    """Write the rows of a task in a transaction, and leave it open. Called in the task.

    Writes no rows if ``run`` says that the ledger already has a decision for the micro-batch. Raises `WriteError`,
    `ExactlyOnceError` or a KafkaError.
    """
    freeze_imports()
    context = TaskContext.get()
    if context is None:
        raise ExactlyOnceError("Spark has not provided the id of this task")
    task = context.partitionId()
    batch = _batch(context, settings, streaming)
    if batch is not None and run.has(batch):
        return Share(run.name, run.began_s, task, 0, None, batch, written_before=True)
    if task == 0 and batch is not None and batch.number > 0 and run.query is None:
        _log.warning(
            "transactionalIdPrefix '%s' has no ledger from before batch %d; if an earlier attempt has committed rows "
            "of this batch, they are written again",
            settings.prefix,
            batch.number,
        )
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if task != 0 and first is None:
        return Share(run.name, run.began_s, task, 0, None, batch)
    loop = client_loop()
    name = settings.task_id(task, context.attemptNumber())
    with loop.started(lambda: settings.producer(name), settings.within_ms) as producer:
        if task == 0:
            loop.run(_check_run, settings, run)
        rows, opened = _write(loop, producer, columns, _chained(first, filled))
    return Share(run.name, run.began_s, task, rows, opened, batch)


def _batch(context: TaskContext, settings: ExactlyOnce, streaming: bool) -> Batch | None:
    query = context.getLocalProperty("sql.streaming.queryId")
    if not streaming:
        # In foreachBatch, Spark provides the query's id, except with Spark Connect. The number of the micro-batch is
        # not used, because it may contain several writes: the user must set batchId.
        return None if settings.batch is None else Batch(query or NAMELESS, settings.batch)
    number = context.getLocalProperty("streaming.sql.batchId")
    if query is None or number is None:
        raise ExactlyOnceError("Spark has not provided the query id and number of this micro-batch")
    return Batch(query, int(number))


async def _check_run(settings: ExactlyOnce, run: Run) -> None:
    """Raise `ExactlyOnceError` if another run has begun in the meantime."""
    found = await read(settings)
    if found is None or found.run != run.name:
        raise ExactlyOnceError(
            f"another run has taken over the transactionalIdPrefix '{settings.prefix}', because another query uses the "
            "same prefix or checkpoint, or this query was restarted"
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
