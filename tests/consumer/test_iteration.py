"""One record at a time: however the next record is awaited, no record is lost or repeated."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead.errors import IllegalStateError
from aiokafka_lead.testing import EmbeddedCluster

from .support import consumer_of, fill, values

pytestmark = pytest.mark.anyio

on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


async def test_steps_that_run_out_of_time(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(2))
    async with consumer_of(cluster, "events") as consumer:
        records = aiter(consumer)
        found = [(await anext(records)).value, (await anext(records)).value]
        for number in range(2, 5):
            with anyio.move_on_after(0.02) as waiting:
                await anext(records)
            assert waiting.cancelled_caught
            await fill(cluster, [b"%d" % number])
            found.append((await anext(records)).value)
        assert found == values(5)


async def test_steps_that_are_cancelled_anywhere_lose_and_repeat_nothing(cluster: EmbeddedCluster) -> None:
    dice = random.Random(7)
    found: list[bytes] = []
    async with consumer_of(cluster, "events", fetch_max_wait_ms=20) as consumer:
        records = aiter(consumer)
        for first in range(0, 400, 40):
            await fill(cluster, values(40, first))
            while len(found) < first + 40:
                with anyio.CancelScope() as scope:
                    if dice.random() < 0.3:
                        scope.cancel()
                    elif dice.random() < 0.3:
                        scope.deadline = anyio.current_time() + dice.random() / 100
                    found.append((await anext(records)).value)
                await anyio.lowlevel.checkpoint()
    assert found == values(400)


@on_asyncio
async def test_a_step_is_a_task_where_asyncio_makes_one(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(4))
    async with consumer_of(cluster, "events") as consumer:
        records = aiter(consumer)
        first: Any = anext(records)
        found = [
            (await asyncio.create_task(first)).value,
            (await asyncio.wait_for(anext(records), 60)).value,
            (await asyncio.ensure_future(anext(records))).value,
            *[record.value for record in await asyncio.gather(anext(records))],
        ]
        for number in range(4, 6):
            step: Any = anext(records)
            waiting = asyncio.create_task(step)
            await anyio.wait_all_tasks_blocked()
            assert not waiting.done()
            if number == 4:
                waiting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await waiting
                await fill(cluster, [b"%d" % number])
                found.append((await anext(records)).value)
            else:
                await fill(cluster, [b"%d" % number])
                found.append((await waiting).value)
        assert found == values(6)


async def test_two_tasks_cannot_wait_at_once(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, "events") as consumer:
        records = aiter(consumer)
        refused = anyio.Event()
        found: list[bytes] = []

        async def wait() -> None:
            try:
                found.append((await anext(records)).value)
            except IllegalStateError as error:
                assert "another task is waiting" in str(error)  # noqa: PT017
                refused.set()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                tasks.start_soon(wait)
                await refused.wait()
                await fill(cluster, values(1))
        assert found == values(1)


@pytest.mark.parametrize("watch", [sys.settrace, sys.setprofile])
async def test_under_a_debugger_or_a_profiler(cluster: EmbeddedCluster, watch: Callable[[Any], None]) -> None:
    await fill(cluster, values(30))
    async with consumer_of(cluster, "events", max_poll_records=7) as consumer:
        found = []
        before = sys.gettrace() if watch is sys.settrace else sys.getprofile()
        watch(lambda *_: None)
        try:
            async for record in consumer:
                found.append(record.value)
                if len(found) == 30:
                    break
        finally:
            watch(before)
    assert found == values(30)
