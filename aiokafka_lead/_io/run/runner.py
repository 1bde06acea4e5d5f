"""`Consumer.run`: taking records, calling handlers, and committing the records that are done."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from ..._core.backoff import Backoff
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.subscription import SubscriptionKind
from ..._core.run.following import Following
from ..._core.run.options import RunConfig, Verdict
from ..._core.run.retries import Retries
from ..._core.run.work import HandlerSlot, PartitionWork, Work
from ..._records import ConsumerRecord
from ...errors import KafkaError, RecordDeserializationError
from ...types import OffsetAndMetadata, RecordMetadata, TopicPartition
from ..cancellation import Waits
from ..group.offsets import gone
from .base import WorkersRun
from .batches import Batches, Ways
from .handling import COMMIT_AGAIN_S, Intake, RetryEnds, begin, deserialized, in_charge
from .judge import Judge
from .outgoing import DeadLetters, Sending
from .routing import Routing
from .workers import Worker

if TYPE_CHECKING:
    from ..._core.producer.delivery import Delivery
    from ..consumer.engine import ConsumerEngine

Record = ConsumerRecord[Any, Any]

LAST_COMMIT_WITHIN_S = 5.0
"""Time limit in seconds of the last commit if the run is cancelled or fails.

When partitions are given up, it is the minimum of the limit.
"""

CLOSE_GAPS_WITHIN_S = 10.0
"""When a partition is given up, time limit in seconds for handling the records before those that are done.

