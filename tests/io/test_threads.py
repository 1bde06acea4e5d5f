"""Blocking calls: bounded in number, with cancelled callers, and without delaying the end of the process."""

from __future__ import annotations

import contextvars
import subprocess
import sys
import threading
from functools import partial

import anyio
import pytest

from aiokafka_lead._io.threads import MAX_LOST, BlockingCalls
from aiokafka_lead.errors import KafkaConnectionError

pytestmark = pytest.mark.anyio


async def test_what_a_call_returns_or_raises() -> None:
    calls = BlockingCalls("a test", at_once=2)
    kept: contextvars.ContextVar[int] = contextvars.ContextVar("kept")
    kept.set(5)
    assert await calls.run(lambda: (kept.get(), threading.current_thread().name)) == (5, "kafka a test")
    with pytest.raises(LookupError, match="gone"):
        await calls.run(partial(raise_, LookupError("gone")))


async def test_a_thread_serves_again() -> None:
    calls = BlockingCalls("a test", at_once=2)
    threads = {await calls.run(threading.get_ident) for _ in range(20)}
    assert len(threads) == 1
    begun, released = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        released.wait(20)

    async with anyio.create_task_group() as group:
        group.start_soon(calls.run, hold)
        while not begun.is_set():
            await anyio.lowlevel.checkpoint()
        assert await calls.run(threading.get_ident) not in threads  # the first one is busy
        released.set()


def raise_(error: Exception) -> None:
    raise error


async def test_as_many_at_a_time_as_it_says() -> None:
    calls = BlockingCalls("a test", at_once=2)
    lock, running, most, pair = threading.Lock(), 0, 0, threading.Barrier(2)

    def call() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait(20)  # breaks unless two of them run at once
        with lock:
            running -= 1

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(calls.run, call)
    assert most == 2


async def test_a_caller_that_gives_up_leaves_room_until_too_many_are_stuck() -> None:
    calls = BlockingCalls("a test", at_once=1)
    released = threading.Event()
    try:
        for _ in range(MAX_LOST + 1):
            entered = anyio.Event()
            async with anyio.create_task_group() as group:
                group.start_soon(calls.run, lambda: released.wait(60))
                group.start_soon(_until_it_runs, calls, entered)
                await entered.wait()
                group.cancel_scope.cancel()
        with pytest.raises(KafkaConnectionError, match=f"{MAX_LOST + 1} calls are stuck: a test"):
            await calls.run(int)
    finally:
        released.set()
    while True:  # they end one by one
        try:
            assert await calls.run(int) == 0
        except KafkaConnectionError:
            await anyio.lowlevel.checkpoint()
        else:
            break


async def test_a_thread_that_cannot_be_started_is_an_error_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = BlockingCalls("a test", at_once=1)
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", refuse_to_start)
        for _ in range(2):
            with pytest.raises(
                KafkaConnectionError, match=r"no thread can be started: a test \(can't start new thread"
            ):
                await calls.run(int)
    assert await calls.run(int) == 0
    assert calls.running == 0


def refuse_to_start(_: threading.Thread) -> None:
    """Do as Python does if the system or the container has too many threads."""
    raise RuntimeError("can't start new thread")


async def _until_it_runs(calls: BlockingCalls, entered: anyio.Event) -> None:
    await anyio.lowlevel.checkpoint()
    entered.set()


def test_a_program_ends_though_a_call_is_stuck() -> None:
    program = """
import anyio, threading
from aiokafka_lead._io.threads import BlockingCalls

async def main():
    calls = BlockingCalls("a test", at_once=1)
    with anyio.move_on_after(0.05):
        await calls.run(threading.Event().wait)
    print("over")

anyio.run(main)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=True)
    assert ended.stdout == "over\n"
