"""Processing Produce responses. Each batch is acknowledged, retried, split or given up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from ... import errors
from ..._options.logs import ClientLog
from ..metadata.types import HINT_ERRORS, NO_LEADER
from ..trust import DOUBT_AFTER
from .accumulator import Accumulator
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch, Record
from .idempotence import sequence_after
from .outcome import NO_OFFSET, BatchOutcome, Part

_OUT_OF_LINE = (errors.OutOfOrderSequenceNumberError, errors.UnknownProducerIdError)
_NEVER_APPENDED = (
    *_OUT_OF_LINE,
    errors.ConcurrentTransactionsError,
    errors.NotEnoughReplicasError,
    errors.CorruptRecordError,
)
"""Retriable errors that prove that the attempt is not in the log.

After any other error, it may be. For example, a leader returns NOT_LEADER_OR_FOLLOWER if it has appended the batch but
was replaced before the followers had fetched it.
"""


class BatchAnswers:
    """Applies the results of requests to the batches of `Accumulator.drain`, and gives up expired batches."""

    def __init__(self, accumulator: Accumulator, retries: int, explain: Callable[[int], str], log: ClientLog) -> None:
        """Settle the batches of ``accumulator``.

        ``explain`` returns a description of the problem with a node, for the errors of expired batches. For node -1, it
        returns the reason why there is no producer id.
        """
        self._accumulator = accumulator
        self._counters = accumulator.counters
        self._schedule = accumulator.schedule
        self._sequencing = accumulator.sequencing
        self._retry = accumulator.retry
        self._idempotent = accumulator.identity is not None
        self._transactional = accumulator.transactional
        self._retries = retries
        self._explain = explain
        self._log = log

    # --- responses ----------------------------------------------------------------------------------------------------

    def acknowledged(
        self, batch: ProducerBatch, node_id: int, base_offset: int, log_append_time_ms: int, now: float
    ) -> None:
        """Complete a batch that the broker has appended, with the offset of its first record."""
        queue = batch.queue
        queue.in_flight -= 1
        batch.in_flight = False
        self._acknowledge(batch, node_id, base_offset, log_append_time_ms, now)
        self._go_on(queue, now)

    def all_acknowledged(
        self, batches: Sequence[ProducerBatch], node_id: int, offsets: list[tuple[int, int]], now: float
    ) -> None:
        """Complete several batches of one request. ``offsets`` contains the base offset and append time of each."""
        for batch, (base_offset, log_append_time_ms) in zip(batches, offsets, strict=True):
            self.acknowledged(batch, node_id, base_offset, log_append_time_ms, now)

    def refused(
        self,
        batch: ProducerBatch,
        node_id: int,
        error: errors.KafkaError,
        now: float,
        *,
        log_start_offset: int = -1,
        tells_leaders: bool = False,
        record_errors: Mapping[int, errors.KafkaError] | None = None,
    ) -> None:
        """Handle a batch that was refused or not answered.

        The response's leader hints must have been merged before. ``tells_leaders`` is True if the response could have
        named a new leader (Produce >= 10).
        """
        queue = batch.queue
        queue.in_flight -= 1
        batch.in_flight = False
        batch.last_error = error
        if isinstance(error, errors.DuplicateSequenceNumberError) or (
            isinstance(error, _OUT_OF_LINE) and self._sequencing.surely_in_log(batch)
        ):
            # The batch was appended long ago, and the broker has forgotten its offset (Java: Sender.completeBatch).
            self._acknowledge(batch, node_id, NO_OFFSET, -1, now)
        elif (
            isinstance(error, errors.MessageTooLargeError) and batch.builder.record_count > 1 and not batch.outcome.done
        ):
            self._split(batch)
        else:
            out_of_line = self._idempotent and isinstance(error, _OUT_OF_LINE)
            retriable = (
                error.retriable or out_of_line or self._is_outdated(batch, error) or self._may_pass(batch, error)
            )
            if _may_be_appended(error):
                batch.in_doubt = True
            if out_of_line and queue.batches[0] is batch:
                if batch.piece and batch.in_doubt:
                    retriable = False  # the whole batch may be in the log, so its pieces might be duplicates
                elif self._transactional is not None:
                    retriable = False  # only a new epoch helps, and that requires another transaction
            if queue.partition >= queue.topic.count > 0:
                self._relocate(batch, now)
            elif not retriable or batch.attempts > self._retries or batch.outcome.done:
                self._give_up(batch, error, now, record_errors)
            else:
                self._requeue(batch, node_id, error, now, out_of_line, log_start_offset, tells_leaders)
        self._go_on(queue, now)

    def _is_outdated(self, batch: ProducerBatch, error: errors.KafkaError) -> bool:
        """Return True if another producer id will help after INVALID_PRODUCER_EPOCH.

        No other producer has the same id, unless there are transactions, so the records may be sent again. But the
        broker has not looked for duplicates, so an earlier attempt may be in the log if the batch is in doubt.
        """
        fenced = self._idempotent and isinstance(error, errors.InvalidProducerEpochError)
        return fenced and self._transactional is None and not batch.in_doubt

    def _may_pass(self, batch: ProducerBatch, error: errors.KafkaError) -> bool:
        """Return True if UNKNOWN_SERVER_ERROR should be retried. Only an idempotent producer does this.

        Java gives up immediately. But brokers that are isolated or broken also return this error, and another broker
        may already be the leader. Retries therefore continue until the broker is in doubt (see `Trust`), and then the
        same number of times again, so that metadata can name the other broker.
        """
        return (
            self._idempotent
            and isinstance(error, errors.UnknownServerError)
            and batch.patience.refusals + 1 < 2 * DOUBT_AFTER
        )

    def not_sent(self, batch: ProducerBatch, node_id: int, error: errors.KafkaError, now: float) -> None:
        """Handle a request that was never sent, because the connection was lost or the broker is too old for it."""
        in_doubt = batch.in_doubt
        if error.retriable:
            self.refused(batch, node_id, error, now)
            # Undo the doubt that `refused` has recorded, because this attempt never left the client.
            batch.in_doubt = in_doubt
            return
        queue = batch.queue
        queue.in_flight -= 1
        batch.in_flight = False
        self._give_up(batch, error, now)
        self._go_on(queue, now)

    def fail_ready(self, node_id: int, error: errors.KafkaError, now: float) -> None:
        """Fail the batches that are ready for a broker to which nothing can ever be sent.

        That is the case after an error that retries cannot solve, such as wrong credentials.
        """
        for queue in list(self._schedule.ready.get(node_id, ())):
            for batch in list(queue.batches):
                if not batch.in_flight:
                    batch.last_error = error
                    self._give_up(batch, type(error)(error.message), now)
            self._go_on(queue, now)

    def relocate(self, now: float) -> None:
        """Move the records of partitions that no longer exist to other partitions. Call this after new metadata."""
        for topic in self._accumulator.topics.values():
            for queue in topic.missing():
                for batch in list(queue.batches):
                    if not batch.in_flight:
                        self._relocate(batch, now)
                self._go_on(queue, now)

    def _relocate(self, batch: ProducerBatch, now: float) -> None:
        """Move the records of a batch to other partitions, because the topic was recreated with fewer partitions.

        The old data is gone, so no record is duplicated. If the application chose the partition of any record, the
        whole batch is given up.
        """
        queue, topic = batch.queue, batch.queue.topic
        where = f"{topic.name}-{queue.partition}"
        if batch.outcome.done or (queue.named if queue.open is batch else batch.named):
            text = f"{where} no longer exists: the topic was recreated with {topic.count} partitions; the records were"
            self._give_up(batch, errors.UnknownTopicOrPartitionError(f"{text} {_fate(batch)}"), now)
            return
        self._log.info(
            "%s no longer exists: %d records go to other partitions",
            where,
            batch.builder.record_count,
            extra=_fields(queue),
        )
        parts: list[Part] = []
        for index, read in enumerate(batch.builder.records()):
            record = Record(topic.name, read.value, read.key, -1, read.timestamp_ms, read.headers)
            outcome, at = self._accumulator.place(topic, record, batch.ordinal, now)
            parts.append(Part(index, outcome, at))
        if batch.base_sequence != NO_SEQUENCE:
            # Any copy of the batch is gone with the old log.
            self._sequencing.given_up(batch, False)
        self._remove(batch)
        batch.outcome.divide(parts)
        self._accumulator.finish(batch.ordinal)

    def _acknowledge(
        self, batch: ProducerBatch, node_id: int, base_offset: int, log_append_time_ms: int, now: float
    ) -> None:
        queue = batch.queue
        self._sequencing.acknowledged(batch, node_id)
        queue.move_clock.served(node_id, now, self._counters.moves)
        self._remove(batch)
        if batch.outcome.done:  # the batch was given up while in flight
            return
        self._counters.settled(queue.topic.name, batch.builder.record_count, batch.created_at, now, None)
        batch.outcome.complete(base_offset, log_append_time_ms)
        self._accumulator.finish(batch.ordinal)

    def _requeue(
        self,
        batch: ProducerBatch,
        node_id: int,
        error: errors.KafkaError,
        now: float,
        out_of_line: bool,
        log_start_offset: int,
        tells_leaders: bool,
    ) -> None:
        """Prepare a refused batch for its next attempt: set its sequence number and its delay.

        If the refusal shows that the leader may have moved, also start to measure how long the move takes.
        """
        queue = batch.queue
        self._sequencing.refused(batch)
        if isinstance(error, errors.InvalidProducerEpochError):
            self._sequencing.outdated(batch)
        elif out_of_line:
            if queue.batches[0] is not batch or batch.stranded:
                batch.patience.failed_for_another(now)
                return
            if isinstance(error, errors.UnknownProducerIdError) and log_start_offset < 0:
                pass  # The partition was being moved. The next response decides (Java: TransactionManager.canRetry).
            else:
                self._sequencing.rejected(batch)
        elif error.refreshes_metadata:
            queue.move_clock.refused(node_id, now)
        epoch = batch.patience.epoch
        by_leader = error.code in HINT_ERRORS and queue.leader_id == node_id and queue.leader_epoch == epoch >= 0
        # The previous transaction is still ending. This takes little time, so the delays are as short as for a leader
        # that has not caught up.
        ending = isinstance(error, errors.ConcurrentTransactionsError)
        lags = batch.patience.failed(now, epoch, self._retry, by_leader or ending, tells_leaders or ending)
        if lags and by_leader:
            self._counters.catch_up_waits += 1

    def _split(self, batch: ProducerBatch) -> None:
        """Replace a batch that is too large for the broker by smaller batches.

        The smaller batches take over the batch's sequence numbers in order.
        """
        queue = batch.queue
        self._counters.batches_split += 1
        parts: list[Part] = []
        pieces: list[ProducerBatch] = []
        first = 0
        for builder in batch.builder.split(batch.builder.size_bytes // 2):
            outcome = BatchOutcome(batch.outcome.topic, batch.outcome.partition, batch.outcome.park)
            piece = ProducerBatch(queue, builder, outcome, batch.ordinal, batch.created_at)
            piece.sealed = True
            piece.size_bytes = builder.size_bytes
            if batch.base_sequence != NO_SEQUENCE:
                piece.producer_id = batch.producer_id
                piece.producer_epoch = batch.producer_epoch
                piece.base_sequence = sequence_after(batch.base_sequence, first)
                piece.in_doubt = batch.in_doubt
                piece.stranded = batch.stranded
                piece.piece = True
            parts.append(Part(first, outcome, 0))
            pieces.append(piece)
            first += builder.record_count
        self._log.info(
            "%s-%d: a batch of %d records is too large for the broker, sending it in %d parts",
            queue.topic.name, queue.partition, first, len(pieces), extra=_fields(queue),
        )  # fmt: skip
        at = queue.batches.index(batch)
        queue.batches[at : at + 1] = pieces
        queue.depth += len(pieces) - batch.shares
        queue.topic.batch_limit = 0  # the broker would refuse another batch of this size for this topic
        memory = self._accumulator.memory
        memory.used += sum(piece.size_bytes for piece in pieces)
        memory.give(batch.size_bytes)
        self._accumulator.started(batch.ordinal, len(pieces) - 1)
        batch.outcome.divide(parts)

    # --- failed batches -----------------------------------------------------------------------------------------------

    def expire(self, now: float) -> None:
        """Give up every batch that is older than ``delivery_timeout_ms``."""
        expired: dict[PartitionQueue, None] = {}
        for batch in self._accumulator.schedule.expired(now):
            error = errors.DeliveryTimeoutError(self._expiry_message(batch))
            error.__cause__ = batch.last_error
            self._counters.records_expired += batch.builder.record_count
            self._abandon(batch, error, now)
            expired[batch.queue] = None
        for queue in expired:
            self._go_on(queue, now)

    def abort(self, make_error: Callable[[str], errors.KafkaError], now: float) -> None:
        """Give up every pending batch.

        ``make_error`` receives a text that says whether the records may be in the log.
        """
        for topic in self._accumulator.topics.values():
            for queue in list(topic.pending):
                for batch in list(queue.batches):
                    if not batch.outcome.done:
                        error = make_error(_fate(batch))
                        error.__cause__ = batch.last_error
                        self._abandon(batch, error, now)
                self._go_on(queue, now)

    def _abandon(self, batch: ProducerBatch, error: errors.KafkaError, now: float) -> None:
        if not batch.in_flight:
            self._give_up(batch, error, now)
            return
        # The batch stays in the queue until its response arrives. Until then, no other batch may use its sequence
        # numbers.
        self._fail(batch, error, now, None)

    def _give_up(
        self,
        batch: ProducerBatch,
        error: errors.KafkaError,
        now: float,
        record_errors: Mapping[int, errors.KafkaError] | None = None,
    ) -> None:
        if batch.base_sequence != NO_SEQUENCE:
            self._sequencing.given_up(batch, batch.in_doubt)
        self._remove(batch)
        if not batch.outcome.done:
            self._fail(batch, error, now, record_errors)

    def _fail(
        self,
        batch: ProducerBatch,
        error: errors.KafkaError,
        now: float,
        record_errors: Mapping[int, errors.KafkaError] | None,
    ) -> None:
        """Fail the records of a batch with this error. Log how many were dropped."""
        queue = batch.queue
        self._counters.settled(queue.topic.name, batch.builder.record_count, batch.created_at, now, error)
        wanted = isinstance(error, errors.TransactionAbortedError)
        self._log.log(
            logging.DEBUG if wanted else logging.WARNING,
            "%s-%d: dropped %d records: %s",
            queue.topic.name,
            queue.partition,
            batch.builder.record_count,
            error,
            extra=_fields(queue),
        )
        if queue.open is batch:
            queue.open = None
        batch.sealed = True
        batch.outcome.fail(error, record_errors)
        self._accumulator.finish(batch.ordinal)
        self._accumulator.given_up(error)

    def _remove(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        if queue.batches[0] is batch:
            del queue.batches[0]
        else:
            queue.batches.remove(batch)
        queue.depth -= batch.shares
        if not queue.batches:
            queue.topic.pending.pop(queue, None)
        self._accumulator.memory.give(batch.size_bytes)

    def _go_on(self, queue: PartitionQueue, now: float) -> None:
        """Restart the partition's sequence numbers if its change requires that, and schedule its next batch."""
        if self._sequencing.restart_if_due(queue):
            how = "another producer id" if queue.producer_id < 0 else f"producer epoch {queue.producer_epoch}"
            self._log.info(
                "%s-%d: sequence numbers restart with %s",
                queue.topic.name, queue.partition, how, extra=_fields(queue),
            )  # fmt: skip
        self._schedule.evaluate(queue, now)
        if self._transactional is not None:
            for other in self._transactional.answered(queue):
                self._schedule.evaluate(other, now)

    def _expiry_message(self, batch: ProducerBatch) -> str:
        queue = batch.queue
        timeout_ms = self._schedule.delivery_timeout_s * 1000
        text = (
            f"{batch.builder.record_count} record(s) for {queue.topic.name}-{queue.partition} were not acknowledged "
            f"within delivery_timeout_ms ({timeout_ms:g}): {_fate(batch)}"
        )
        if batch.last_error is not None:
            text = f"{text}; the last error was {type(batch.last_error).__name__}: {batch.last_error}"
        if queue.leader_id == NO_LEADER:
            return f"{text}; the partition has no known leader"
        if self._accumulator.identity is not None and self._accumulator.identity.producer_id < 0:
            why = self._explain(NO_LEADER)
            return f"{text}; no producer id was obtained" + (f": {why}" if why else "")
        why = self._explain(queue.leader_id)
        return f"{text}; {why}" if why else text


def _may_be_appended(error: errors.KafkaError) -> bool:
    """Return True if an attempt that ended with this error may be in the log."""
    if not isinstance(error, errors.BrokerError) or isinstance(error, errors.UnknownServerError):
        return True
    return error.retriable and not isinstance(error, _NEVER_APPENDED)


def _fields(queue: PartitionQueue) -> dict[str, object]:
    """Return the log fields that describe a partition."""
    return {"topic": queue.topic.name, "partition": queue.partition}


def _fate(batch: ProducerBatch) -> str:
    """Return a text that says whether the records of an abandoned batch may be in the log."""
    if not batch.attempts:
        return "never sent"
    tries = f"sent {batch.attempts} time(s)"
    return f"{tries}, may have been written" if batch.in_doubt or batch.in_flight else f"{tries}, not written"
