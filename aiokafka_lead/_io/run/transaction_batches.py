"""Running handlers that take several records at once, within a transaction of `Consumer.run`."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from ..._core.run.exactly_once import Attempts, CallTransaction
from ..._core.run.gathering import Gathered
from ..._core.run.work import HandlerSlot
from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ..loop import Signal
from .batches import Gatherer, raised
from .routing import BatchRoute, Routing
from .workers import Worker, Workers

Record = ConsumerRecord[Any, Any]


class Calls(NamedTuple):
    """Functions that handle the records of a transaction."""

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
