"""`Consumer.run`: takes records, has them handled, commits what is done."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio

from ..._core.backoff import Backoff
from ..._core.consumer.deserializers import Deserializers
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.position import Position
from ..._core.consumer.subscription import SubscriptionKind
from ..._core.run.handler import NoAwaitableError, place_of
from ..._core.run.options import RunConfig
from ..._core.run.refusals import REFUSALS, Outages, Refusals, is_outage
from ..._core.run.retries import Retries
from ..._core.run.work import HandlerSlot, PartitionWork, Work
from ..._core.tracing import RunTracing
from ..._options.logs import client_log
from ..._records import ConsumerRecord
from ...errors import (
    BackgroundTaskError,
    ConfigTypeError,
    HandlerError,
    IllegalStateError,
    KafkaError,
    RecordDeserializationError,
)
from ...errors.shown import shown_cause
from ...types import TopicPartition
from ..cancellation import Waits, outlives_cancellation, to_the_end
from ..group.offsets import gone
from ..loop import Signal, Waiter
from .dead_letters import DeadLetters
from .handling import deserialized, waited_for_registry
from .workers import Worker, Workers

if TYPE_CHECKING:
    from ..consumer.engine import ConsumerEngine

__all__ = ["Runner", "run"]


Record = ConsumerRecord[Any, Any]

LAST_COMMIT_WITHIN_S = 5.0
"""How long the commit at the end may take when the run is cancelled or fails, and at least where partitions are given
up."""

CLOSE_GAPS_WITHIN_S = 10.0
"""How long records of a partition that is given up are handed out, so that those behind them do not come again."""

CANCELLED_WITHIN_S = 1.0
"""How long handlers that are cancelled may take to end before others go on without them."""

_COMMIT = {"api": "OffsetCommit"}

IDLE_MS = 60_000.0
"""How long one look for records waits when nothing else happens."""


async def run(
    engine: ConsumerEngine[Any, Any],
    config: RunConfig,
    handler: Callable[[Record], Awaitable[object]],
    dead_letters: DeadLetters | None,
) -> None:
    """Run the handler until the consumer is stopped, which may have happened while the run began."""
    if engine.reader.stopped:
        return
    if engine.run.work is not None:
        raise IllegalStateError("run() is under way already")
    engine.check_reading()
    await Runner(engine, config, handler, dead_letters).run()


class Runner:
    """One call of `Consumer.run`. Owns the work in hand; its tasks end before `run` returns."""

    transactional = False

    def __init__(
        self,
        engine: ConsumerEngine[Any, Any],
        config: RunConfig,
        handler: Callable[[Record], Awaitable[object]],
        dead_letters: DeadLetters | None,
    ) -> None:
        self._engine = engine
        self._reading = engine.reading
        self._log = client_log("consumer", engine.config.client_id)
        self.refusals = Refusals(config.refusal_patience_ms, engine.config, self._log)
        self._outages = Outages(config.registry_patience_ms, engine.config, self._log, self._waits)
        self._dead_letters = dead_letters
        self._fate = config.fate
        self._handler = handler
        self._deserializers = engine.reading.prefetch.deserializers
        self._tracing: RunTracing | None = None if engine.tracing is None else engine.tracing.run()
        self._work = Work(config, engine.reading.positions, self._on_room, self._on_calm)
        self._retries = Retries(config.retries, Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms))
        self._tasks = anyio.create_task_group()
        handle = handler if self._deserializers.plain else self._deserialize_and_handle
        if self._tracing is not None:
            handle = self._tracing.around(handle)
        self._workers = Workers(self._tasks, self._work, config.concurrency, handle, self._failed, self._end)
        self._room = Signal()
        self._retry = Signal()
        """Set when another record waits to be handled again."""
        self._calm: Waiter[None] = Waiter()
        """Done when a closed partition's last handler has ended."""
        self._committing = anyio.Lock()
        self._last_commits = Waits()
        """Those for the coordinator before partitions are given up, or before the end."""
        self._failure: BaseException | None = None
        """What ends the run."""
        self._stop_at: float | None = None
        """By when handlers have to be ready, once the consumer is being stopped."""
        self._end_by = math.inf
        """By when all else has to be done then."""
        self._stopped_by = 0
        """The task that stops the consumer."""
        self._ended: Waiter[None] = Waiter()

    # --- its life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the consumer is stopped; raises what makes it impossible to go on."""
        engine, prefetch = self._engine, self._reading.prefetch
        engine.run.work = self
        prefetch.decode_with(Deserializers())
        engine.progress.oldest_work = self.stuck_since
        listener = engine.reader.replace_listener(None)
        wound_up = False
        try:
            async with self._tasks:
                self._tasks.start_soon(self._commit_now_and_then)
                self._tasks.start_soon(self._handle_again)
                try:
                    await self._feed()
                except (KafkaError, KeyboardInterrupt) as error:
                    self._failure = error  # kept out of the group, which would wrap it
                else:
                    await self._wind_up()
                    wound_up = True
                self._tasks.cancel_scope.cancel()
        finally:
            try:
                await to_the_end(self._commit_last, "kafka last commit")
            finally:
                self._rewind()
                engine.reader.replace_listener(listener)
                engine.run.work = None
                engine.progress.oldest_work = None
                engine.progress.progressed(time.monotonic())
                prefetch.decode_with(self._deserializers)
                if self._tracing is not None:
                    self._tracing.drop()
                self._ended.set_result(None)
        if self._failure is not None:
            raise self._failure
        if not wound_up:
            raise BackgroundTaskError("the tasks of run() were cancelled, but run() was not, and nobody stopped it")

    async def _feed(self) -> None:
        """Take records as long as there is room; returns when the consumer is being stopped, or reads nothing more."""
        engine, work = self._engine, self._work
        while True:
            room = work.room()
            if room < 1:
                work.wait_for_room()
                await self._room.wait()
                if self._over:
                    return
                continue
            try:
                taken = await engine.reader.getmany(work, self.refusals.look_ms(IDLE_MS, time.monotonic()), room)
            except IllegalStateError:
                if self._over:
                    return
                raise
            except REFUSALS as error:
                await self._room.wait(self.refusals.bear(error, time.monotonic()))
                if self._over or self._failure is not None:
                    return
                continue
            self.refusals.passed(time.monotonic())
            self._outages.passed(time.monotonic())
            if self._failure is not None:
                return  # and is being cancelled
            for tp, records in taken.items():
                state = self._reading.positions.require(tp)
                position = state.position
                assert position is not None  # records were taken from it just now
                work.add(state, records, position)
            self._workers.rouse()

    @property
    def _over(self) -> bool:
        """There is nothing more to take, because the application wants it so."""
        engine = self._engine
        return engine.reader.stopped or engine.subscription.kind is SubscriptionKind.NONE

    def unsubscribed(self) -> None:
        """The consumer may have nothing to read any more: then this ends."""
        self._room.set()

    def _on_room(self) -> None:
        self._room.set()
        self._engine.reader.wake.set()

    def _on_calm(self) -> None:
        calm, self._calm = self._calm, Waiter()
        calm.set_result(None)

    def _end(self, slot: HandlerSlot, error: BaseException) -> None:
        """What became of the record in this slot ends the run: no other one is handed out any more."""
        self._work.given_up(slot)
        if self._failure is None:
            self._failure = error
            for partition in self._work:
                self._work.close(partition)
            self._tasks.cancel_scope.cancel()

    # --- handling ----------------------------------------------------------------------------------------------------

    async def _deserialize_and_handle(self, record: Record) -> None:
        await self._handler(await deserialized(record, self._deserializers))

    async def _failed(self, slot: HandlerSlot, record: Record, error: BaseException) -> None:
        """A handler has raised: handle the record again later, or send it to the dead letters, or end the run."""
        work, partition = self._work, slot.partition
        assert partition is not None
        if isinstance(error, NoAwaitableError):
            self._end(slot, ConfigTypeError(str(error)))
            return
        about = {"topic": record.topic, "partition": record.partition}
        where = place_of(record)
        if is_outage(error):
            self._postpone(slot, partition, record, error)
            return
        hopeless = isinstance(error, RecordDeserializationError)
        if not hopeless and self._retries.failed(partition, record, time.monotonic()):
            self._log.info("%s could not be handled, and will be again: %r", where, error, extra=about)
            if self._tracing is not None:
                self._tracing.retried(record, error, partition.attempts.get(record.offset, 0))
            work.given_up(slot)
            self._retry.set()
            return
        attempts = partition.attempts.get(record.offset, 0)
        text, cause = f"{where} could not be handled ({attempts} attempts): {shown_cause(error)}", error
        fate = self._fate(error)
        if fate == "skip":
            self._log.warning("%s cannot be deserialized, and is left out", where, extra=about)
            if self._tracing is not None:
                self._tracing.failed(record, error)
            work.finished(slot)
            return
        if self._dead_letters is not None and fate == "dead_letter":
            try:
                await self._send_dead_letter(self._dead_letters, record, error, attempts)
            except Exception as refused:
                text += f"; its dead letter was not accepted by {self._dead_letters.topic}: {refused!r}"
                cause = refused
            else:
                text, topic = "%s went to %s (%d attempts): %r", self._dead_letters.topic
                self._log.warning(text, where, topic, attempts, error, extra=about)
                if self._tracing is not None:
                    self._tracing.dead_letter(record, error, self._dead_letters.topic)
                work.finished(slot)
                return
        if self._tracing is not None:
            self._tracing.failed(record, error)
        failure = HandlerError(text, record=record, attempts=attempts)
        failure.__cause__ = cause
        self._end(slot, failure)

    def _postpone(self, slot: HandlerSlot, partition: PartitionWork, record: Record, error: BaseException) -> None:
        """A schema registry is away: the record waits for it, and takes no handler's place meanwhile."""
        now = time.monotonic()
        delay_s = self._outages.bear(record, error, now)
        if delay_s is None:
            if self._tracing is not None:
                self._tracing.failed(record, error)
            failure = HandlerError(waited_for_registry(record, error), record=record, attempts=0)
            failure.__cause__ = error
            self._end(slot, failure)
            return
        if self._tracing is not None:
            self._tracing.retried(record, error, partition.attempts.get(record.offset, 0))
        self._retries.postponed(partition, record, now + delay_s)
        self._work.given_up(slot)
        self._retry.set()

    def _waits(self, record: Record) -> bool:
        partition = self._work.get(TopicPartition(record.topic, record.partition))
        return partition is not None and record.offset in partition.attempts

    def problem(self, now: float) -> str | None:
        """What it bears with."""
        return self.refusals.problem(now) or self._outages.problem(now)

    async def _send_dead_letter(
        self, dead_letters: DeadLetters, record: Record, error: BaseException, attempts: int
    ) -> None:
        """Return when it is acknowledged. A handler's task that is cancelled meanwhile may send it twice."""
        while True:
            try:
                with nullcontext() if self._tracing is None else self._tracing.within(record):
                    return await dead_letters.send(record, error, attempts, self.refusals)
            except asyncio.CancelledError:
                if not await outlives_cancellation():
                    raise

    async def _handle_again(self) -> None:
        """Put records back in line as their backoffs end."""
        while True:
            due_at = self._retries.next_due()
            await self._retry.wait(None if due_at is None else max(0.0, due_at - time.monotonic()))
            for partition, record in self._retries.due(time.monotonic()):
                self._work.again(partition, record)
            self._workers.rouse()

    # --- committing --------------------------------------------------------------------------------------------------

    async def _commit_now_and_then(self) -> None:
        interval_s = self._engine.config.auto_commit_interval_ms / 1000
        while True:
            await anyio.sleep(interval_s)
            try:
                await self._commit(self._engine.config.default_api_timeout_ms)
            except KafkaError as error:
                self._log.warning("offsets were not committed, and will be with the next: %s", error, extra=_COMMIT)

    async def _commit(self, timeout_ms: float) -> None:
        """Commit what is done, where that is news."""
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
            offsets = {partition.state.tp: position.to_commit() for partition, position in news}
            missing = await membership.commits.store(offsets, timeout_ms)
            for partition, position in news:
                partition.committed = position
            if missing:
                self._log.warning("%s", gone(missing), extra=_COMMIT)

    async def _commit_last(self, by: float = 0.0) -> None:
        """Commit what is done, since what is not committed comes again.

        A coordinator that is gone is waited for until ``by``, but not longer than for any other commit, and for
        `LAST_COMMIT_WITHIN_S` at least unless the consumer is being stopped.
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
        """For each partition that was taken from, the position before which everything is done."""
        return ((partition.state, position) for partition, position in self._work.done())

    def stuck_since(self) -> float | None:
        """When the handler that has been at work for longest began (``time.monotonic()``); None while none is."""
        return self._workers.stuck_since()

    # --- letting go --------------------------------------------------------------------------------------------------

    async def release(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Hand out no more of these partitions, wait for their handlers until the deadline, commit what is done.

        Handlers that are not ready by then are cancelled; their records are not done.
        """
        closing = [found for tp in partitions if (found := self._work.get(tp)) is not None]
        await self._close_gaps(closing, deadline)
        await self._wait_for_handlers(closing, deadline)
        await self._commit_last(deadline)
        self._engine.reader.wake.set()  # to notice what the group has to say, or to join it again

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """They are not this consumer's any more: what was not done of them takes no room."""
        for tp in partitions:
            found = self._work.get(tp)
            if found is not None:
                self._work.drop(found)
        if self._tracing is not None:
            self._tracing.drop(partitions)
        self._room.set()

    async def finish(self, ready_by: float, end_by: float) -> None:
        """The consumer is being stopped: end the run. Handlers have until ``ready_by``, all has until ``end_by``."""
        self._stop_at = ready_by
        self._end_by = end_by
        self._stopped_by = anyio.get_current_task().id
        self._last_commits.hurry(end_by)
        self._room.set()
        self._on_calm()
        try:
            await self._ended.wait(max(0.0, end_by - time.monotonic()))
        except TimeoutError:
            for worker in self._handling(list(self._work)):
                self._log.warning("the handler of %s does not end, though it was cancelled", worker.place)

    async def _wind_up(self) -> None:
        """Nothing more is taken: wait for handlers, commit."""
        partitions = list(self._work)
        for partition in partitions:
            self._work.wind_up(partition)
        while self._stop_at is None and self._at_work(partitions):
            await self._calm.wait()  # not stopped, but unsubscribed: a rebalance cancels those that take too long
        if self._stop_at is not None:
            await self._close_gaps(partitions, self._stop_at)
            await self._wait_for_handlers(partitions, self._stop_at)
        await self._commit_last(self._end_by)

    async def _close_gaps(self, partitions: Collection[PartitionWork], deadline: float) -> None:
        """Hand out no more than what comes before records that were begun, for a while, and then nothing any more."""
        for partition in partitions:
            self._work.wind_up(partition)
        now = time.monotonic()
        await self._handlers_end(partitions, now + min(CLOSE_GAPS_WITHIN_S, max(0.0, deadline - now) / 2))
        for partition in partitions:
            self._work.close(partition)

    async def _wait_for_handlers(self, partitions: Collection[PartitionWork], deadline: float) -> None:
        """Until the deadline; then they are cancelled, and have `CANCELLED_WITHIN_S` to end."""
        await self._handlers_end(partitions, deadline)
        for worker in self._handling(partitions):
            self._log.warning("the handler of %s took too long, and is cancelled", worker.place)
            worker.scope.cancel()
        now = time.monotonic()
        # What is left until the end is for the commit, too.
        await self._handlers_end(partitions, min(now + CANCELLED_WITHIN_S, (now + self._end_by) / 2))

    async def _handlers_end(self, partitions: Collection[PartitionWork], deadline: float) -> None:
        while self._at_work(partitions):
            try:
                await self._calm.wait(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                return

    def _at_work(self, partitions: Collection[PartitionWork]) -> bool:
        """Whether handlers are busy with these partitions, or are about to be."""
        return bool(self._handling(partitions)) or any(map(self._work.in_line, partitions))

    def _handling(self, partitions: Collection[PartitionWork]) -> list[Worker[HandlerSlot]]:
        """The workers busy with these partitions, but for a handler that itself waits for the consumer to stop."""
        return [
            worker
            for worker in self._workers.busy
            if worker.slot.partition in partitions and worker.task_id != self._stopped_by
        ]

    def _rewind(self) -> None:
        """The next read gets everything that is not done."""
        for partition, position in list(self._work.done()):
            unfinished = partition.cut or partition.lanes.count()
            self._work.drop(partition)
            if unfinished and self._reading.positions.owns(partition.state):
                self._reading.move(partition.state, position)
