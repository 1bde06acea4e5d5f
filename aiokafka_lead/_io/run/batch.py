"""The records of one transaction of `Consumer.run`: takes them, runs their handlers, and returns their offsets."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Container, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio

from ... import errors
from ..._core.consumer.reading import Reading
from ..._core.run.exactly_once import Attempts, HandlerFailure
from ..._core.run.following import Undo
from ..._core.run.handler import NoAwaitableError
from ..._core.run.options import RunConfig
from ..._core.run.refusals import is_outage
from ..._core.run.work import HandlerSlot, Work
from ..._options.logs import ClientLog
from ..._records import ConsumerRecord
from ...types import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from ..group.commits import Commits
from ..loop import Signal, Waiter
from .batches import Calls, TransactionBatches
from .handling import Intake
from .outgoing import Sending
from .routing import Routing
from .workers import Worker, Workers

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery


Record = ConsumerRecord[Any, Any]


_FATAL = (errors.CommitOutcomeUnknownError, errors.ProducerFencedError, errors.TransactionAbortedError)
"""Errors of the transaction. They do not count as failures of a handler."""

RETRY_WITHIN_S = 1.0
"""Maximum age in seconds at which a transaction waits to handle failed records again.

Readers of later records, even of other transactions, wait until this transaction has ended.
"""


class NotSentError(Exception):
    """Ends a run because a record could not be sent to another topic. The reason is the ``__cause__``."""


class Batch:
    """The records of one transaction, with the workers that handle them.

    Takes records until there are enough, while handlers process those already taken. If a handler fails after it has
    sent records, the transaction must be aborted. The other records in hand are still handled, to find all failing
    records. Otherwise, each of these would make another transaction fail.
    """

    def __init__(
        self, config: RunConfig, reading: Reading, intake: Intake, attempts: Attempts, routing: Routing
    ) -> None:
        self._config = config
        self._reading = reading
        self._intake = intake
        self._attempts = attempts
        self._until = math.inf
        """Time after which no more records are taken (``time.monotonic()``)."""
        self._left = config.max_transaction_records
        self.commits_unchanged = False
        """True if unchanged positions in retry partitions are committed as well."""
        self.undo: list[Undo] = []
        """Functions to call if the transaction is aborted. They undo changes of `Following`."""
        self.sent: list[tuple[Sending, Delivery]] = []
        """Records that have been sent to other topics instead of being handled."""
        self.refused: list[tuple[Sending, Exception]] = []
        """Records that could not be sent to other topics."""
        self.shrinks = False
        """True if some of these were too large, and the next transaction will send them in a smaller form."""
        self.spoilt = False
        """True if a handler has failed after sending records. Only an abort can undo that."""
        self.outside: Callable[[], int] = int
        """Counter of the uses of the producer other than through the transaction.

        Set once the transaction has begun.
        """
        self._retry_by = 0.0
        """Time until which failed records may be handled again within the transaction (``time.monotonic()``)."""
        self._hurry = anyio.Event()
        """Set when failed records must wait no longer."""
        self._room = Signal()
        self._calm = Signal()
        self._work = Work(
            config,
            reading.positions,
            self._room.set,
            self._calm.set,
            time.monotonic,
            routing.order_of(config.order),
            routing.retry_topics or (),
        )
        self._together: TransactionBatches | None = None
        if routing.batches:
            self._together = TransactionBatches(self, routing, attempts, config.handler_timeout_ms)
        self._workers: Workers[HandlerSlot, Record] | None = None
        self._taking = anyio.CancelScope()
        self.scope = anyio.CancelScope()
        """Cancel scope around the whole batch, including its transaction."""
        self._ends_soon = False
        """True once the batch must end soon."""
        self._closed = False
        """True once no more handlers start."""
        self.failures: list[HandlerFailure] = []
        self.error: BaseException | None = None
        """An error other than a handler's failure that ends the batch, or None."""
        self.ended: Waiter[None] = Waiter()
        """Completed once the batch has been committed or aborted, or its outcome is unknown."""

    # --- taking records ----------------------------------------------------------------------------------------------

    async def begin(self, idle_ms: float) -> bool:
        """Take the first records. Return False if none arrived in time. Raises the error that prevents reading."""
        taken = await self._intake.take(self._work, idle_ms, min(self._work.room(), self._left), from_all=True)
        now = time.monotonic()
        self._until, self._retry_by = now + self._config.max_transaction_ms / 1000, now + RETRY_WITHIN_S
        if self._together is not None:
            self._together.hurry(self._until)
        self._left -= taken
        return taken > 0

    def close(self) -> None:
        """Take no more records, and end soon. If the transaction is lost, handle no more records."""
        self._ends_soon = True
        if self.lost:
            self._closed = True
            self._close_all()
        self._stop_taking()

    def _stop_taking(self) -> None:
        self._left = 0
        self._hurry.set()
        self._taking.cancel()
        self._room.set()
        self._calm.set()

    def concerns(self, partitions: Container[TopicPartition]) -> bool:
        """Return True if the batch contains records of these partitions."""
        return any(partition.state.tp in partitions for partition in self._work)

    async def _take(self) -> None:
        """Take more records until the batch is full, its time is up, or the transaction is lost."""
        while self._left > 0 and not self.lost:
            left_s = self._until - time.monotonic()
            if left_s <= 0:
                return
            room = min(self._work.room(), self._left)
            if room < 1:
                self._work.wait_for_room()
                await self._room.wait(left_s)
                continue
            try:
                self._left -= await self._intake.take(self._work, left_s * 1000, room)
            except errors.KafkaError:
                return  # The next read raises it again. Raising it now would prevent the commit of these records.
            if self._closed:  # while records were being taken
                self._close_all()
            self._rouse()

    # --- handling records --------------------------------------------------------------------------------------------

    async def handle(self, calls: Calls, log: ClientLog) -> None:
        """Run the handlers with ``calls`` until all records are handled, or the transaction is lost."""
        together = self._together
        async with anyio.create_task_group() as tasks:
            workers = self._workers = Workers(
                tasks,
                self._work,
                self._config.concurrency,
                calls.one,
                self._failed,
                self._end,
                None if together is None else together.take_over,
                self._calm.set,
                slow_s=self._config.slow_handler_ms / 1000,
                log=log,
            )
            if together is not None:
                tasks.start_soon(together.run, workers, calls, name="kafka batches")
            self._rouse()
            with self._taking:
                await self._take()
            if together is not None:
                together.hurry(0.0)
            while not self.lost and not self._work.wait_for_all():
                await self._room.wait()
            while self.lost and self._at_work():
                await self._calm.wait()
            tasks.cancel_scope.cancel()

    def may_wait(self, delay_s: float) -> bool:
        """Return True if a failed record may be handled again within the transaction after this delay."""
        return not self._hurry.is_set() and time.monotonic() + delay_s < self._retry_by

    async def wait(self, delay_s: float) -> None:
        """Wait until a failed record is handled again."""
        with anyio.move_on_after(delay_s):
            await self._hurry.wait()

    @staticmethod
    def is_failure(error: BaseException) -> bool:
        """Return True if the error counts as an attempt at a record."""
        return not isinstance(error, (NoAwaitableError, NotSentError, *_FATAL)) and not is_outage(error)

    def note(self, undo: Undo | None) -> None:
        """Call ``undo`` if the transaction is aborted. None is ignored."""
        if undo is not None:
            self.undo.append(undo)

    def _rouse(self) -> None:
        if self._workers is not None:
            self._workers.rouse()

    @property
    def lost(self) -> bool:
        """True if the transaction will be aborted."""
        return bool(self.failures) or self.error is not None

    def _at_work(self) -> bool:
        """Return True if handlers of the lost transaction are running or will start."""
        return bool(self.busy) or (not self._closed and bool(self._work.turns or self._work.aside))

    @property
    def busy(self) -> list[Worker[HandlerSlot]]:
        """Workers that are handling a record."""
        return [] if self._workers is None else self._workers.busy

    def stuck_since(self) -> float | None:
        """Return the time at which the oldest running handler started (``time.monotonic()``), or None."""
        return None if self._workers is None else self._workers.stuck_since()

    def handled(self, slots: Sequence[HandlerSlot]) -> None:
        """Mark these records as done: they have been handled, or sent to another topic."""
        for slot in slots:
            self._work.finished(slot)
        self._rouse()

    def failed_together(self, slots: Sequence[HandlerSlot], error: BaseException) -> None:
        """Mark the transaction as lost, because the handler of these records raised an exception."""
        first, *others = slots
        record: Record = first.record  # type: ignore[assignment]
        if others and self.is_failure(error):
            records: list[Record] = [slot.record for slot in slots]  # type: ignore[misc]
            self.failures.append(self._attempts.failed(records, error))
            self._give_up(first)
        else:
            self._failed(first, record, error)
        for slot in others:
            self._work.given_up(slot)

    def _failed(self, slot: HandlerSlot, record: Record, error: BaseException) -> None:
        """Handle the exception that a handler has raised: end the run, or store it for the decision about the batch."""
        if isinstance(error, NoAwaitableError):
            self._end(slot, errors.ConfigTypeError(str(error)))
        elif isinstance(error, _FATAL):
            self._end(slot, error)
        elif isinstance(error, NotSentError):
            self._end(slot, error.__cause__ or error)
        elif is_outage(error):
            self.failures.append(self._attempts.postponed(record, error))
            self._give_up(slot)
        else:
            failure = self._attempts.failed([record], error)
            self.failures.append(failure)
            if failure.verdict.fate == "raise" or self._ends_soon or self._together is not None:
                self._give_up(slot)
            else:
                self._work.given_up(slot)
                self._stop_taking()

    def _end(self, slot: HandlerSlot, error: BaseException) -> None:
        if self.error is None:
            self.error = error
        self._give_up(slot)

    def _close_all(self) -> None:
        for partition in self._work:
            self._work.close(partition)

    def _give_up(self, slot: HandlerSlot) -> None:
        """Take the record out of this slot although it is not done, and handle no more records of the batch."""
        self._closed = True
        self._close_all()
        self._work.given_up(slot)
        for waiting in [] if self._together is None else self._together.give_up():
            self._work.given_up(waiting)
        self._stop_taking()

    # --- offsets to commit -------------------------------------------------------------------------------------------

    def offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets after all records. Raises `CommitFailedError` if a partition has been revoked."""
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if self.commits_unchanged:
            found.update(self._intake.standing_still(self._work))
            self.commits_unchanged = bool(found)
        for partition, position in self._work.done():
            if not self._reading.positions.owns(partition.state):
                raise errors.CommitFailedError(f"{partition.state.tp} was lost while its records were being handled")
            found[partition.state.tp] = position.to_commit()
        return found


class RunSource:
    """The consumer of a run, as a part of its transactions; see `Source`.

    If a transaction is aborted, the run moves the consumer back to the committed offsets.
    """

    def __init__(self, commits: Commits) -> None:
        self._commits = commits

    def read_before(self, moment: float) -> bool:
        """Return False, because no record that was read before can be in a later transaction of the run."""
        return False

    def go_back(self) -> None:
        """Move the consumer back, because a transaction that may have included its records was aborted."""
        self._commits.go_back()


class BatchPart:
    """The offsets of a batch. Created before its records are taken; see `TransactionPart`."""

    def __init__(
        self, batch: Batch, commits: Commits, source: RunSource, over: Callable[[BatchPart, bool], None]
    ) -> None:
        """Take the offsets of ``batch``. ``over`` is called once, with True if the batch was committed."""
        self.source = source
        self.batch = batch
        self.group: ConsumerGroupMetadata = commits.standing.metadata
        self._snapshot = commits.snapshot
        self.offsets: Mapping[TopicPartition, OffsetAndMetadata] = {}
        self._commits = commits
        self._times_back = commits.times_back
        self._over = over
        self._is_over = False

    def _transaction_part(self) -> BatchPart:
        """Set the offsets to those after all records of the batch, which are handled."""
        if self._times_back != self._commits.times_back:
            raise errors.CommitFailedError(
                "a transaction was aborted after the records had been handed out: they will be delivered again"
            )
        self.offsets = self._commits.begin_part(self, self.batch.offsets())
        self.group = self._commits.membership({tp.topic for tp in self.offsets}, self._snapshot)
        return self

    def ended(self, *, committed: bool) -> None:
        """Finish the batch. Unless it was certainly committed, the consumer goes back to the committed offsets."""
        if not self._is_over:
            self._is_over = True
            self._commits.end_part(self, self.offsets, committed=committed)
            self._over(self, committed)
            self.batch.ended.set_result(None)