Otherwise, the records that are done would be handled again.
"""

_COMMIT = {"api": "OffsetCommit"}


async def run(
    engine: ConsumerEngine[Any, Any],
    config: RunConfig,
    routing: Routing,
    dead_letters: DeadLetters | None,
) -> None:
    """Run the handlers until the consumer is stopped. If it is already being stopped, return at once."""
    if begin(engine):
        await Runner(engine, config, routing, dead_letters).run()


class Runner(WorkersRun[HandlerSlot, Record]):
    """Runs one call of `Consumer.run`: takes records, has workers handle them, and commits those that are done."""

    transactional = False

    def __init__(
        self,
        engine: ConsumerEngine[Any, Any],
        config: RunConfig,
        routing: Routing,
        dead_letters: DeadLetters | None,
    ) -> None:
        self._engine = engine
        self._reading = engine.reading
        self._handler = routing.handle
        self._deserializers = engine.reading.prefetch.deserializers
        self._work = Work(
            config,
            engine.reading.positions,
            self._on_room,
            self._on_calm,
            time.monotonic,
            routing.order_of(config.order),
            routing.retry_topics or (),
        )
        self._retries: Retries[PartitionWork] = Retries(Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms))
        self._committing = anyio.Lock()
        self._again_at = 0.0
        """Time from which unchanged positions in retry partitions are committed as well."""
        self._last_commits = Waits()
        """The waits for commits before partitions are given up, or at the end."""
        retry_topics = self._retry_topics = routing.retry_topics
        self._following: Following | None = None
        if retry_topics is not None and config.retry_order == "key":
            self._following = Following(retry_topics)
        judge: Judge[Record] = Judge(config, engine.config, engine.tracing, self._waits, retry_topics)
        ends = RetryEnds(engine, routing, judge.log)
        self._intake = Intake(engine.reading, engine.reader, retry_topics, self._following, ends.find)
        self._routing = routing
        as_it_is = self._deserializers.plain and retry_topics is None
        handle = routing.handle if as_it_is else self._deserialize_and_handle
        self._batches: Batches | None = None
        taken_over = routing.batches or self._following is not None
        super().__init__(judge, self._work, handle, dead_letters, self._take_over if taken_over else None)
        if routing.batches:
            deserialize = None if as_it_is else self._deserialized
            ways = Ways(self._settle, self._leave, self._following, self._follow)
            self._batches = Batches(
                routing, judge, self._work, deserialize, ways, self._outgoing, self._calm, self._waiting
            )

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the consumer is stopped. Raises the error that ends the run earlier."""
        with in_charge(self._engine, self, self._judge.tracing, self._ended):
            await self._live(self._commit_now_and_then)

    async def _take(self, most_ms: float) -> None:
        work = self._work
        room = work.room()
        if room < 1:
            work.wait_for_room()
            await self._room.wait()
            return
        taken = await self._intake.take(work, most_ms, room)
        self._judge.passed(time.monotonic())
        if taken:
            self._workers.rouse()

    def _is_over(self) -> bool:
        engine = self._engine
        return engine.reader.stopped or engine.subscription.kind is SubscriptionKind.NONE

    def unsubscribed(self) -> None:
        """End the run, because the consumer has no partitions left to read or is being stopped."""
        if self._engine.reader.stopped:
            self._wind_up_all(list(self._work))
        self._room.set()

    def _on_room(self) -> None:
        self._room.set()
        self._engine.reader.wake.set()

    def _on_calm(self) -> None:
        self._calm.tell()

    # --- handling ----------------------------------------------------------------------------------------------------

    async def _deserialize_and_handle(self, record: Record) -> None:
        later, made = self._retry_topics, record
        if later is not None:
            made = later.origin(record)
        if not self._deserializers.plain:
            made = await deserialized(made, self._deserializers)
        await self._handler(made)
        if self._following is not None:
            self._following.finished(record)

    async def _deserialized(self, record: Record) -> Record:
        if self._retry_topics is not None:
            record = self._retry_topics.origin(record)
        return await deserialized(record, self._deserializers)

    def _take_over(self, slot: HandlerSlot, record: Record) -> bool:
        if self._batches is not None and self._batches.take_over(slot, record):
            return True
        return self._following is not None and self._follow(slot, record)

    def _follow(self, slot: HandlerSlot, record: Record) -> bool:
        """Return True if the record is not handled here because it follows another record of its key or is a copy."""
        following = self._following
        if following is None or not following.concerns(record):
            return False
        if following.is_copy(record):
            self._leave(slot)
            return True
        topic = following.ahead_of(record)
        if topic is None:
            return False
        self._send_away(Sending(slot, record, Verdict("later", behind=topic)))
        return True

    def _attempt(self, slot: HandlerSlot, record: Record, error: BaseException) -> int:
        assert slot.partition is not None
        # Count only failures of the handler itself.
        counts = not (self._judge.is_passing(error) or isinstance(error, RecordDeserializationError))
        attempts = self._retries.attempt(slot.partition, record, counts=counts)
        return attempts if self._retry_topics is None else attempts + self._retry_topics.attempts(record)

    def _send_away(self, sending: Sending) -> None:
        self._work.passed_on(sending.slot)
        super()._send_away(sending)

    async def _send(self, sending: Sending) -> Delivery:
        later, record = self._retry_topics, sending.record
        if later is None:
            return await super()._send(sending)
        if sending.verdict.fate != "later":
            return await super()._send(sending._replace(record=later.named(record)))
        letter = later.sent(record, sending.verdict, sending.error, sending.attempts, time.time())
        return await self._routing.send_letter(self._routing.producer, letter)

    def _written(self, sending: Sending, at: RecordMetadata) -> None:
        if self._following is not None and sending.verdict.fate == "later":
            self._following.written(sending.record, at.topic, at.offset)

    def _wait(self, slot: HandlerSlot, record: Record, error: BaseException, delay_s: float | None) -> None:
        assert slot.partition is not None
        self._retries.wait(slot.partition, record, time.monotonic(), delay_s)
        self._work.given_up(slot)

    def _leave(self, slot: HandlerSlot) -> None:
        if self._following is not None and slot.record is not None:
            self._following.finished(slot.record)
        self._work.finished(slot)

    def _give_up(self, slot: HandlerSlot) -> None:
        self._work.given_up(slot)
        # The run is ending.
        for partition in self._work:
            self._work.close(partition)

    def _waits(self, record: Record) -> bool:
        partition = self._work.get(TopicPartition(record.topic, record.partition))
        return partition is not None and record.offset in partition.attempts

    def _next_due(self) -> float | None:
        dues = (self._retries.next_due(), None if self._batches is None else self._batches.next_due())
        return min((due for due in dues if due is not None), default=None)

    def _due(self, now: float) -> None:
        for partition, record in self._retries.due(now):
            self._work.again(partition, record)
        if self._batches is not None:
            self._batches.begin_due(self._workers, now)

    # --- committing --------------------------------------------------------------------------------------------------

    async def _commit_now_and_then(self) -> None:
        interval_s = self._engine.config.auto_commit_interval_ms / 1000
        while True:
            await anyio.sleep(interval_s)
            try:
                await self._commit(self._engine.config.default_api_timeout_ms)
            except KafkaError as error:
                self._log.warning("offsets were not committed; the next commit includes them: %s", error, extra=_COMMIT)

    async def _commit(self, timeout_ms: float) -> None:
        """Commit the positions after records that are done, where they have changed since the last commit."""
        membership = self._engine.membership
        if membership is None:
            return
        async with self._committing:
            news = [
                (partition, position)
                for partition, position in self._work.done()
                if position != partition.committed
                and self._reading.positions.owns(partition.state)
                and membership.commits.has_log(partition.state)
            ]
            offsets = {**self._unchanged(), **{part.state.tp: position.to_commit() for part, position in news}}
            missing = await membership.commits.store(offsets, timeout_ms)
            for partition, position in news:
                partition.committed = position
            if missing:
                self._log.warning("%s", gone(missing), extra=_COMMIT)

    def _unchanged(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the positions in retry partitions that must be committed again."""
        now = time.monotonic()
        found = {} if now < self._again_at else self._intake.standing_still(self._work)
        if found:
            self._again_at = now + COMMIT_AGAIN_S
        return found

    async def _settle_last(self) -> None:
        try:
            await self._commit_last()
        finally:
            self._rewind()

    async def _commit_last(self, by: float = 0.0) -> None:
        """Commit the records that are done, which would otherwise be delivered again.

        If the coordinator cannot be reached, waits for it until ``by``, but no longer than other commits. Unless the
        consumer is being stopped, waits for at least `LAST_COMMIT_WITHIN_S`.
        """
        now = time.monotonic()
        by = max(now + LAST_COMMIT_WITHIN_S, min(by, now + self._engine.config.default_api_timeout_ms / 1000))
        timeout_s = max(0.0, min(by, self._end_by) - now)
        with self._last_commits.within(timeout_s) as scope:
            try:
                await self._commit(timeout_s * 1000)
            except KafkaError as error:
                self._log.warning("offsets were not committed at the end: %s", error, extra=_COMMIT)
        if scope.cancelled_caught:
            waited_s = time.monotonic() - now
            self._log.warning("offsets were not committed at the end within %.3g s", waited_s, extra=_COMMIT)

    def done(self) -> Iterator[tuple[PartitionState, Position]]:
        """Yield each partition from which records were taken, and the position up to which all of them are done."""
        return ((partition.state, position) for partition, position in self._work.done())

    # --- giving up partitions ----------------------------------------------------------------------------------------

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Handle no more records of these partitions, wait for their handlers until the deadline, and commit.

        Handlers still running at the deadline are cancelled, and their records are not done.
        """
        closing = [found for tp in partitions if (found := self._work.get(tp)) is not None]
        await self._close_gaps(closing, deadline)
        await self._wait_for_handlers(closing, deadline)
        await self._commit_last(deadline)
        self._engine.reader.wake.set()  # to notice changes of the group, or to join it again

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Remove the unfinished records of these partitions, which no longer belong to this consumer."""
        for tp in partitions:
            found = self._work.get(tp)
            if found is not None:
                self._work.drop(found)
                if self._batches is not None:
                    self._batches.give_up([found])
        if self._judge.tracing is not None:
            self._judge.tracing.drop(partitions)
        self._room.set()

    async def finish(self, ready_by: float, end_by: float) -> None:
        """End the run like `WorkersRun.finish`, and shorten waits for commits."""
        self._last_commits.hurry(end_by)
        await super().finish(ready_by, end_by)

    async def _wind_up(self) -> None:
        partitions = list(self._work)
        self._wind_up_all(partitions)
        while self._stop_at == math.inf and self._at_work(partitions):
            await self._calm.wait()  # unsubscribed, but not stopped: a rebalance cancels handlers that take too long
        if self._stop_at < math.inf:
            await self._close_gaps(partitions, self._stop_at)
            await self._wait_for_handlers(partitions, self._stop_at)
        await self._commit_last(self._end_by)

    async def _close_gaps(self, partitions: Collection[PartitionWork], deadline: float) -> None:
        """For a limited time, handle only records before those already started. After that, handle no more."""
        self._wind_up_all(partitions)
        now = time.monotonic()
        within_s = min(CLOSE_GAPS_WITHIN_S, max(0.0, deadline - now) / 2)
        await self._until_calm(partial(self._at_work, partitions), now + within_s)
        for partition in partitions:
            self._work.close(partition)

    def _wind_up_all(self, partitions: Collection[PartitionWork]) -> None:
        for partition in partitions:
            self._work.wind_up(partition)
        if self._batches is not None:
            self._batches.give_up(partitions)

    async def _wait_for_handlers(self, partitions: Collection[PartitionWork], deadline: float) -> None:
        """Wait for handlers until the deadline.

        Then cancels them, and waits `CANCELLED_WITHIN_S` for them to end.
        """
        sent = partial(self._being_sent, partitions)
        await self._until_ended(partial(self._handling, partitions), sent, deadline)

    def _at_work(self, partitions: Collection[PartitionWork]) -> bool:
        """Return True if records of these partitions are being, or will be, handled or sent to other topics."""
        waits = self._handling(partitions) or self._being_sent(partitions)
        return bool(waits) or any(map(self._work.in_line, partitions))

    def _being_sent(self, partitions: Collection[PartitionWork]) -> bool:
        """Return True if records of these partitions are being sent to other topics."""
        return any(slot.partition in partitions for slot in self._outgoing.slots)

    def _handling(self, partitions: Collection[PartitionWork]) -> list[Worker[HandlerSlot]]:
        """Return the workers that are handling records of these partitions."""
        return [worker for worker in self._workers.busy if worker.slot.partition in partitions]

    def _rewind(self) -> None:
        """Move the consumer back, so that the next read returns all unfinished records."""
        self._intake.end()
        for partition, position in list(self._work.done()):
            unfinished = partition.cut or partition.lanes.count()
            self._work.drop(partition)
            if unfinished and self._reading.positions.owns(partition.state):
                self._reading.move(partition.state, position)
