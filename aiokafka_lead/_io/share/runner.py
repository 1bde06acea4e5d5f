"""`ShareConsumer.run`: takes records, has them handled, acknowledges what becomes of them."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import anyio

from ..._core.backoff import Backoff
from ..._core.run.handler import NoAwaitableError, place_of
from ..._core.run.refusals import REFUSALS, Outages, Refusals, is_outage
from ..._core.share.jobs import Jobs, JobSlot
from ..._core.share.record import ShareRecord
from ..._core.share.requests import FIRST_VERSION_WITH_RENEWALS
from ..._core.share.run_options import ShareRunConfig
from ..._core.tracing import RunTracing
from ..._options.logs import client_log
from ...errors import (
    BackgroundTaskError,
    ConfigTypeError,
    HandlerError,
    IllegalStateError,
    KafkaError,
    RecordDeserializationError,
)
from ...errors.shown import shown_cause
from ...types import AcknowledgeType
from ..cancellation import to_the_end
from ..deadline import Deadline
from ..loop import News, Signal, Waiter
from ..run.dead_letters import DeadLetters
from ..run.handling import waited_for_registry
from ..run.workers import Worker, Workers
from .reader import deserialized

if TYPE_CHECKING:
    from .engine import ShareEngine

__all__ = ["ShareRunner", "run"]

Record = ShareRecord[Any, Any]
ACCEPT, _, _, RENEW = AcknowledgeType

LAST_COMMIT_WITHIN_S = 2.0
"""How long the acknowledgements at the end may take when the run is cancelled or fails."""

CANCELLED_WITHIN_S = 1.0
"""How long handlers that are cancelled may take to end before others go on without them."""

IDLE_MS = 60_000.0
"""How long one look for records waits when nothing else happens."""

RENEW_BELOW = 0.5
"""Locks are renewed with less than this part of them left."""

LOOK_EVERY_S = 0.25
"""How often locks are looked at, or more often if they last for less than a few seconds."""


async def run(
    engine: ShareEngine,
    config: ShareRunConfig,
    handler: Callable[[Record], Awaitable[object]],
    dead_letters: DeadLetters | None,
) -> None:
    """Run the handler until the consumer is stopped, which may have happened while the run began."""
    if engine.reader.stopped:
        return
    if engine.runner is not None:
        raise IllegalStateError("run() is under way already")
    engine.check_reading()
    await ShareRunner(engine, config, handler, dead_letters).run()


class ShareRunner:
    """One call of `ShareConsumer.run`. Owns the records in hand; its tasks end before `run` returns."""

    def __init__(
        self,
        engine: ShareEngine,
        config: ShareRunConfig,
        handler: Callable[[Record], Awaitable[object]],
        dead_letters: DeadLetters | None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._log = client_log("consumer", engine.config.client_id)
        self.refusals = Refusals(config.refusal_patience_ms, engine.config, self._log)
        self._outages = Outages(config.registry_patience_ms, engine.config, self._log, self._waits)
        self._dead_letters = dead_letters
        self._handler = handler
        self._jobs = Jobs(
            config.concurrency,
            config.retries,
            Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            self._decide,
            engine.buffer.at_hand,
        )
        self._tasks = anyio.create_task_group()
        handle = handler if engine.deserializers.plain else self._deserialize_and_handle
        self._tracing: RunTracing | None = None if engine.tracing is None else engine.tracing.run()
        if self._tracing is not None:
            handle = self._tracing.around(handle)
        self._workers = Workers(self._tasks, self._jobs, config.concurrency, handle, self._failed, self._end)
        self._room = Signal()
        self._kept_back = Signal()
        """Set when another record is kept back."""
        self._winding_up = False
        """Nothing more is taken; the handlers at work are waited for."""
        self._calmer = News()
        """Told when a handler has ended."""
        self._failure: BaseException | None = None
        """What ends the run."""
        self._stop_at = math.inf
        """By when handlers have to be ready, once the consumer is being stopped."""
        self._stopped_by = 0
        """The task that stops the consumer."""
        self._over = False
        """Nothing more is to be taken."""
        self._ended: Waiter[None] = Waiter()

    # --- its life ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Until the consumer is stopped or unsubscribed; raises what makes it impossible to go on."""
        engine, exchanging = self._engine, self._engine.exchanging
        engine.runner = self
        exchanging.one_by_one = True
        engine.allowance.limit = min(engine.allowance.limit, self._config.concurrency)
        wound_up = False
        try:
            async with self._tasks:
                self._tasks.start_soon(self._release_in_time)
                if self._config.renew_locks:
                    self._tasks.start_soon(self._renew)
                try:
                    await self._feed()
                except (KafkaError, KeyboardInterrupt) as error:
                    self._failure = error  # kept out of the group, which would wrap it
                else:
                    await self._wind_up()
                    wound_up = True
                self._tasks.cancel_scope.cancel()
        finally:
            exchanging.one_by_one = False
            self._jobs.release_waiting()
            if self._tracing is not None:
                self._tracing.drop()
            try:
                await to_the_end(self._commit_last, "kafka last acknowledgements")
            finally:
                engine.runner = None
                self._ended.set_result(None)
        if self._failure is not None:
            raise self._failure
        if not wound_up:
            raise BackgroundTaskError("the tasks of run() were cancelled, but run() was not, and nobody stopped it")

    async def _feed(self) -> None:
        """Take a record for each handler that is free; returns when the consumer is to read nothing more."""
        reader, jobs = self._engine.reader, self._jobs
        while not self._over and self._failure is None:
            room = jobs.room()
            if room < 1:
                await self._room.wait()
                continue
            try:
                records = await reader.take(room, Deadline(self.refusals.look_ms(IDLE_MS, time.monotonic())))
            except IllegalStateError:
                if self._engine.membership.topics:
                    raise
                return  # unsubscribed
            except REFUSALS as error:
                await self._room.wait(self.refusals.bear(error, time.monotonic()))
                continue
            self.refusals.passed(time.monotonic())
            self._outages.passed(time.monotonic())
            if not records:
                if reader.stopped:
                    return
                continue
            jobs.turns.extend(records)
            reader.go_on(records[-1])
            self._workers.rouse()

    async def _wind_up(self) -> None:
        """Nothing more is taken: release what was not begun, wait for handlers."""
        self._winding_up = True
        self._jobs.release_waiting()
        await self._handlers_end(self._stop_at)
        for worker in self._busy():
            self._log.warning("the handler of %s took too long, and is cancelled", worker.place)
            worker.scope.cancel()
        await self._handlers_end(time.monotonic() + CANCELLED_WITHIN_S)

    async def _handlers_end(self, deadline: float) -> None:
        while self._busy():
            left_s = min(self._stop_at, deadline) - time.monotonic()
            try:
                await self._calmer.wait(None if left_s == math.inf else max(0.0, left_s))
            except TimeoutError:
                return

    def _busy(self) -> list[Worker[JobSlot]]:
        """The workers at work, but for a handler that itself waits for the consumer to stop."""
        return [worker for worker in self._workers.busy if worker.task_id != self._stopped_by]

    def stuck_since(self) -> float | None:
        """When the handler that has been at work for longest began (``time.monotonic()``); None while none is."""
        return self._workers.stuck_since()

    async def finish(self, ready_by: float, end_by: float) -> None:
        """The consumer is being stopped: end the run. Handlers have until ``ready_by``, all has until ``end_by``."""
        self._over = True
        self._stop_at = ready_by
        self._stopped_by = anyio.get_current_task().id
        self._room.set()
        self._calmer.tell()
        if any(worker.task_id == self._stopped_by for worker in self._workers.busy):
            return  # a handler stops the consumer: the run ends after it
        try:
            await self._ended.wait(max(0.0, end_by - time.monotonic()))
        except TimeoutError:
            for worker in self._busy():
                self._log.warning("the handler of %s does not end, though it was cancelled", worker.place)

    async def _commit_last(self) -> None:
        engine = self._engine
        if engine.client.fatal is not None or not engine.started:
            return  # the stop that is under way sends them
        with anyio.move_on_after(LAST_COMMIT_WITHIN_S):
            try:
                await engine.acknowledging.flush(LAST_COMMIT_WITHIN_S * 1000)
            except KafkaError as error:
                self._log.warning("acknowledgements were not sent at the end: %s", error)

    def _end(self, slot: JobSlot, error: BaseException) -> None:
        """What became of the record in this slot ends the run: it is released, and no other one handed out."""
        self._jobs.given_up(slot)
        if self._failure is None:
            self._failure = error
            self._tasks.cancel_scope.cancel()

    # --- handling ----------------------------------------------------------------------------------------------------

    async def _deserialize_and_handle(self, record: Record) -> None:
        await self._handler(await deserialized(record, self._engine.deserializers))

    def _decide(self, record: Record, kind: AcknowledgeType) -> None:
        if not self._engine.acknowledging.decide(record, kind) and kind is ACCEPT:
            self._log.warning(
                "the record at offset %d of %s was handled after its lock was lost, and is delivered again: %s",
                record.offset,
                record.topic_partition,
                record._acquired.failure(record._index),
            )
        self._room.set()
        if self._winding_up:
            self._calmer.tell()

    async def _failed(self, slot: JobSlot, record: Record, error: BaseException) -> None:
        """A handler has raised: have the record delivered again later, or send it to the dead letters, or reject it."""
        if isinstance(error, NoAwaitableError):
            self._end(slot, ConfigTypeError(str(error)))
            return
        tracing = self._tracing
        where = place_of(record)
        attempts = record.delivery_count
        if is_outage(error):
            self._postpone(slot, record, error)
            return
        hopeless = isinstance(error, RecordDeserializationError)
        if hopeless and self._config.on_bad_record == "raise":
            raw = record.consumer_record()
            failure = HandlerError(str(error), record=raw, attempts=attempts)
            failure.__cause__ = error
            self._end(slot, failure)
            return
        if self._jobs.may_retry(record) and not hopeless:
            self._log.info("%s could not be handled (delivery %d), and is delivered again: %r", where, attempts, error)
            if tracing is not None:
                tracing.retried(record, error, attempts)
                tracing.failed(record, error)
            self._jobs.keep_back(slot, time.monotonic())
            self._kept_back.set()
            self._room.set()
            self._calmer.tell()
        elif self._dead_letters is None or self._config.fate(error) == "skip":
            self._log.error("%s could not be handled (delivery %d), and is rejected: %r", where, attempts, error)
            if tracing is not None:
                tracing.failed(record, error)
            self._jobs.rejected(slot)
        else:
            await self._bury(self._dead_letters, slot, record, error)

    def _postpone(self, slot: JobSlot, record: Record, error: BaseException) -> None:
        """A schema registry is away: the record waits for it in hand, where its lock is renewed."""
        now = time.monotonic()
        delay_s = self._outages.bear(record, error, now)
        if delay_s is None:
            raw = record.consumer_record()
            failure = HandlerError(waited_for_registry(raw, error), record=raw, attempts=record.delivery_count)
            failure.__cause__ = error
            self._end(slot, failure)
            return
        if self._tracing is not None:
            self._tracing.retried(record, error, record.delivery_count)
        if self._winding_up:
            self._jobs.given_up(slot)
        else:
            self._jobs.postpone(slot, now + delay_s)
            self._kept_back.set()
        self._calmer.tell()

    @staticmethod
    def _waits(record: Record) -> bool:
        return record._is_open()

    def problem(self, now: float) -> str | None:
        """What it bears with."""
        return self.refusals.problem(now) or self._outages.problem(now)

    async def _bury(self, dead_letters: DeadLetters, slot: JobSlot, record: Record, error: BaseException) -> None:
        attempts, tracing = record.delivery_count, self._tracing
        where = place_of(record)
        try:
            with nullcontext() if tracing is None else tracing.within(record):
                await dead_letters.send(record.consumer_record(), error, attempts, self.refusals)
        except Exception as refused:
            failure = HandlerError(
                f"{where} could not be handled ({attempts} deliveries): {shown_cause(error)}; its dead letter was not "
                f"accepted by {dead_letters.topic}: {refused!r}",
                record=record.consumer_record(),
                attempts=attempts,
            )
            failure.__cause__ = refused
            self._end(slot, failure)
        else:
            self._log.warning("%s went to %s (delivery %d): %r", where, dead_letters.topic, attempts, error)
            if tracing is not None:
                tracing.dead_letter(record, error, dead_letters.topic)
            self._jobs.rejected(slot)

    # --- locks -------------------------------------------------------------------------------------------------------

    async def _release_in_time(self) -> None:
        """Release what failed, or hand it out again, after its backoff."""
        while True:
            due_at = self._jobs.next_due()
            await self._kept_back.wait(None if due_at is None else max(0.0, due_at - time.monotonic()))
            self._jobs.let_go_due(time.monotonic())
            if self._jobs.turns:
                self._workers.rouse()

    async def _renew(self) -> None:
        """Renew the locks of what is in hand for long."""
        allowance = self._engine.allowance
        while True:
            await anyio.sleep(min(LOOK_EVERY_S, allowance.lock_s / 16))
            for record in self._jobs.running_out(time.monotonic(), allowance.lock_s * RENEW_BELOW):
                if record._exchange.version >= FIRST_VERSION_WITH_RENEWALS:
                    self._engine.acknowledging.decide(record, RENEW)
