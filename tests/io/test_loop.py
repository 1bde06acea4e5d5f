"""The interface to the event loop, on asyncio and on trio."""

from __future__ import annotations

import asyncio
import gc
import time
import weakref

import anyio
import pytest
from anyio.lowlevel import checkpoint

from aiokafka_lead._io.loop import Host, Signal, Waiter, loop_token, sleep_until, spawn_host
from aiokafka_lead.errors import KafkaConnectionError

pytestmark = pytest.mark.anyio


async def test_waiter_gives_its_result_to_every_task() -> None:
    waiter: Waiter[int] = Waiter()
    got: list[int] = []

    async def wait() -> None:
        got.append(await waiter.wait(10))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(wait)
        await checkpoint()
        await checkpoint()
        waiter.set_result(7)
    assert got == [7, 7, 7]
    assert waiter.done
    assert waiter.result() == 7
    assert await waiter.wait() == 7


async def test_waiter_keeps_what_was_set_first() -> None:
    waiter: Waiter[int] = Waiter()
    with pytest.raises(RuntimeError):
        waiter.result()
    waiter.set_error(KeyError("first"))
    waiter.set_result(1)
    waiter.set_error(ValueError("third"))
    for _ in range(2):
        with pytest.raises(KeyError, match="first"):
            await waiter.wait()


async def test_an_error_that_was_waited_for_keeps_nothing_of_those_who_did() -> None:
    """Neither the waiter, which may be kept for long, nor a reference cycle holds the frames that the error passed."""
    waiter: Waiter[int] = Waiter()
    waiter.set_error(KafkaConnectionError("lost"))

    class Held:
        pass

    async def wait(one: Waiter[int]) -> weakref.ref[Held]:
        held = Held()
        with pytest.raises(KafkaConnectionError, match="lost"):
            await one.wait()
        return weakref.ref(held)

    async def wait_for_own() -> weakref.ref[Held]:
        own: Waiter[int] = Waiter()
        own.set_error(KafkaConnectionError("lost"))
        return await wait(own)

    gc.disable()
    try:
        assert (await wait(waiter))() is None
        assert (await wait_for_own())() is None
    finally:
        gc.enable()


