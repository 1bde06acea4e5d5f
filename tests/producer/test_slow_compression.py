"""Slow compression runs in threads, with the same result in the log."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from aiokafka_lead.errors import ClientClosedError, DeliveryTimeoutError
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster

from .support import values

pytestmark = pytest.mark.anyio

LARGE = bytes(20_000)


class Gate:
    """Blocks zlib in all threads except the event loop's, as if compression took that long."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.ended = threading.Semaphore(0)
        self._held = True
        self._passes = threading.Semaphore(0)
        self._compressobj = zlib.compressobj

    def compressobj(self, *arguments: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            return self._compressobj(*arguments)
        self.begun.release()
        if self._held:
            assert self._passes.acquire(timeout=30)
        try:
            return self._compressobj(*arguments)
        finally:
            self.ended.release()

    def open(self) -> None:
        """Release all calls, now and later."""
        self._held = False
        self._passes.release(1000)

    def let_others_pass(self) -> None:
        """Release only the calls that wait now."""
        self._held = False

    async def wait(self, event: threading.Semaphore) -> None:
        """Wait until a compression has begun, or ended."""
        assert await anyio.to_thread.run_sync(event.acquire, True, 20)


@pytest.fixture
async def gate(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Gate]:
    made = Gate()
    monkeypatch.setattr(zlib, "compressobj", made.compressobj)
    yield made
    made.open()


def slow_producer(cluster: EmbeddedCluster, **options: Any) -> Producer:
    """Return a producer with one batch for each large record, which compresses slowly; small ones need no thread."""
    settings: dict[str, Any] = {
        "compression_type": "gzip",
        "linger_ms": 0,
        "batch_size": 100,
        "retry_backoff_ms": 10,
        "reconnect_backoff_ms": 10,
    }
    return Producer(cluster.bootstrap_servers, **{**settings, **options})


async def test_the_event_loop_goes_on_meanwhile(cluster: EmbeddedCluster, gate: Gate) -> None:
    async with slow_producer(cluster) as producer, Producer(cluster.bootstrap_servers, linger_ms=0) as other:
        delivery = await producer.send("events", LARGE, partition=0)
        await gate.wait(gate.begun)
        for _ in range(10):
            await other.send_and_wait("events", b"x", partition=0)
        assert values(cluster) == [b"x"] * 10
        gate.open()
        assert (await delivery).offset == 10


async def test_nothing_overtakes_what_is_being_compressed(cluster: EmbeddedCluster, gate: Gate) -> None:
    async with slow_producer(cluster) as producer:
        await producer.send_and_wait("events", b"0", partition=0)  # a new leader gets one batch at a time until then
        first = await producer.send("events", b"1" * 20_000, partition=0)
        await gate.wait(gate.begun)
        gate.let_others_pass()
        second = await producer.send("events", b"2" * 20_000, partition=0)
        third = await producer.send("events", b"3", partition=0)
        if (os.cpu_count() or 1) > 1:
            await gate.wait(gate.begun)
            await gate.wait(gate.ended)
        async with slow_producer(cluster, compression_type=None) as other:  # the time that they would take to arrive
            await other.send_and_wait("events", b"other", partition=0)
        assert values(cluster) == [b"0", b"other"]
        gate.open()
        assert [(await one).offset for one in (first, second, third)] == [2, 3, 4]
        assert producer.metrics().retries == 0
    assert [value[:1] for value in values(cluster)[2:] if value] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("fault", ["killed", "moved"])
async def test_the_broker_is_another_one_when_it_is_done(cluster: EmbeddedCluster, gate: Gate, fault: str) -> None:
    async with slow_producer(cluster) as producer:
        delivery = await producer.send("events", LARGE, partition=0)
        await gate.wait(gate.begun)
        if fault == "killed":
            await cluster.kill_broker(cluster.leader("events"))
        else:
            cluster.move_leader("events")
        following = await producer.send("events", b"after", partition=0)
        gate.open()
        with anyio.fail_after(20):
            assert (await delivery).offset == 0
            assert (await following).offset == 1
    assert values(cluster) == [LARGE, b"after"]


async def test_its_time_may_be_over_meanwhile(cluster: EmbeddedCluster, gate: Gate) -> None:
    async with slow_producer(cluster, request_timeout_ms=1000, delivery_timeout_ms=1500) as producer:
        delivery = await producer.send("events", LARGE, partition=0)
        await gate.wait(gate.begun)
        with pytest.raises(DeliveryTimeoutError):
            await delivery
        gate.open()
        assert (await producer.send_and_wait("events", b"after", partition=0)).offset == len(values(cluster)) - 1
        assert producer.metrics().buffer_used_bytes == 0


async def test_stop_does_not_wait_for_it(cluster: EmbeddedCluster, gate: Gate) -> None:
    producer = slow_producer(cluster)
    await producer.start()
    delivery = await producer.send("events", LARGE, partition=0)
    await gate.wait(gate.begun)
    with anyio.fail_after(20):
        await producer.stop(timeout_ms=300)
    with pytest.raises(ClientClosedError):
        await delivery
    gate.open()
    await gate.wait(gate.ended)
    assert values(cluster) == []


@pytest.mark.parametrize(
    "options", [{"compression_level": 0}, {"compression_type": "zstd"}, {"compression_type": "lz4"}]
)
async def test_fast_codecs_do_it_at_once(cluster: EmbeddedCluster, options: dict[str, Any]) -> None:
    async with slow_producer(cluster, **options) as producer:
        before = threading.active_count()
        for _ in range(5):
            await producer.send_and_wait("events", LARGE, partition=0)
        assert threading.active_count() <= before
