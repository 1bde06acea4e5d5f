"""`Consumer.run` with ``exactly_once``.

A transaction commits the records that handlers send, along with the offsets.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ... import errors
from ..._core.backoff import Backoff
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.subscription import SubscriptionKind
from ..._core.run.exactly_once import Attempts, CallTransaction, HandlerFailure, TransactionalProducer
from ..._core.run.failures import dead_letter_headers
from ..._core.run.following import Following
from ..._core.run.options import RunConfig, Verdict
from ..._core.run.refusals import REFUSALS, is_outage
from ..._records import ConsumerRecord
from ...errors.shown import some_of
from ...types import TopicPartition
from ..cancellation import outlast_cancellation
from ..loop import Signal, Waiter
from .base import CANCELLED_WITHIN_S, IDLE_MS
from .batch import Batch, BatchPart, NotSentError, RunSource
from .batches import Calls
from .handling import COMMIT_AGAIN_S, Intake, RetryEnds, begin, deserialized, in_charge
from .judge import Judge
from .outgoing import Sending
from .routing import Routing
from .service import Steps

if TYPE_CHECKING:
    from ..consumer.engine import ConsumerEngine
    from ..group.commits import Commits

Record = ConsumerRecord[Any, Any]

ENDED_WITHIN_S = 5.0
"""Seconds for which the end of a run waits for a pipeline's transactions in flight. They may continue after that."""

TRY_AGAIN_S = 600.0
"""The value of `COMMIT_AGAIN_S` after a transaction that was aborted."""

IDLE_IN_FLIGHT_MS = 500.0
"""The value of `IDLE_MS` while a pipeline has transactions in flight, whose commit may be refused in the meantime."""


class _LostBatch(Exception):
    """Internal signal that the transaction must be aborted because handlers have failed."""


async def run_exactly_once(
    engine: ConsumerEngine[Any, Any],
    config: RunConfig,
    routing: Routing,
    producer: TransactionalProducer,
    steps: Steps,
) -> None:
    """Run the handlers until the consumer is stopped. If it is already being stopped, return at once."""
    membership = engine.membership
    if membership is None:
        raise errors.IllegalStateError("exactly_once commits offsets of a group: set group_id")
    if not begin(engine):
        return
    with engine.client.beginnings.within(math.inf):
        for topic in filter(None, (config.dead_letter_topic, *routing.targets)):
            await steps.take(partial(producer.partitions_for, topic))
    routing.as_bytes = producer._takes_bytes
    engine.read_committed_only()
    await ExactlyOnceRun(engine, membership.commits, config, routing, producer).run()


