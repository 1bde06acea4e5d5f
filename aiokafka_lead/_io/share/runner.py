"""`ShareConsumer.run`: taking records, calling handlers, and acknowledging the records."""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import anyio

from ..._core.backoff import Backoff
from ..._core.run.options import ShareRunConfig
from ..._core.share.jobs import Jobs, JobSlot
from ..._core.share.record import ShareRecord
from ..._core.share.session import FIRST_VERSION_WITH_RENEWALS
from ...errors import ConfigError, IllegalStateError, KafkaError
from ...types import AcknowledgeType
from ..deadline import Deadline
from ..run.base import WorkersRun
from ..run.judge import Judge
from ..run.outgoing import DeadLetters
from ..run.routing import Routing
from .reader import deserialized

if TYPE_CHECKING:
    from .engine import ShareEngine

Record = ShareRecord[Any, Any]
ACCEPT, _, _, RENEW = AcknowledgeType

LAST_COMMIT_WITHIN_S = 2.0
"""Time limit in seconds of the last acknowledgements if the run is cancelled or fails."""

RENEW_BELOW = 0.5
"""Fraction of the lock duration below which a lock is renewed."""

LOOK_EVERY_S = 0.25
"""Interval in seconds at which locks are checked. It is shorter if locks last only a few seconds."""


async def run(
    engine: ShareEngine,
    config: ShareRunConfig,
    routing: Routing,
    dead_letters: DeadLetters | None,
) -> None:
    """Run the handlers until the consumer is stopped. If it is already being stopped, return at once."""
    if engine.reader.stopped:
        return
    if engine.runner is not None:
        raise IllegalStateError("run() is already running")
    engine.check_reading()
    if routing.batches:
        raise ConfigError("the handlers of a share consumer take single records: remove max_records")
    await ShareRunner(engine, config, routing.handle, dead_letters).run()


def _waits(record: Record) -> bool:
    return record._is_open()


class ShareRunner(WorkersRun[JobSlot, Record]):
    """Runs one call of `ShareConsumer.run`: takes records, has workers handle them, and acknowledges the records."""

    def __init__(
        self,
        engine: ShareEngine,
        config: ShareRunConfig,
        handler: Callable[[Record], Awaitable[object]],
        dead_letters: DeadLetters | None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._handler = handler
        self._jobs = Jobs(
            config.concurrency,
            Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            self._decide,
            engine.buffer.at_hand,
        )
        self._winding_up = False
        """True once no more records are taken."""
        judge: Judge[Record] = Judge(config, engine.config, engine.tracing, _waits)
        handle = handler if engine.deserializers.plain else self._deserialize_and_handle
        super().__init__(judge, self._jobs, handle, dead_letters)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until the consumer is stopped or unsubscribed. Raises the error that ends the run earlier."""
        engine = self._engine
        engine.runner = self
        engine.exchanging.one_by_one = True
        engine.allowance.limit = min(engine.allowance.limit, self._config.concurrency)
        try:
            await self._live(*([self._renew] if self._config.renew_locks else []))
        finally:
            engine.runner = None
            if self._judge.tracing is not None:
                self._judge.tracing.drop()
            self._ended.set_result(None)

    async def _take(self, most_ms: float) -> None:
        """Take a record for each idle handler."""
        reader, jobs = self._engine.reader, self._jobs
        room = jobs.room()
        if room < 1:
            await self._room.wait()
            return
        records = await reader.take(room, Deadline(most_ms))
        self._judge.passed(time.monotonic())
        if records:
            jobs.turns.extend(records)
            reader.go_on(records[-1])
            self._workers.rouse()

    def _is_over(self) -> bool:
        engine = self._engine
        return engine.reader.stopped or not engine.membership.topics

    def wind_up(self) -> None:
        """Release the records that no handler is processing, and hand out no more."""
        self._winding_up = True
        self._jobs.release_waiting()

    async def _wind_up(self) -> None:
        self.wind_up()
        while self._stop_at == math.inf and (self._workers.busy or self._outgoing.slots):
            self._outgoing.hurry()
            await self._calm.wait()  # unsubscribed, not stopped
        await self._until_ended(lambda: self._workers.busy, lambda: self._outgoing.slots, self._stop_at)

    async def _settle_last(self) -> None:
        engine = self._engine
        engine.exchanging.one_by_one = False
        self._jobs.release_waiting()
        if engine.client.fatal is not None or not engine.started:
            return  # the stop in progress sends the acknowledgements
        with anyio.move_on_after(LAST_COMMIT_WITHIN_S):
            try:
                await engine.acknowledging.flush(LAST_COMMIT_WITHIN_S * 1000)
            except KafkaError as error:
                self._log.warning("acknowledgements were not sent at the end: %s", error)

    # --- handling ----------------------------------------------------------------------------------------------------

    async def _deserialize_and_handle(self, record: Record) -> None:
        await self._handler(await deserialized(record, self._engine.deserializers))

    def _decide(self, record: Record, kind: AcknowledgeType) -> None:
        if not self._engine.acknowledging.decide(record, kind) and kind is ACCEPT:
            lost = record._acquired.failure(record._index)
            if lost is not None:  # otherwise, the handler itself has acknowledged it
                self._log.warning(
                    "the record at offset %d of %s was handled after its lock was lost, and is delivered again: %s",
                    record.offset,
                    record.topic_partition,
                    lost,
                )
        self._room.set()
        if self._winding_up:
            self._calm.tell()

    def _attempt(self, slot: JobSlot, record: Record, error: BaseException) -> int:
        return record.delivery_count

    def _wait(self, slot: JobSlot, record: Record, error: BaseException, delay_s: float | None) -> None:
        now = time.monotonic()
        if delay_s is None:
            if self._judge.tracing is not None:
                self._judge.tracing.failed(record, error)  # the next delivery may go to another member
            self._jobs.keep_back(slot, now)
        elif self._winding_up:
            self._jobs.given_up(slot)
        else:
            self._jobs.postpone(slot, now + delay_s)
        self._room.set()
        self._calm.tell()

    def _leave(self, slot: JobSlot) -> None:
        self._jobs.rejected(slot)

    def _give_up(self, slot: JobSlot) -> None:
        self._jobs.given_up(slot)

    def _next_due(self) -> float | None:
        return self._jobs.next_due()

    def _due(self, now: float) -> None:
        self._jobs.let_go_due(now)

    # --- locks -------------------------------------------------------------------------------------------------------

    async def _renew(self) -> None:
        """Renew the locks of records that are being handled before they expire, until cancelled."""
        allowance = self._engine.allowance
        while True:
            await anyio.sleep(min(LOOK_EVERY_S, allowance.lock_s / 16))
            for record in self._jobs.running_out(time.monotonic(), allowance.lock_s * RENEW_BELOW):
                if record._exchange.version >= FIRST_VERSION_WITH_RENEWALS:
                    self._engine.acknowledging.decide(record, RENEW)
