"""Batches that are decompressed in threads, with every way to read."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead._io.consumer.deserializing import Loading
from aiokafka_lead._records import StoredRecord, build_batch, read_batches
from aiokafka_lead.testing import EmbeddedCluster

from .support import consumer_of, fill

pytestmark = pytest.mark.anyio

SIZES = [10, 3_000_000, 20, 2_000_000]


async def getone(consumer: Any) -> list[bytes]:
    return [(await consumer.getone()).value]


async def getmany(consumer: Any) -> list[bytes]:
    found = await consumer.getmany(timeout_ms=20_000)
    return [record.value for records in found.values() for record in records]


async def iterate(consumer: Any) -> list[bytes]:
    return [(await anext(consumer)).value]


async def batches(consumer: Any) -> list[bytes]:
    return list((await anext(consumer.batches())).values)


async def later(value: bytes) -> bytes:
    await anyio.lowlevel.checkpoint()
    return value


async def test_the_event_loop_goes_on_meanwhile() -> None:
    [view] = read_batches(build_batch([StoredRecord(1, None, bytes(100_000_000))], compression="gzip"))
    turns = 0
    async with anyio.create_task_group() as group:
        group.start_soon(Loading().load, view)
        while not view.is_loaded:
            turns += 1
            await anyio.sleep(0.001)
    assert turns > 10


class Slow:
    """A batch whose decompression blocks until it is released."""

    def __init__(self) -> None:
        self.is_loaded = False
        self.begun = threading.Event()
        self.goes_on = threading.Event()

    def load(self) -> None:
        self.begun.set()
        self.goes_on.wait(60)
        self.is_loaded = True


async def test_a_batch_is_left_to_nobody_else_before_its_thread_is_done_with_it() -> None:
    view: Any = Slow()
    loading = Loading()
    loaded: list[bool] = []

    async def give_up() -> None:
        try:
            await loading.load(view)
        finally:
            loaded.append(view.is_loaded)

    async with anyio.create_task_group() as group:
        group.start_soon(give_up)
        assert await anyio.to_thread.run_sync(view.begun.wait, 60)
        group.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            for _ in range(10):
                await anyio.lowlevel.checkpoint()
            view.goes_on.set()
    assert loaded == [True]


@pytest.mark.parametrize("deserializer", [None, later], ids=["bytes", "awaited"])
@pytest.mark.parametrize("read", [getone, getmany, iterate, batches])
async def test_they_come_in_their_turn(
    cluster: EmbeddedCluster, read: Callable[[Any], Awaitable[list[bytes]]], deserializer: Any
) -> None:
    for size in SIZES:
        await fill(cluster, [bytes(size)], compression_type="gzip", batch_size=10_000_000, max_request_size=10_000_000)
    async with consumer_of(cluster, "events", value_deserializer=deserializer) as consumer:
        found: list[bytes] = []
        with anyio.fail_after(30):
            while len(found) < len(SIZES):
                found += await read(consumer)
    assert [len(value) for value in found] == SIZES