class ExactlyOnceRun:
    """Runs one call of `Consumer.run` with ``exactly_once``.

    It takes a batch of records, passes them to handlers, commits the results and the offsets in one transaction, and
    starts again. With a pipeline, it takes the next batch as soon as all records sent for this batch are stored.
    """

    transactional = True

    def __init__(
        self,
        engine: ConsumerEngine[Any, Any],
        commits: Commits,
        config: RunConfig,
        routing: Routing,
        producer: TransactionalProducer,
    ) -> None:
        self._engine = engine
        self._reading = engine.reading
        self._reader = engine.reader
        self._commits = commits
        self._config = config
        self._routing = routing
        self._retry_topics = routing.retry_topics
        self._producer = producer
        self._deserializers = engine.reading.prefetch.deserializers
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._attempts = Attempts(config, self._backoff, routing.retry_topics)
        self._judge: Judge[Record] = Judge(
            config, engine.config, engine.tracing, self._attempts.waits, routing.retry_topics
        )
        self._log = self._judge.log
        self._following: Following | None = None
        if routing.retry_topics is not None and config.retry_order == "key":
            self._following = Following(routing.retry_topics)
        ends = RetryEnds(engine, routing, self._log)
        self._intake = Intake(engine.reading, engine.reader, routing.retry_topics, self._following, ends.find)
        self._source = RunSource(commits)
        self._batch: Batch | None = None
        """The batch whose records are being handled, or None."""
        self._in_flight: list[Batch] = []
        """The current batch, and earlier batches whose transactions have not ended."""
        self._again_at = 0.0
        """Time from which unchanged positions in retry partitions are committed as well."""
        self._aborted = 0
        """Number of consecutive transactions that were aborted without a failed handler, except in outages."""
        self._blocked_since: float | None = None
        """Time since which an outage prevents transactions, or None."""
        self._blocked_why = ""
        self._over_soon = Signal()
        """Set when the run may have to end."""
        self._ended: Waiter[None] = Waiter()

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the consumer is stopped. Raises the error that ends the run earlier."""
        refusals = self._judge.refusals
        with in_charge(self._engine, self, self._judge.tracing, self._ended):
            try:
                while not self._over():
                    try:
                        await self._producer._abort_refused()
                        await self._one_batch()
                    except REFUSALS as error:
                        await self._pause(refusals.bear(error, time.monotonic()))
                    else:
                        refusals.passed(time.monotonic())
            finally:
                await self._end_in_flight()
                self._intake.end()

    async def _one_batch(self) -> None:
        """Take a batch, handle it, and commit it. If it is aborted, pause before the next batch.

        Raises the error after more than ``transaction_retries`` aborts in a row that no handler has caused.
        """
        batch = Batch(self._config, self._reading, self._intake, self._attempts, self._routing)
        # Positions after the records of transactions in flight cannot be committed yet.
        batch.commits_unchanged = not self._in_flight and time.monotonic() >= self._again_at
        part = BatchPart(batch, self._commits, self._source, self._part_over)
        try:
            most_ms = IDLE_IN_FLIGHT_MS if self._in_flight else IDLE_MS
            if not await batch.begin(self._judge.refusals.look_ms(most_ms, time.monotonic())):
                return
        except errors.IllegalStateError:
            if self._over():
                return
            raise
        began_at = time.monotonic()
        error = await self._one_transaction(batch, part)
        if batch.failures:
            await self._pause(self._after_failures(batch.failures))
        elif error is not None:
            if _is_out_of_reach(error):
                # Like other requests of the run, the transaction waits for the end of the outage.
                self._blocked_since = self._blocked_since or began_at
                self._blocked_why = str(error)
            else:
                self._aborted += 1
            if self._aborted > self._config.transaction_retries:
                if not isinstance(error.__cause__, REFUSALS):
                    raise error
                await self._pause(self._judge.refusals.bear(error, time.monotonic()))
                return
            self._log.warning("a transaction was aborted, and its records will be delivered again: %s", error)
            await self._pause(self._backoff.delay_s(max(1, self._aborted)))

    async def _end_in_flight(self) -> None:
        """Wait until a pipeline's transactions in flight have ended. Until then, their records do not count as done."""
        until = time.monotonic() + ENDED_WITHIN_S
        for batch in list(self._in_flight):
            await outlast_cancellation(batch.ended, max(0.0, until - time.monotonic()))
        failure = self._producer._take_failure()
        if failure is not None:
            self._log.warning(
                "the latest transactions were aborted, and their records will be delivered again: %s", failure
            )

    def _over(self) -> bool:
        """Return True if nothing is left to read, because the application has stopped or unsubscribed the consumer."""
        return self._reader.stopped or self._engine.subscription.kind is SubscriptionKind.NONE

    async def _pause(self, delay_s: float) -> None:
        until = time.monotonic() + delay_s
        while not self._over() and (left_s := until - time.monotonic()) > 0:
            await self._over_soon.wait(left_s)

    # --- one transaction ---------------------------------------------------------------------------------------------

    async def _one_transaction(self, batch: Batch, part: BatchPart) -> errors.KafkaError | None:
        """Commit the batch. Return the error if the batch was aborted and a retry may succeed. Raises other errors."""
        self._batch = batch
        self._in_flight.append(batch)
        left = False
        try:
            with batch.scope:
                async with self._producer.transaction() as txn:
                    batch.outside = txn._watch()
                    await batch.handle(self._calls(batch, txn), self._log)
                    if batch.error is not None:
                        raise batch.error
                    if batch.failures:
                        raise _LostBatch
                    await txn.send_offsets(part)
                left = True
        except _LostBatch:
            return None
        except errors.KafkaError as error:
            refused = self._refused(batch)
            if refused is not None:
                raise refused from refused.__cause__
            if batch.shrinks:
                return None
            # The epoch may be old because the transaction has timed out. If another producer has taken over, the next
            # transaction cannot begin.
            if not error.retriable and not isinstance(
                error, errors.CommitFailedError | errors.InvalidProducerEpochError
            ):
                raise
            return error
        finally:
            self._batch = None
            if not left:
                part.ended(committed=False)
        return None

    def _part_over(self, part: BatchPart, committed: bool) -> None:
        """Forget a batch whose transaction has ended, or for which none was begun."""
        self._in_flight.remove(part.batch)
        if part.batch.commits_unchanged:
            # A retry topic may have been deleted, so the next transactions do without.
            self._again_at = time.monotonic() + (COMMIT_AGAIN_S if committed else TRY_AGAIN_S)
        if committed:
            self._aborted, self._blocked_since = 0, None
            self._attempts.committed(part.offsets)
        else:
            for undo in part.batch.undo:
                undo()

    def _calls(self, batch: Batch, txn: Any) -> Calls:
        """Return the functions that handle the records of this batch."""
        here = self._judge.around(partial(self._handle_here, batch, txn))
        elsewhere = partial(self._is_elsewhere, batch, txn)

        async def handle(record: Record) -> None:
            while (self._following is None and self._attempts.settled(record) is None) or not await elsewhere(record):
                try:
                    await here(record)
                    return
                except Exception as error:
                    delay_s = self._bearable(batch, [record], error)
                    if delay_s is None:
                        raise
                await batch.wait(delay_s)

        return Calls(
            handle,
            partial(CallTransaction, txn, batch.outside),
            partial(self._bearable, batch),
            elsewhere,
            partial(self._finished, batch),
            _never if self._following is None else self._following.concerns,
            self._readable,
            self._judge.together,
        )

    async def _handle_here(self, batch: Batch, txn: Any, record: Record) -> None:
        readable = await self._readable(record)
        call = CallTransaction(txn, batch.outside)
        try:
            await self._routing.handle(readable, call)
        except BaseException:
            batch.spoilt |= call._end()
            raise
        self._finished(batch, record)

    def _bearable(self, batch: Batch, records: Sequence[Record], error: BaseException) -> float | None:
        """Count a failed call if the transaction can still be committed because the failed handlers have sent nothing.

        Returns the seconds until the records may continue, or None if the transaction must be aborted.
        """
        if batch.spoilt or batch.lost or not batch.is_failure(error):
            return None
        failures = self._attempts.judged(records, error)
        record, verdict, _, attempts, _ = failures[0]
        if verdict.fate == "raise" or (verdict.fate == "dead_letter" and self._judge.is_dead_letter(record)):
            return None
        delay_s = self._attempts.delay_s(failures)
        if verdict.fate == "retry" and not batch.may_wait(delay_s):
            return None
        self._attempts.count(failures)
        self._judge.judge(record, error, attempts, verdict)
        return delay_s

    async def _readable(self, record: Record) -> Record:
        made = record if self._retry_topics is None else self._retry_topics.origin(record)
        return await deserialized(made, self._deserializers)

    async def _is_elsewhere(self, batch: Batch, txn: Any, record: Record) -> bool:
        """Return True if the record needs no handler here, for one of three reasons.

        It is a copy of another record, it must follow another record of its key to a retry topic, or its fate was
        decided after an earlier attempt. In the last two cases, the record is first sent to the other topic if
        necessary.
        """
        following = self._following
        if following is not None and following.concerns(record):
            if following.is_copy(record):
                self._finished(batch, record)
                return True
            topic = following.ahead_of(record)
            if topic is not None:
                await self._send(batch, txn, Sending(None, record, Verdict("later", behind=topic)))
                return True
        failure = self._attempts.settled(record)
        if failure is None:
            return False
        if failure.verdict.fate in ("later", "dead_letter"):
            await self._send(batch, txn, Sending(None, *failure))
        else:
            self._finished(batch, record)
        return True

    async def _send(self, batch: Batch, txn: Any, sending: Sending) -> None:
        """Send a record to another topic within the transaction. Used for dead letters and retries."""
        record, verdict, error, attempts = sending.record, sending.verdict, sending.error, sending.attempts
        later, following = self._retry_topics, self._following
        try:
            with self._judge.within(record):
                if later is not None and verdict.fate == "later":
                    delivery = await self._routing.send_letter(
                        txn, later.sent(record, verdict, error, attempts, time.time())
                    )
                else:
                    assert error is not None
                    told = record if later is None else later.named(record)
                    group_id = self._engine.config.group_id
                    headers = dead_letter_headers(told, error, attempts, group_id, brief=sending.brief)
                    topic = self._config.dead_letter_topic
                    delivery = await txn.send(topic, record.value, record.key, headers=headers)
            batch.sent.append((sending, delivery))
            if following is not None and verdict.fate == "later":
                at = await delivery  # record its offset before later records of its key are handled
                batch.note(following.written(record, at.topic, at.offset))
        except Exception as refusal:
            batch.refused.append((sending, refusal))
            raise NotSentError from refusal
        self._finished(batch, record)
        if error is not None:
            self._judge.sent(verdict.fate, record, error, attempts)

    def _finished(self, batch: Batch, record: Record) -> None:
        if self._following is not None:
            batch.note(self._following.finished(record))

    def _refused(self, batch: Batch) -> errors.HandlerError | None:
        """If another topic has refused a record of the batch, return the error that ends the run, else None.

        If a record was too large, the next transaction sends it in a smaller form.
        """
        answered = [(sending, delivery.exception()) for sending, delivery in batch.sent if delivery.done()]
        for sending, refusal in [*batch.refused, *answered]:
            lasts = isinstance(refusal, errors.KafkaError) and not refusal.retriable and not refusal.collateral
            if refusal is None or not lasts or isinstance(refusal, (*REFUSALS, errors.TransactionAbortedError)):
                continue
            smaller = self._judge.smaller(sending) if isinstance(refusal, errors.MessageTooLargeError) else None
            if smaller is None:
                return self._judge.refused(sending, refusal)
            self._attempts.settle(smaller.record, smaller.verdict, brief=smaller.brief)
            batch.shrinks = True
        return None

    def _after_failures(self, failures: list[HandlerFailure]) -> float:
        """Return the seconds until the batch is handled again. Raises `HandlerError` if a failure ends the run."""
        delay_s = self._attempts.delay_s(failures)
        for record, verdict, error, attempts, _ in failures:
            if is_outage(error):
                verdict = self._judge.passing(record, error, attempts)
            else:
                verdict = self._judge.judge(record, error, attempts, verdict)
            if verdict.failure is not None:
                raise verdict.failure
            delay_s = max(delay_s, verdict.wait_s or 0.0)
        return delay_s

    # --- called by the consumer ---------------------------------------------------------------------------------------

    def done(self) -> Iterator[tuple[PartitionState, Position]]:
        """Yield each partition, and the position up to which all records are committed."""
        return ((state, state.base) for state in self._reading.positions if state.base is not None)

    def problem(self, now: float) -> str | None:
        """Return a description of the failures that the run currently tolerates, or None."""
        found = self._judge.problem(now)
        if found is None and self._blocked_since is not None:
            found = f"no transaction was committed for {now - self._blocked_since:.1f} s: {self._blocked_why}"
        return found

    def stuck_since(self) -> float | None:
        """Return the time at which the oldest running handler started (``time.monotonic()``), or None."""
        return None if self._batch is None else self._batch.stuck_since()

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Wait until transactions with records of these partitions are committed. At the deadline, abort them."""
        for batch in list(self._in_flight):
            if batch.concerns(partitions):
                await self._end_batch(batch, deadline)
        self._reader.wake.set()  # to notice changes of the group, or to join it again

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget these partitions, which were given up or lost."""
        if self._judge.tracing is not None:
            self._judge.tracing.drop(partitions)

    def unsubscribed(self) -> None:
        """End the run, because the consumer has no partitions left to read or is being stopped."""
        self._over_soon.set()
        if self._batch is not None:
            self._batch.close()

    async def finish(self, ready_by: float, end_by: float) -> None:
        """End the run of a consumer that is being stopped.

        Handlers have until ``ready_by``, and all other work has until ``end_by``. Both are monotonic times in seconds.
        """
        if self._batch is not None:
            await self._end_batch(self._batch, ready_by)
        try:
            await self._ended.wait(max(0.0, end_by - time.monotonic()))
        except TimeoutError:
            self._log.warning("a handler was cancelled, but has not ended")

    async def _end_batch(self, batch: Batch, deadline: float) -> None:
        """Wait until the batch is committed. At the deadline, abort it unless the commit has already been requested."""
        batch.close()
        for by in (deadline, time.monotonic() + CANCELLED_WITHIN_S):
            try:
                await batch.ended.wait(max(0.0, by - time.monotonic()))
                return
            except TimeoutError:
                if batch.scope.cancel_called or batch is not self._batch:
                    return
                at_work = some_of([worker.place for worker in batch.busy]) or "none"
                self._log.warning("a transaction took too long, and is being aborted; running handlers: %s", at_work)
                batch.scope.cancel()


def _is_out_of_reach(error: errors.KafkaError) -> bool:
    """Return True if a transaction did not end because brokers could not be reached, or did not answer in time."""
    outages = errors.CommitOutcomeUnknownError | errors.KafkaTimeoutError | errors.KafkaConnectionError
    return any(isinstance(each, outages) for each in (error, error.__cause__))


def _never(record: Record) -> bool:
    """Always return False, because no records wait in retry topics."""
    return False
