"""The tasks in which handlers run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ..._core.run.handler import place_of
from ..cancellation import face_cancellation, outlives_cancellation
from ..loop import Signal, in_trio

__all__ = ["Slot", "Worker", "Workers", "Workload"]

FAIR_S = 0.005
"""Handlers that never wait for anything let other tasks run after this time."""


class Slot(Protocol):
    """Has the one record at a time that a handler works on."""

    @property
    def busy(self) -> bool:
        """Whether there is one now."""
        ...

    @property
    def record(self) -> Any:
        """The record, while there is one."""
        ...


S = TypeVar("S", bound=Slot)
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Workload(Protocol[S, R_co]):
    """What a run has in hand. Owns the slots and their records."""

    def slot(self) -> S:
        """A slot for another worker."""
        ...

    @property
    def turns(self) -> object:
        """False where there is nothing to hand out."""

    def take(self, slot: S, /) -> R_co | None:
        """The next record, which the slot has from now on; None if there is none to hand out."""

    def finished(self, slot: S, /) -> None:
        """The handler of the slot's record has returned."""

    def given_up(self, slot: S, /) -> None:
        """The slot's record is with its handler no more, and not done."""


class Worker(Generic[S]):
    """A task that handles one record after the other."""

    __slots__ = ("began_at", "parked", "scope", "slot", "task_id")

    def __init__(self, slot: S) -> None:
        self.slot = slot
        self.scope = anyio.CancelScope()
        self.parked = Signal()
        self.task_id = 0
        self.began_at = 0.0
        """When it began to handle its record."""

    @property
    def place(self) -> str:
        """Where the record is that it handles."""
        return place_of(self.slot.record)


class Workers(Generic[S, R]):
    """At most ``concurrency`` tasks, made as they are needed, which share the work out among themselves.

    There is no task for each record, and no switch of tasks for a handler that does not wait: its worker just goes on
    with the next record. A worker about to call a handler sees to it that another one is awake; that one's turn comes
    when the handler waits, and it takes over.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        work: Workload[S, R],
        concurrency: int,
        handle: Callable[[R], Awaitable[object]],
        failed: Callable[[S, R, BaseException], Awaitable[None]],
        end: Callable[[S, BaseException], None],
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._concurrency = concurrency
        self._handle = handle
        self._failed = failed
        """Called when a handler has raised; decides what becomes of the record."""
        self._end = end
        """Called when a handler wants the process to end."""
        self._idle: list[Worker[S]] = []
        self._relief = False
        """Whether a worker has been woken and did not get its turn yet."""
        self._gave_way_at = 0.0
        self._all: set[Worker[S]] = set()

    @property
    def busy(self) -> list[Worker[S]]:
        """Those that are handling a record."""
        return [worker for worker in self._all if worker.slot.busy]

    def stuck_since(self) -> float | None:
        """When the handler that has been at work for longest began (``time.monotonic()``); None while none is."""
        return min((worker.began_at for worker in self.busy), default=None)

    def rouse(self) -> None:
        """There may be something to hand out."""
        if self._relief:
            return
        if self._idle:
            self._relief = True
            self._idle.pop().parked.set()
        elif len(self._all) < self._concurrency:
            self._relief = True
            worker = Worker(self._work.slot())
            self._all.add(worker)
            self._tasks.start_soon(self._serve, worker, name="kafka handler")

    async def _serve(self, worker: Worker[S]) -> None:
        work, handle, slot = self._work, self._handle, worker.slot
        worker.task_id = anyio.get_current_task().id
        cancelling = _cancellations()
        self._relief = False
        try:
            with worker.scope:
                while True:
                    now = monotonic()
                    if now > self._gave_way_at + FAIR_S:
                        await anyio.lowlevel.checkpoint()
                        now = self._gave_way_at = monotonic()
                    record = work.take(slot)
                    if record is None:
                        await self._park(worker)
                        continue
                    worker.began_at = now
                    if not self._relief and work.turns:
                        self.rouse()
                    try:
                        await handle(record)
                        if cancelling():
                            await face_cancellation()
                    except Exception as error:
                        await self._failed(slot, record, error)
                    except asyncio.CancelledError as error:
                        if not await outlives_cancellation():
                            raise
                        await self._failed(slot, record, error)
                    except (SystemExit, KeyboardInterrupt) as error:
                        self._end(slot, error)  # in order: asyncio stops at once where a task raises it
                    else:
                        work.finished(slot)
        except asyncio.CancelledError:
            if not await outlives_cancellation():
                raise
        finally:
            self._all.discard(worker)
            if slot.busy:
                work.given_up(slot)
        # It alone was cancelled, and what else is ready needs another worker.
        self.rouse()

    async def _park(self, worker: Worker[S]) -> None:
        self._idle.append(worker)
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
    """Gives how often asyncio's ``cancel`` was called on this task; 0 on trio, which has no such thing."""
    task = None if in_trio() else asyncio.current_task()
    return int if task is None else task.cancelling
