"""Runs handlers that take several records at once, including those in a transaction of `Consumer.run`."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import anyio

from ..._core.backoff import Backoff
from ..._core.run.exactly_once import Attempts, CallTransaction
from ..._core.run.following import Following
from ..._core.run.gathering import Gathered, Gathering
from ..._core.run.handler import NoAwaitableError
from ..._core.run.options import HandlingConfig
from ..._core.run.work import HandlerSlot, PartitionWork, Work
from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...errors import DropRecordError, RecordDeserializationError
from ..cancellation import outlives_cancellation
from ..loop import News, Signal
from .judge import Judge
from .outgoing import Outgoing
from .routing import BatchRoute, Routing
from .workers import Worker, Workers, timed

Record = ConsumerRecord[Any, Any]


class Ways(NamedTuple):
    """The functions of a run with which batches hand back single records."""

    settle: Callable[[HandlerSlot, Record, BaseException, int], None]
    """Settles a record whose handler has raised this exception after this number of attempts (see `WorkersRun`)."""
    leave: Callable[[HandlerSlot], None]
    """Finishes with a record."""
    following: Following | None
    """The records that wait in retry topics if the order by key applies to these, otherwise None."""
    follow: Callable[[HandlerSlot, Record], bool]
    """Returns True for a record that is not handled here because it follows another record of its key."""


class _Member(NamedTuple):
    slot: HandlerSlot
    record: Record
    item: Any
    """The item for the handler."""


class Gatherer:
    """Base class: takes records over from workers, and gathers them for batch handlers."""

    def __init__(self, routing: Routing, changed: Signal) -> None:
        """Collect records for the handlers of ``routing``.

        ``changed`` is set when the time at which the next batch starts has changed.
        """
        self._routing = routing
        self._changed = changed
        self._gathering: Gathering[BatchRoute] = Gathering()

    def take_over(self, slot: HandlerSlot, record: Record) -> bool:
        """Return True if the record and its slot are now waiting for a batch."""
        route = self._routing.batch_of(record.topic)
        if route is None:
            return False
        if self._gathering.add(slot, route, time.monotonic()):
            self._changed.set()
        return True


class Batches(Gatherer):
    """Takes over records from workers, and handles each partition's records in a separate task.

    A failed batch is handled again as a whole. When its retries are used up, each record is handled alone. If the order
    by key applies across retry topics, a batch ends before a second record of a key that is waiting there.
    """

    def __init__(
        self,
        routing: Routing,
        judge: Judge[Record],
        work: Work,
        deserialize: Callable[[Record], Awaitable[Record]] | None,
        ways: Ways,
        outgoing: Outgoing[HandlerSlot],
        calm: News,
        changed: Signal,
    ) -> None:
        """Handle batches with the handlers of ``routing``.

        ``deserialize`` is None if records are used unchanged. ``calm`` is notified when ``outgoing`` has written a
        record.
        """
        super().__init__(routing, changed)
        self._judge = judge
        self._config: HandlingConfig = judge.config
        self._backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        self._work = work
        self._deserialize = deserialize
        self._settle, self._leave, self._following, self._follow = ways
        self._outgoing = outgoing
        self._calm = calm
        self.next_due = self._gathering.next_due

    def begin_due(self, workers: Workers[HandlerSlot, Record], now: float) -> None:
        """Start the batches that are due."""
        for batch in self._gathering.due(now):
            workers.begin(Worker(batch.slots[0]), partial(self._run, batch, workers))

    def give_up(self, partitions: Collection[PartitionWork] | None = None) -> None:
        """Start no more batches of these partitions, or of all. Their waiting records are not done."""
        for slot in self._gathering.give_up(partitions):
            self._work.given_up(slot)

    async def _run(
        self, batch: Gathered[BatchRoute], workers: Workers[HandlerSlot, Record], worker: Worker[HandlerSlot]
    ) -> None:
        """Handle the records of ``batch`` together, and each alone if this fails, once there is a place for ``worker``.

        If the order by key applies across retry topics, waits until records sent to other topics are written.
        """
        try:
            async with workers.place():
                left = deque(batch.slots)
                while left:
                    members = await self._members(worker, batch.by, left)
                    if members and not await self._handle_together(worker, batch.by, members):
                        for member in members:
                            worker.slot = member.slot
                            await self._handle_alone(worker, batch.by, member)
                if self._following is not None:
                    await self._until_written(batch.partition)
        finally:
            for slot in batch.slots:
                if slot.busy and slot not in self._outgoing.slots and slot.partition is batch.partition:
                    self._work.given_up(slot)
            self._gathering.ended(batch.partition)
            self._changed.set()

    async def _members(self, worker: Worker[HandlerSlot], by: BatchRoute, left: deque[HandlerSlot]) -> list[_Member]:
        """Remove the next records from ``left``. Return those to handle together.

        Records that cannot be deserialized are settled as bad records.
        """
        found: list[_Member] = []
        keys: set[bytes | None] = set()
        while left:
            slot = left[0]
            record: Record = slot.record  # type: ignore[assignment]
            if self._following is not None:
                if record.key in keys and self._following.concerns(record):
                    break
                keys.add(record.key)
            left.popleft()
            worker.slot = slot  # hold an unfinished record, so that a wait for its partition includes this worker
            if await self._follows(slot, record):
                continue
            while True:
                try:
                    made = record if self._deserialize is None else await self._deserialize(record)
                    found.append(_Member(slot, record, by.item(made)))
                    break
                except (RecordDeserializationError, DropRecordError) as error:
                    if await self._waits_out(slot, record, error):
                        continue
                    if not slot.busy:
                        left.clear()
                        # The partition has been given up, so the earlier records will be delivered again as well.
                        return []
                    self._settle(slot, record, error, 0)
                    break
        if found:
            worker.slot = found[0].slot
        return found

    async def _handle_together(self, worker: Worker[HandlerSlot], by: BatchRoute, members: list[_Member]) -> bool:
        """Handle these records in one call of the handler ``by``. Return False if each must be handled alone."""
        attempts = min(self._attempts(member.record) for member in members)
        first = members[0]
        while True:
            error = await self._raised(worker, by, members)
            if error is None:
                for member in members:
                    self._leave(member.slot)
                return True
            if isinstance(error, NoAwaitableError):
                self._settle(first.slot, first.record, error, 1)
                return True
            if await self._waits_out(first.slot, first.record, error):
                continue
            if not first.slot.busy:
                return True
            attempts += 1
            if self._config.verdict(error, attempts).fate != "retry":
                if len(members) > 1:
                    return False
                self._settle(first.slot, first.record, error, attempts)
                return True
            self._judge.judge(first.record, error, attempts)
            if not await self._wait(first.slot, self._backoff.delay_s(attempts)):
                return True

    async def _handle_alone(self, worker: Worker[HandlerSlot], by: BatchRoute, member: _Member) -> None:
        while not await self._follows(member.slot, member.record):
            error = await self._raised(worker, by, [member])
            if error is None:
                self._leave(member.slot)
                return
            if not await self._waits_out(member.slot, member.record, error):
                if member.slot.busy:
                    attempts = max(self._config.retries, self._attempts(member.record)) + 1
                    self._settle(member.slot, member.record, error, attempts)
                return

    async def _follows(self, slot: HandlerSlot, record: Record) -> bool:
        """Return True if the record follows another record of its key.

        Waits until earlier records have been written.
        """
        if self._following is None or slot.partition is None:
            return False
        await self._until_written(slot.partition, record.key)
        return self._follow(slot, record)

    async def _until_written(self, partition: PartitionWork, *keys: bytes | None) -> None:
        """Wait until records of the partition are written to other topics.

        If keys are given, wait only for their records.
        """
        while any(
            slot.partition is partition and slot.record is not None and (not keys or slot.record.key in keys)
            for slot in self._outgoing.slots
        ):
            self._outgoing.hurry()
            await self._calm.wait()

    def _attempts(self, record: Record) -> int:
        """Return the number of earlier attempts at a record that was read from a retry topic, otherwise 0."""
        later = self._judge.retry_topics
        return 0 if later is None else later.attempts(record)

    async def _waits_out(self, slot: HandlerSlot, record: Record, error: BaseException) -> bool:
        """Wait if the error may be temporary. Return True if the record should be tried again."""
        if not self._judge.is_passing(error):
            return False
        verdict = self._judge.passing(record, error, 0)
        if verdict.wait_s is None:
            if verdict.failure is not None:
                self._settle(slot, record, error, 0)
            return False
        return await self._wait(slot, verdict.wait_s)

    async def _wait(self, slot: HandlerSlot, delay_s: float) -> bool:
        """Wait ``delay_s`` seconds to retry the record. Return False if its partition has been given up."""
        assert slot.partition is not None
        if slot.partition.closed:
            self._work.given_up(slot)
            return False
        await anyio.sleep(delay_s)
        return True

    async def _raised(
        self, worker: Worker[HandlerSlot], by: BatchRoute, members: Sequence[_Member]
    ) -> BaseException | None:
        traced = self._judge.together([member.record for member in members])
        with worker.handling():
            return await raised(by.handle, [member.item for member in members], self._config.handler_timeout_ms, traced)


async def raised(
    handle: Callable[[list[Any]], Awaitable[object]],
    items: list[Any],
    timeout_ms: float | None,
    around: AbstractContextManager[object],
) -> BaseException | None:
    """Call a batch handler with ``items``, inside ``around``. Return the exception that it raises, or None.

    A handler that exceeds ``timeout_ms`` raises TimeoutError.
    """
    try:
        with around:
            await timed(handle, timeout_ms)(items)
    except Exception as error:
        return error
    except asyncio.CancelledError as error:
        if not await outlives_cancellation():
            raise
        return error
    return None


class Calls(NamedTuple):
    """The functions with which the records of one transaction are handled."""

    one: Callable[[Record], Awaitable[object]]
    """Handles one record, or sends it to another topic."""
    begin: Callable[[], CallTransaction]
    """Returns the transaction for one call of a handler."""
    bearable: Callable[[Sequence[Record], BaseException], float | None]
    """Counts a failed call (see `ExactlyOnceRun`)."""
    elsewhere: Callable[[Record], Awaitable[bool]]
    """Returns True for a record that is not handled here. If necessary, it sends the record to another topic first."""
    finished: Callable[[Record], None]
    """Marks a record as handled."""
    waits: Callable[[Record], bool]
    """Returns True if earlier records of the same key wait in retry topics, so the order must be kept."""
    readable: Callable[[Record], Awaitable[Record]]
    """Returns the original record, deserialized."""
    together: Callable[[Sequence[Record]], AbstractContextManager[object]]
    """Returns a context manager for a call with these records (see `Judge.together`)."""


class _Settling(Protocol):
    """The part of `Batch` that this module uses."""

    spoilt: bool

    @property
    def lost(self) -> bool:
        """True if the transaction will be aborted."""
        ...

    def handled(self, slots: Sequence[HandlerSlot]) -> None: ...

    def failed_together(self, slots: Sequence[HandlerSlot], error: BaseException) -> None: ...

    async def wait(self, delay_s: float) -> None: ...


class TransactionBatches(Gatherer):
    """Takes over records from workers, and handles each partition's records in a separate task.

    A failed batch is handled again as a whole, in the next transaction if its handler has sent anything. When its
    retries are used up, each record is handled alone.
    """

    def __init__(self, settling: _Settling, routing: Routing, attempts: Attempts, timeout_ms: float | None) -> None:
        super().__init__(routing, Signal())
        self._settling = settling
        self._attempts = attempts
        self._timeout_ms = timeout_ms
        self._hurry_at = math.inf
        """Time after which no batch waits for more records, because no more are taken."""

    def hurry(self, at: float) -> None:
        """Start all waiting batches at this time (``time.monotonic()``), even if they are not full.

        Batches of records that arrive later start at once.
        """
        self._hurry_at = at
        self._changed.set()

    def give_up(self) -> list[HandlerSlot]:
        """Start no more batches. Return the slots of waiting records."""
        return self._gathering.give_up()

    async def run(self, workers: Workers[HandlerSlot, Record], calls: Calls) -> None:
        """Start batches when they are due, until cancelled."""
        while True:
            due_at = self._gathering.next_due()
            if due_at is not None:
                due_at = max(0.0, min(due_at, self._hurry_at) - time.monotonic())
            await self._changed.wait(due_at)
            now = time.monotonic()
            for batch in self._gathering.due(math.inf if now >= self._hurry_at else now):
                workers.begin(Worker(batch.slots[0]), partial(self._run, batch, workers, calls))

    async def _run(
        self,
        batch: Gathered[BatchRoute],
        workers: Workers[HandlerSlot, Record],
        calls: Calls,
        worker: Worker[HandlerSlot],
    ) -> None:
        try:
            async with workers.place():
                left = deque(batch.slots)
                while left and not self._settling.lost:
                    await self._handle(batch.by, left, calls, worker)
        finally:
            self._gathering.ended(batch.partition)
            self._changed.set()

    async def _handle(
        self, by: BatchRoute, left: deque[HandlerSlot], calls: Calls, worker: Worker[HandlerSlot]
    ) -> None:
        """Remove the next records from ``left``, and handle them together."""
        items: list[Any] = []
        slots: list[HandlerSlot] = []
        keys: set[bytes | None] = set()
        alone = False
        while left and not alone:
            slot = left[0]
            record: Record = slot.record  # type: ignore[assignment]
            alone = self._attempts.is_alone(record)
            if slots and (alone or (record.key in keys and calls.waits(record))):
                break
            left.popleft()
            worker.slot = slot  # hold an unfinished record, so that a wait for its partition includes this worker
            try:
                if await calls.elsewhere(record):
                    self._settling.handled([slot])
                    continue
                items.append(by.item(await calls.readable(record)))
            except Exception as error:
                left.appendleft(slot)
                if calls.bearable([record], error) is None:
                    self._settling.failed_together([slot], error)
                    return
                continue
            keys.add(record.key)
            slots.append(slot)
        if not slots:
            return
        worker.slot = slots[0]
        records: list[Record] = [slot.record for slot in slots]  # type: ignore[misc]
        with worker.handling():
            traced, txn = calls.together(records), calls.begin()
            failure = await raised(partial(_call, by.handle, txn), items, self._timeout_ms, traced)
        if failure is not None:
            self._settling.spoilt |= txn._end()
            delay_s = calls.bearable(records, failure)
            if delay_s is None:
                self._settling.failed_together(slots, failure)
                return
            left.extendleft(reversed(slots))
            await self._settling.wait(delay_s)
            return
        for record in records:
            calls.finished(record)
        self._settling.handled(slots)


def _call(handle: Callable[..., Awaitable[object]], txn: Any, items: list[Any]) -> Awaitable[object]:
    return handle(items, txn)