async def test_waiter_times_out_and_can_be_waited_for_again() -> None:
    waiter: Waiter[None] = Waiter()
    for timeout_s in (0.01, 0, -1):
        with pytest.raises(TimeoutError):
            await waiter.wait(timeout_s)
    assert not waiter.done
    waiter.set_result(None)
    await waiter.wait(0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_result_wins_over_a_timeout_that_the_task_has_not_noticed(anyio_backend: str) -> None:
    waiter: Waiter[str] = Waiter()
    loop = asyncio.get_running_loop()
    # The next turn of the loop queues the result and then, for the timeout, the task; the one after it runs both.
    loop.call_soon(loop.call_soon, waiter.set_result, "late")
    assert await waiter.wait(0) == "late"


async def test_a_cancelled_wait_leaves_the_waiter_to_others() -> None:
    waiter: Waiter[str] = Waiter()
    with anyio.move_on_after(0.01) as scope:
        await waiter.wait()
    assert scope.cancelled_caught
    waiter.set_result("late")
    assert await waiter.wait() == "late"


async def test_a_waiter_set_and_cancelled_at_once_keeps_its_result() -> None:
    waiter: Waiter[str] = Waiter()
    async with anyio.create_task_group() as group:
        group.start_soon(waiter.wait)
        await checkpoint()
        await checkpoint()
        waiter.set_result("kept")
        group.cancel_scope.cancel()
    assert await waiter.wait() == "kept"


async def test_signal_wakes_one_wait_for_many_sets() -> None:
    signal = Signal()
    assert not await signal.wait(0.01)
    signal.set()
    signal.set()
    assert await signal.wait()
    assert not await signal.wait(0.01)


async def test_signal_wakes_a_parked_task() -> None:
    signal = Signal()
    woken: list[bool] = []

    async def consume() -> None:
        woken.append(await signal.wait(10))
        woken.append(await signal.wait(0.01))

    async with anyio.create_task_group() as group:
        group.start_soon(consume)
        await checkpoint()
        await checkpoint()
        signal.set()
        signal.set()
    assert woken == [True, False]


@pytest.mark.parametrize("timeout_s", [None, 600])
async def test_a_wait_for_a_signal_can_be_shortened(timeout_s: float | None) -> None:
    signal = Signal()
    woken: list[bool] = []

    async def consume() -> None:
        woken.append(await signal.wait(timeout_s))
        woken.append(await signal.wait(timeout_s))

    signal.wake_by(time.monotonic())  # no effect without a waiter
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await checkpoint()
            await checkpoint()
            signal.wake_by(time.monotonic() + 300)
            signal.wake_by(time.monotonic() + 0.01)
            while not woken:
                await checkpoint()
            assert woken == [False]
            for _ in range(3):
                await checkpoint()
            signal.wake_by(time.monotonic() + 0.01)
            signal.set()
    assert woken == [False, True]


async def test_a_signal_that_wakes_a_cancelled_task_is_not_lost() -> None:
    signal = Signal()
    async with anyio.create_task_group() as group:
        group.start_soon(signal.wait)
        await checkpoint()
        await checkpoint()
        group.cancel_scope.cancel()
        signal.set()
    assert await signal.wait(0.01)


async def test_loop_token_is_the_same_within_one_loop() -> None:
    tokens: list[object] = []

    async def note() -> None:
        tokens.append(loop_token())

    async with anyio.create_task_group() as group:
        group.start_soon(note)
        group.start_soon(note)
    assert tokens[0] is tokens[1]
    assert tokens[0] is loop_token()


async def test_sleep_until_a_deadline_and_one_that_has_passed() -> None:
    started = time.monotonic()
    await sleep_until(started + 0.02)
    assert time.monotonic() >= started + 0.019
    await sleep_until(started - 5)


async def test_host_outlives_its_spawner_and_ends() -> None:
    go: Waiter[None] = Waiter()
    done: list[str] = []

    async def work() -> None:
        await go.wait()
        done.append("work")

    async def spawn() -> Host:
        return spawn_host(work, "worker")

    host = await spawn()
    assert not await host.wait(0.01)
    go.set_result(None)
    assert await host.wait(10)
    assert host.ended
    assert host.error is None
    assert done == ["work"]


async def test_host_keeps_the_error_of_its_task() -> None:
    async def fail() -> None:
        raise LookupError("in the background")

    async def fail_in_group() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(fail)
            await anyio.sleep_forever()

    host = spawn_host(fail, "fails")
    assert await host.wait(10)
    assert isinstance(host.error, LookupError)
    host = spawn_host(fail_in_group, "fails in a group")
    assert await host.wait(10)
    assert isinstance(host.error, ExceptionGroup)
    assert isinstance(host.error.exceptions[0], LookupError)


@pytest.mark.parametrize("let_it_start", [True, False])
async def test_host_can_be_cancelled(let_it_start: bool) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep_forever)
                await anyio.sleep_forever()
        finally:
            cleaned.append("up")

    host = spawn_host(work, "cancelled")
    if let_it_start:
        await host.wait(0.01)
    host.cancel()
    host.cancel()
    assert await host.wait(10)
    assert host.error is None
    assert cleaned == ["up"]


def test_hosts_end_with_their_event_loop(anyio_backend: str) -> None:
    async def main() -> Host:
        host = spawn_host(anyio.sleep_forever, "left behind")
        await host.wait(0.01)
        return host

    host = anyio.run(main, backend=anyio_backend)
    assert host.ended
    assert host.error is None


def test_there_is_no_token_outside_of_a_loop() -> None:
    with pytest.raises(RuntimeError):
        loop_token()
