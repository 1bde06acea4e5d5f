"""Tasks in which handlers run."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

import anyio.lowlevel
from anyio.abc import TaskGroup

from ..._core.run.handler import place_of
from ..._core.run.options import leaves
from ..._options.logs import ClientLog
from ..cancellation import face_cancellation, outlives_cancellation
from ..loop import Signal, in_trio

FAIR_S = 0.005
"""Seconds after which workers let other tasks run if their handlers never wait."""


class Slot(Protocol):
    """Holds one record while a handler processes it. Each worker has a slot."""

    @property
    def busy(self) -> bool:
        """True while there is a record in the slot."""
        ...

    @property
    def record(self) -> Any:
        """The record in this slot, which the worker is handling."""
        ...


S = TypeVar("S", bound=Slot)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Workload(Protocol[S, R_co]):
    """The records in hand of a run. It owns the slots and the records in them."""

    def slot(self) -> S:
        """Return a slot for an additional worker."""
        ...

    @property
    def turns(self) -> object:
        """False if there are no records to handle, except those in `aside`."""

    @property
    def aside(self) -> object:
        """False if there are no records to handle that wait separately from others."""

    def take(self, slot: S, /) -> R_co | None:
        """Put the next record into the slot. Return it, or None if there is no record to handle."""

    def finished(self, slot: S, /) -> None:
        """Finish the slot's record, because its handler has returned."""

    def given_up(self, slot: S, /) -> None:
        """Take back the slot's record, whose handler has not finished it."""


class Worker(Generic[S]):
    """A task that handles one record after another, each in the worker's slot."""

    __slots__ = ("began_at", "named_at", "parked", "retired", "scope", "slot")

    def __init__(self, slot: S) -> None:
        self.slot = slot
        self.scope = anyio.CancelScope()
        self.parked = Signal()
        self.began_at = 0.0
        """Time at which the handler of the current record started. It is infinity while the worker of a batch is
        waiting.
        """
        self.named_at = 0.0
        """The ``began_at`` of the last handler that was logged as slow."""
        self.retired = False
        """True if the worker must end because another task has its place."""

    @property
    def place(self) -> str:
        """Topic, partition and offset of the record, for log messages."""
        return place_of(self.slot.record)

    @contextmanager
    def handling(self) -> Iterator[None]:
        """Count this block as the work of a handler.

        This is for workers started by `Workers.begin`, which wait at other times.
        """
        self.began_at = monotonic()
        try:
            yield
        finally:
            self.began_at = math.inf


