"""The tasks in which handlers run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup

from ..._core.run.work import HandlerSlot, Work
from ..._records import ConsumerRecord
from ..cancellation import face_cancellation, outlives_cancellation
from ..loop import Signal, in_trio

__all__ = ["Worker", "Workers"]

Record = ConsumerRecord[Any, Any]

FAIR_S = 0.005
"""Handlers that never wait for anything let other tasks run after this time."""


class Worker(HandlerSlot):
    """A task that handles one record after the other."""

    __slots__ = ("began_at", "parked", "scope", "task_id")

    def __init__(self) -> None:
        super().__init__()
        self.scope = anyio.CancelScope()
        self.parked = Signal()
        self.task_id = 0
        self.began_at = 0.0
        """When it began to handle its record."""


class Workers:
    """At most ``concurrency`` tasks, made as they are needed, which share the work out among themselves.

    There is no task for each record, and no switch of tasks for a handler that does not wait: its worker just goes on
    with the next record. A worker about to call a handler sees to it that another one is awake; that one's turn comes
    when the handler waits, and it takes over.
    """

    def __init__(
        self,
        tasks: TaskGroup,
        work: Work,
        concurrency: int,
        handle: Callable[[Record], Awaitable[object]],
        failed: Callable[[HandlerSlot, Record, BaseException], Awaitable[None]],
        end: Callable[[HandlerSlot, BaseException], None],
    ) -> None:
        self._tasks = tasks
        self._work = work
        self._concurrency = concurrency
        self._handle = handle
        self._failed = failed
        """Called when a handler has raised; decides what becomes of the record."""
        self._end = end
        """Called when a handler wants the process to end."""
        self._idle: list[Worker] = []
        self._relief = False
        """Whether a worker has been woken and did not get its turn yet."""
        self._gave_way_at = 0.0
        self._all: set[Worker] = set()

    @property
    def busy(self) -> list[Worker]:
        """Those that are handling a record."""
        return [worker for worker in self._all if worker.partition is not None]

    def rouse(self) -> None:
        """There may be something to hand out."""
        if self._relief:
            return
        if self._idle:
            self._relief = True
            self._idle.pop().parked.set()
        elif len(self._all) < self._concurrency:
            self._relief = True
            worker = Worker()
            self._all.add(worker)
            self._tasks.start_soon(self._serve, worker, name="kafka handler")

    async def _serve(self, worker: Worker) -> None:
        work, handle = self._work, self._handle
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
                    record = work.take(worker)
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
                        await self._failed(worker, record, error)
                    except asyncio.CancelledError as error:
                        if not await outlives_cancellation():
                            raise
                        await self._failed(worker, record, error)
                    except (SystemExit, KeyboardInterrupt) as error:
                        self._end(worker, error)  # in order: asyncio stops at once where a task raises it
                    else:
                        work.finished(worker)
        except asyncio.CancelledError:
            if not await outlives_cancellation():
                raise
        finally:
            self._all.discard(worker)
            if worker.partition is not None:
                work.given_up(worker)
        # It alone was cancelled, and what else is ready needs another worker.
        self.rouse()

    async def _park(self, worker: Worker) -> None:
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
