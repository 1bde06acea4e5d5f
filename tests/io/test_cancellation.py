"""Cleanup that no cancellation interrupts."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from aiokafka_lead._io.cancellation import outlast_cancellation, to_the_end
from aiokafka_lead._io.loop import Waiter

pytestmark = pytest.mark.anyio


async def slow_answer() -> int:
    for _ in range(5):
        await anyio.lowlevel.checkpoint()
    return 7


async def slow_failure() -> int:
    await slow_answer()
    raise LookupError("in the end")


async def test_it_gives_what_the_work_gives() -> None:
    assert await to_the_end(slow_answer, "work") == 7
    with pytest.raises(LookupError, match="in the end"):
        await to_the_end(slow_failure, "work")


async def test_a_scope_does_not_interrupt_it() -> None:
    went_on = False
    with anyio.CancelScope() as scope:
        scope.cancel()
        assert await to_the_end(slow_answer, "work") == 7
        await anyio.lowlevel.checkpoint()
        went_on = True
    assert scope.cancelled_caught
    assert not went_on


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("fails", [False, True])
async def test_cancelling_the_task_does_not_interrupt_it(fails: bool) -> None:
    ended: list[str] = []

    async def work() -> int:
        try:
            return await (slow_failure() if fails else slow_answer())
        finally:
            ended.append("work")

    async def caller() -> None:
        try:
            await to_the_end(work, "work")
        finally:
            ended.append("caller")

    task = asyncio.create_task(caller())
    await asyncio.sleep(0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert ended == ["work", "caller"]
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert isinstance(caught.value.__cause__, LookupError) == fails


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_time_limit_around_it_is_kept_afterwards() -> None:
    """asyncio's timeout counts the cancellations of its task."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0):
            await to_the_end(slow_answer, "work")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_wait_for_another_task_outlasts_a_scope() -> None:
    waiter: Waiter[None] = Waiter()
    went_on = False
    async with anyio.create_task_group() as group:

        async def answer() -> None:
            with anyio.CancelScope(shield=True):
                await slow_answer()
                waiter.set_result(None)

        group.start_soon(answer)
        await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
        assert await outlast_cancellation(waiter, 10)
        await anyio.lowlevel.checkpoint()
        went_on = True
    assert not went_on


async def test_a_wait_for_another_task_has_its_time() -> None:
    assert not await outlast_cancellation(Waiter(), 0.01)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_wait_for_another_task_outlasts_cancelled_tasks() -> None:
    waiter: Waiter[None] = Waiter()
    known: list[bool] = []

    async def caller() -> None:
        try:
            await outlast_cancellation(waiter, 10)
        finally:
            known.append(waiter.done)

    task = asyncio.create_task(caller())
    for _ in range(5):
        await asyncio.sleep(0)
        task.cancel()
    waiter.set_result(None)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert known == [True]