class Workers(Generic[S, R]):
    """Up to ``concurrency`` tasks that share the records. They are created on demand.

    There is no task per record. If a handler does not wait, there is no task switch either, because its worker
    continues with the next record. Before a worker calls a handler, it ensures that another worker is awake to continue
    if the handler waits.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        work: Workload[S, R],
        concurrency: int,
        handle: Callable[[R], Awaitable[object]],
        failed: Callable[[S, R, BaseException], None],
        end: Callable[[S, BaseException], None],
        take_over: Callable[[S, R], bool] | None = None,
        on_rest: Callable[[], None] = lambda: None,
        *,
        slow_s: float = math.inf,
        log: ClientLog | None = None,
    ) -> None:
        """Run up to ``concurrency`` workers in ``tasks``. A handler that has run for ``slow_s`` seconds is logged."""
        self._tasks = tasks
        self._work = work
        self._concurrency = concurrency
        self._handle = handle
        self._failed = failed
        """Called when a handler has raised an exception.

        It keeps the slot while it sends the record to another topic.
        """
        self._end = end
        """Called when a handler has raised a BaseException that is not an Exception, such as SystemExit."""
        self._take_over = take_over
        """Returns True for a record that is not handled here. It may keep the record with its slot."""
        self._on_rest = on_rest
        """Called when all workers are waiting for records."""
        self._slow_s = slow_s
        self._log = log
        self._idle: list[Worker[S]] = []
        self._watched = False
        self._relief = False
        """True while a woken worker has not run yet."""
        self._gave_way_at = 0.0
        self._all: set[Worker[S]] = set()
        """The workers that take records."""
        self._begun: set[Worker[S]] = set()
        """The workers started by `begin`."""
        self._places = 0
        """Number of places that other tasks hold."""
        self._claims: deque[anyio.Event] = deque()
        """Tasks that are waiting for a place."""

    @property
    def busy(self) -> list[Worker[S]]:
        """Workers that are handling a record."""
        return [worker for worker in (*self._all, *self._begun) if worker.slot.busy]

    def stuck_since(self) -> float | None:
        """Return the time at which the oldest running handler started (``time.monotonic()``), or None."""
        oldest = min((worker.began_at for worker in self.busy), default=math.inf)
        return None if oldest == math.inf else oldest

    def rouse(self) -> None:
        """Wake or create a worker, because there may be a record to handle."""
        if self._relief:
            return
        if self._idle:
            self._relief = True
            self._idle.pop().parked.set()
        elif len(self._all) + self._places < self._concurrency:
            self._relief = True
            worker = Worker(self._work.slot())
            self._watch()
            self._all.add(worker)
            self._tasks.start_soon(self._serve, worker, name="kafka handler")

    def begin(self, worker: Worker[S], handle: Callable[[Worker[S]], Awaitable[None]]) -> None:
        """Run ``handle`` in a separate task as this worker. When it returns, the worker ends."""
        self._watch()
        worker.began_at = math.inf
        self._begun.add(worker)
        self._tasks.start_soon(self._serve_once, worker, handle, name="kafka handler")

    def _watch(self) -> None:
        """Start the task that logs slow handlers. It is needed from the first worker on."""
        if not self._watched and self._log is not None:
            self._watched = True
            self._tasks.start_soon(self._name_slow, self._log, name="kafka slow handlers")

    async def _name_slow(self, log: ClientLog) -> None:
        while True:
            await anyio.sleep(self._slow_s / 4)
            now = monotonic()
            for worker in self.busy:
                if now - worker.began_at >= self._slow_s and worker.named_at != worker.began_at:
                    worker.named_at = worker.began_at
                    log.warning("the handler of %s has been running for %.1f s", worker.place, now - worker.began_at)

    async def _serve_once(self, worker: Worker[S], handle: Callable[[Worker[S]], Awaitable[None]]) -> None:
        try:
            with worker.scope:
                await handle(worker)
        except BaseException as error:
            if _interrupts(error):
                raise
            self._end(worker.slot, error)
        finally:
            self._begun.discard(worker)

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for one of the ``concurrency`` places, and hold it during the block."""
        await self._claim()
        try:
            yield
        finally:
            self._leave_place()

    async def _claim(self) -> None:
        if self._idle and len(self._all) + self._places >= self._concurrency:
            # An idle worker yields its place.
            self._retire(self._idle.pop())
        claim = anyio.Event()
        self._claims.append(claim)
        self._grant()
        try:
            await claim.wait()
        except BaseException:
            if claim in self._claims:
                self._claims.remove(claim)
            else:
                self._leave_place()
            raise

    def _leave_place(self) -> None:
        self._places -= 1
        self._grant()
        self.rouse()

    def _grant(self) -> None:
        """Give free places to the tasks that wait in `place`, in order."""
        while self._claims and len(self._all) + self._places < self._concurrency:
            self._places += 1
            self._claims.popleft().set()

    def _retire(self, worker: Worker[S]) -> None:
        worker.retired = True
        worker.parked.set()
        self._all.discard(worker)

    async def _serve(self, worker: Worker[S]) -> None:
        """Handle one record after another until the worker is cancelled or retired.

        An error of a handler, or a cancellation that the handler itself has caused, concerns only its record.
        """
        work, handle, slot, take_over = self._work, self._handle, worker.slot, self._take_over
        cancelling = _cancellations()
        self._relief = False
        try:
            with worker.scope:
                while not worker.retired:
                    now = monotonic()
                    if now > self._gave_way_at + FAIR_S:
                        await anyio.lowlevel.checkpoint()
                        now = self._gave_way_at = monotonic()
                    if self._claims:  # after the checkpoint, because a claim during it would find no idle worker
                        self._retire(worker)
                        break
                    record = work.take(slot)
                    if record is None:
                        await self._park(worker)
                        continue
                    worker.began_at = now
                    if take_over is not None and take_over(slot, record):
                        if slot.busy:
                            # The record keeps its slot, so the worker needs another one.
                            slot = worker.slot = work.slot()
                        continue
                    if not self._relief and (work.turns or work.aside):
                        self.rouse()
                    try:
                        await handle(record)
                        if cancelling():
                            await face_cancellation()
                    except Exception as error:
                        slot = self._settle(worker, record, error)
                    except asyncio.CancelledError as error:
                        if not await outlives_cancellation():
                            raise
                        slot = self._settle(worker, record, error)
                    except BaseException as error:
                        if _interrupts(error):
                            raise
                        self._end(slot, error)  # not raised here, because asyncio would stop the event loop at once
                    else:
                        work.finished(slot)
        except asyncio.CancelledError:
            if not await outlives_cancellation():
                raise
        finally:
            self._all.discard(worker)
            if slot.busy:
                work.given_up(slot)
            self._grant()
        # If only this worker was cancelled, another worker must handle the remaining records.
        self.rouse()

    def _settle(self, worker: Worker[S], record: R, error: BaseException) -> S:
        """Settle a handler's failure. Return the slot for the worker's next record."""
        self._failed(worker.slot, record, error)
        if worker.slot.busy:  # the record is being sent to another topic
            worker.slot = self._work.slot()
        return worker.slot

    async def _park(self, worker: Worker[S]) -> None:
        self._idle.append(worker)
        if len(self._idle) == len(self._all):
            self._on_rest()
        try:
            await worker.parked.wait()
        except BaseException:
            if worker in self._idle:
                self._idle.remove(worker)
            else:
                self._relief = False
            raise
        self._relief = False
        self._gave_way_at = monotonic()


def _cancellations() -> Callable[[], int]:
    """Return a function that returns the number of `cancel` calls on this asyncio task, or 0 on trio."""
    task = None if in_trio() else asyncio.current_task()
    return int if task is None else task.cancelling


def _interrupts(error: BaseException) -> bool:
    """Return True if the error is a cancellation of the task or the end of its coroutine."""
    if isinstance(error, GeneratorExit):
        return True  # there may be no event loop, which the next line needs
    cancelled = anyio.get_cancelled_exc_class()
    return any(isinstance(leaf, cancelled) for leaf in leaves(error))


def timed(handle: Callable[[R], Awaitable[object]], timeout_ms: float | None) -> Callable[[R], Awaitable[object]]:
    """Return the handler with a time limit.

    If the limit is exceeded, the handler is cancelled and TimeoutError is raised.
    """
    if timeout_ms is None:
        return handle

    async def handle_in_time(record: R) -> None:
        with anyio.move_on_after(timeout_ms / 1000) as scope:
            await handle(record)
        if scope.cancelled_caught:
            raise TimeoutError(f"the handler took longer than handler_timeout_ms ({timeout_ms:g})")

    return handle_in_time
