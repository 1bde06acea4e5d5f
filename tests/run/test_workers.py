"""Tasks of handlers."""

from __future__ import annotations

from time import monotonic
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead._io.run.workers import Worker, Workers

pytestmark = pytest.mark.anyio


nobody: Any = None


class Held:
    """Slot with a record."""

    busy = True
    record = None


class NoRecords:
    """Work of which nothing is left."""

    turns = aside = ()

    def slot(self) -> Any:
        slot = Held()
        slot.busy = False
        return slot

    def take(self, slot: Held) -> None:
        """There is nothing to take."""


async def test_a_worker_of_a_batch_is_at_work_only_while_its_handler_runs() -> None:
    """Otherwise the member would leave its group, because its handler takes longer than ``max_poll_interval_ms``."""
    tasks = anyio.create_task_group()
    workers: Workers[Held, None] = Workers(tasks, nobody, 1, nobody, nobody, nobody)
    async with tasks:
        began_at = monotonic()

        async def handle(worker: Worker[Held]) -> None:
            assert workers.stuck_since() is None
            with worker.handling():
                since = workers.stuck_since()
            assert since is not None
            assert since >= began_at
            assert workers.stuck_since() is None

        workers.begin(Worker(Held()), handle)
        assert workers.stuck_since() is None
        assert len(workers.busy) == 1
    assert workers.stuck_since() is None


async def test_a_claim_for_a_place_is_granted_by_a_worker_that_was_letting_others_run() -> None:
    """Otherwise a batch would wait for its place until another record arrives."""
    work: Any = NoRecords()
    async with anyio.create_task_group() as tasks:
        workers: Workers[Any, None] = Workers(tasks, work, 1, nobody, nobody, nobody)
        workers.rouse()
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(20):
            async with workers.place():
                pass
        tasks.cancel_scope.cancel()
