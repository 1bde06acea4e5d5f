"""Runs handlers that take several records at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Container
from functools import partial
from typing import Any, Protocol

import anyio

from ..._core.backoff import Backoff
from ..._core.run.gathering import Gathered, Gathering
from ..._core.run.handler import NoAwaitableError
from ..._core.run.options import HandlingConfig
from ..._core.run.refusals import is_outage
from ..._core.run.work import HandlerSlot, PartitionWork, Work
from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...errors import DropRecordError, RecordDeserializationError
from ..cancellation import outlives_cancellation
from ..loop import Signal
from .base import Judge
from .routing import BatchRoute, Routing
from .workers import Worker, Workers, timed

Record = ConsumerRecord[Any, Any]


class _Settle(Protocol):
    """Settles a record whose handler has raised this error, for the ``attempts``-th time; see `WorkersRun`."""

    def __call__(self, slot: HandlerSlot, record: Record, error: BaseException, attempts: int) -> Awaitable[None]: ...


class _Member(NamedTuple):
    slot: HandlerSlot
    record: Record
    item: Any
    """Item for the handler."""


class Gatherer:
    """Takes records over from workers, for handlers of batches."""

    def __init__(self, routing: Routing, changed: Signal) -> None:
        """``changed`` is set when the next start has changed."""
        self._routing = routing
        self._changed = changed
        self._gathering: Gathering[BatchRoute] = Gathering()

    async def take_over(self, slot: HandlerSlot, record: Record) -> bool:
        """Return True if the record now waits for a batch, together with its slot."""
        route = self._routing.batch_of(record.topic)
        if route is None:
            return False
        if self._gathering.add(slot, route, time.monotonic()):
            self._changed.set()
        return True


class Batches(Gatherer):
    """Takes records over from workers, and handles them in tasks of its own, one for each partition.

    A batch that fails is handled again as a whole; when its retries are used up, each record is handled alone.
    """

    def __init__(
        self,
        routing: Routing,
        judge: Judge[Record],
        work: Work,
        deserialize: Callable[[Record], Awaitable[Record]] | None,
        settle: _Settle,
        sending: Container[HandlerSlot],
        changed: Signal,
    ) -> None:
        """``deserialize`` is None if records are used unchanged; ``sending`` has the slots of records that are on their
        way to other topics."""
        super().__init__(routing, changed)
        self._judge = judge
        self._config: HandlingConfig = judge.config
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._work = work
        self._deserialize = deserialize
        self._settle = settle
        self._sending = sending
        self.next_due = self._gathering.next_due

    def begin_due(self, workers: Workers[HandlerSlot, Record], now: float) -> None:
        """Begin the batches that are due."""
        for batch in self._gathering.due(now):
            workers.begin(Worker(batch.slots[0]), partial(self._run, batch, workers))

    def give_up(self, partitions: Collection[PartitionWork] | None = None) -> None:
        """Begin no more batches of these partitions, or of any; their waiting records are not done."""
        for slot in self._gathering.give_up(partitions):
            self._work.given_up(slot)

    async def _run(
        self, batch: Gathered[BatchRoute], workers: Workers[HandlerSlot, Record], worker: Worker[HandlerSlot]
    ) -> None:
        try:
            async with workers.place():
                members = await self._members(worker, batch)
                if members and not await self._handle_together(worker, batch.by, members):
                    for member in members:
                        worker.slot = member.slot
                        await self._handle_alone(batch.by, member)
        finally:
            for slot in batch.slots:
                if slot.busy and slot not in self._sending and slot.partition is batch.partition:
                    self._work.given_up(slot)
            self._gathering.ended(batch.partition)
            self._changed.set()

    async def _members(self, worker: Worker[HandlerSlot], batch: Gathered[BatchRoute]) -> list[_Member]:
        """Return the records that can be read; the rest are settled as bad records."""
        found: list[_Member] = []
        for slot in batch.slots:
            worker.slot = slot  # holds an unfinished record, so that a wait for its partition includes this worker
            record: Record = slot.record  # type: ignore[assignment]
            while True:
                try:
                    made = record if self._deserialize is None else await self._deserialize(record)
                    found.append(_Member(slot, record, batch.by.item(made)))
                    break
                except (RecordDeserializationError, DropRecordError) as error:
                    if await self._waits_out(slot, record, error):
                        continue
                    if not slot.busy:
                        return []  # its partition is being left, and those before it come again, too
                    await self._settle(slot, record, error, 0)
                    break
        if found:
            worker.slot = found[0].slot
        return found

    async def _handle_together(self, worker: Worker[HandlerSlot], by: BatchRoute, members: list[_Member]) -> bool:
        """Return True if the batch is handled, False if each of its records has to be handled alone."""
        attempts = min(self._attempts(member.record) for member in members)
        first = members[0]
        while True:
            error = await self._raised(by, [member.item for member in members])
            if error is None:
                for member in members:
                    self._work.finished(member.slot)
                return True
            if isinstance(error, NoAwaitableError):
                await self._settle(first.slot, first.record, error, 1)
                return True
            if await self._waits_out(first.slot, first.record, error):
                continue
            if not first.slot.busy:
                return True
            attempts += 1
            if self._config.verdict(error, attempts).fate != "retry":
                if len(members) > 1:
                    return False
                await self._settle(first.slot, first.record, error, attempts)
                return True
            self._judge.judge(first.record, error, attempts)
            if not await self._wait(first.slot, self._backoff.delay_s(attempts)):
                return True

    async def _handle_alone(self, by: BatchRoute, member: _Member) -> None:
        while True:
            error = await self._raised(by, [member.item])
            if error is None:
                self._work.finished(member.slot)
                return
            if not await self._waits_out(member.slot, member.record, error):
                if member.slot.busy:
                    attempts = max(self._config.retries, self._attempts(member.record)) + 1
                    await self._settle(member.slot, member.record, error, attempts)
                return

    def _attempts(self, record: Record) -> int:
        """Return the number of attempts at a record before it came here from a retry topic."""
        later = self._judge.retry_topics
        return 0 if later is None else later.attempts(record)

    async def _waits_out(self, slot: HandlerSlot, record: Record, error: BaseException) -> bool:
        """Return True after waiting for a schema registry, if the error comes from one."""
        if not is_outage(error):
            return False
        verdict = self._judge.outage(record, error, 0)
        if verdict.wait_s is None:
            await self._settle(slot, record, error, 0)
            return False
        return await self._wait(slot, verdict.wait_s)

    async def _wait(self, slot: HandlerSlot, delay_s: float) -> bool:
        """Wait to handle the slot's record again; return False if it is given up, as its partition is being left."""
        assert slot.partition is not None
        if slot.partition.closed:
            self._work.given_up(slot)
            return False
        await anyio.sleep(delay_s)
        return True

    async def _raised(self, by: BatchRoute, items: list[Any]) -> BaseException | None:
        return await raised(by.handle, items, self._config.handler_timeout_ms)


async def raised(
    handle: Callable[[list[Any]], Awaitable[object]], items: list[Any], timeout_ms: float | None
) -> BaseException | None:
    """Call a handler of batches; return the error it has raised, or None."""
    try:
        await timed(handle, timeout_ms)(items)
    except Exception as error:
        return error
    except asyncio.CancelledError as error:
        if not await outlives_cancellation():
            raise
        return error
    return None
