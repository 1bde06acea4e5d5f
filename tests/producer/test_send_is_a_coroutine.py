"""Every implementation of `Producer.send` keeps Python's promises of a coroutine function."""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from collections.abc import Callable, Coroutine
from typing import Any
from unittest.mock import create_autospec

import anyio
import pytest

from aiokafka_lead import Producer
from aiokafka_lead.errors import BufferFull, ConfigTypeError, MessageTooLargeError
from aiokafka_lead.producer import Delivery
from aiokafka_lead.testing import EmbeddedCluster

from .support import values

pytestmark = pytest.mark.anyio

Send = Callable[..., Coroutine[Any, Any, Delivery]]


async def test_looks_like_the_method_of_the_class(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        assert inspect.iscoroutinefunction(producer.send)
        call = producer.send("events")
        assert inspect.isawaitable(call)
        assert getattr(call, "__qualname__", None) == "Producer.send"
        call.close()
        for of_class, own in ((Producer.send, producer.send), (Producer.send_nowait, producer.send_nowait)):
            assert list(inspect.signature(own).parameters) == list(inspect.signature(of_class).parameters)[1:]
        assert producer.send.__name__ == "send"
        assert repr(producer.send).startswith("<bound method Producer.send")
        stand_in = create_autospec(producer)
        stand_in.send.return_value = 7
        assert await stand_in.send("events") == 7


async def test_every_way_of_giving_arguments(cluster: EmbeddedCluster) -> None:
    headers = [("h", b"1")]
    async with Producer(cluster.bootstrap_servers) as producer:
        sends: list[Send] = [producer.send, in_a_moment(producer.send_nowait)]
        for send in sends:
            deliveries = [
                await send("events", b"v", b"k", 1, 5, headers),
                await send("events", value=b"v", key=b"k", partition=1, timestamp_ms=5, headers=headers),
                await send(headers=headers, timestamp_ms=5, partition=1, key=b"k", value=b"v", topic="events"),
                await send(*("events", b"v"), *(b"k", 1), timestamp_ms=5, headers=headers),
            ]
            for delivery in deliveries:
                assert (await delivery).partition == 1
            for wrong in ({}, {"topic": "events", "colour": 1}):
                with pytest.raises(TypeError, match="send"):
                    await send(**wrong)
            with pytest.raises(TypeError):
                await send("events", b"v", b"k", 1, 5, headers, 7)
            with pytest.raises(ConfigTypeError):
                await send("events", "text")
    written = cluster.records("events", 1)
    assert [(r.key, r.value, r.timestamp_ms, list(r.headers)) for r in written] == [(b"k", b"v", 5, headers)] * 8


def in_a_moment(function: Callable[..., Delivery]) -> Send:
    async def call(*args: Any, **named: Any) -> Delivery:
        return function(*args, **named)

    return call


async def test_nothing_is_taken_before_it_is_awaited(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        later = producer.send("events", b"third", partition=0)
        await producer.send("events", b"second", partition=0)
        await later
        producer.send("events", b"never", partition=0).close()
    assert values(cluster) == [b"first", b"second", b"third"]


async def test_who_forgets_to_await_is_warned(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        for _ in range(3):
            with pytest.warns(RuntimeWarning, match=r"'Producer\.send' was never awaited"):
                producer.send("events", b"never", partition=0)  # type: ignore[unused-coroutine]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            await producer.send("events", b"second", partition=0)
            producer.send("events", b"never", partition=0).close()
    assert values(cluster) == [b"first", b"second"]


async def test_can_be_awaited_once(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, max_request_size=1000) as producer:
        call = producer.send("events", b"v", partition=0)
        await (await call)
        for again in (call.send, call.throw):
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                again(None if again == call.send else KeyError())  # type: ignore[arg-type]
        failing = producer.send("events", b"v" * 2000, partition=0)
        with pytest.raises(MessageTooLargeError):
            await failing
        with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
            await failing
    assert values(cluster) == [b"v"]


async def test_cannot_be_awaited_twice_at_once(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer, anyio.create_task_group() as tasks:
        call = producer.send("events", b"v", partition=0)

        async def wait() -> None:
            await call

        cluster.faults.add("Metadata", drop=True)
        tasks.start_soon(wait)
        await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 1)
        with pytest.raises(RuntimeError, match="coroutine is being awaited already"):
            await call
        tasks.cancel_scope.cancel()
    assert values(cluster) == []


async def test_tells_its_state(cluster: EmbeddedCluster) -> None:
    """anyio asks for it before it cancels a task."""
    states = []
    async with Producer(cluster.bootstrap_servers) as producer, anyio.create_task_group() as tasks:
        waiting = producer.send("events", b"v", partition=0)
        states.append(inspect.getcoroutinestate(waiting))

        async def wait() -> None:
            states.append(inspect.getcoroutinestate(waiting))
            await (await waiting)

        tasks.start_soon(wait)
        await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 1)
        states.append(inspect.getcoroutinestate(waiting))
        await producer.send_and_wait("events", b"v", partition=0)
        at_once = producer.send("events", b"v", partition=0)
        await at_once
        closed = producer.send("events", b"never", partition=0)
        closed.close()
        states += [inspect.getcoroutinestate(call) for call in (waiting, at_once, closed)]
    created, suspended, over = inspect.CORO_CREATED, inspect.CORO_SUSPENDED, inspect.CORO_CLOSED
    assert states == [created, created, suspended, over, over, over]
    assert values(cluster) == [b"v"] * 3


async def test_thrown_into_before_it_began(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        call = producer.send("events", b"never", partition=0)
        with pytest.raises(KeyError):
            call.throw(KeyError())
        with pytest.raises(RuntimeError):
            await call
    assert values(cluster) == [b"first"]


async def test_runs_as_a_task(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer, anyio.create_task_group() as tasks:
        for number in range(10):  # the first of them wait for metadata in the class's own coroutine
            tasks.start_soon(producer.send, "events", b"%d" % number, None, 0)
    assert sorted(filter(None, values(cluster))) == [b"%d" % number for number in range(10)]


async def test_works_under_a_tracer(cluster: EmbeddedCluster) -> None:
    numbers = [b"%d" % number * 50 for number in range(100)]
    before = sys.gettrace()
    async with Producer(cluster.bootstrap_servers, batch_size=1000) as producer:
        sys.settrace(lambda *_: None)
        try:
            deliveries = [await producer.send("events", number, partition=0) for number in numbers]
            for delivery in deliveries:
                await delivery
        finally:
            sys.settrace(before)
    assert values(cluster) == numbers


async def test_what_stands_in_the_class_is_what_runs(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Watched(Producer):
        async def send(self, topic: str, *args: Any, **named: Any) -> Delivery:
            seen.append(topic)
            return await super().send(topic, *args, **named)

    async with Watched(cluster.bootstrap_servers) as watched:
        await (await watched.send("events", b"v"))
        await watched.send_and_wait("events", b"v")
    assert seen == ["events"] * 2

    original = Producer.send_nowait

    def watching(self: Producer, topic: str, *args: Any, **named: Any) -> Delivery:
        seen.append(topic)
        return original(self, topic, *args, **named)

    monkeypatch.setattr(Producer, "send_nowait", watching)
    async with Producer(cluster.bootstrap_servers) as producer:
        await producer.send_nowait("events", b"v")
    assert seen == ["events"] * 3


async def test_waits_for_memory_where_send_nowait_refuses(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, buffer_memory=20_000, batch_size=1000) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        refused = 0
        for _ in range(40):
            try:
                producer.send_nowait("events", b"x" * 1000, partition=0)
            except BufferFull:
                refused += 1
        assert refused
        for _ in range(40):
            await producer.send("events", b"y" * 1000, partition=0)
    assert len(values(cluster)) == 81 - refused


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_runs_by_every_means_of_asyncio(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers) as producer:
        send = producer.send
        await producer.send_and_wait("events", b"0", partition=0)
        deliveries = await asyncio.gather(*(send("events", number, partition=0) for number in (b"1", b"2")))
        task = asyncio.create_task(send("events", b"3", partition=0))
        assert "coro=<Producer.send()" in repr(task)
        deliveries.append(await task)
        assert "coro=<Producer.send()" in repr(task)
        deliveries += [await asyncio.wait_for(send("events", b"4", partition=0), 5)]
        cancelled = asyncio.create_task(send("events", b"never", partition=0))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert [(await delivery).offset for delivery in deliveries] == [1, 2, 3, 4]
    assert values(cluster) == [b"0", b"1", b"2", b"3", b"4"]


async def test_calls_that_are_over_are_used_again_by_nobody_who_has_one(cluster: EmbeddedCluster) -> None:
    value = b"x" * 1000
    async with Producer(cluster.bootstrap_servers, linger_ms=1000) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        held = sys.getrefcount(value)
        kept: list[Coroutine[Any, Any, Delivery]] = []
        for number in range(100):
            await producer.send("events", value, partition=0)
            call = producer.send("events", b"%d" % number, partition=0)
            if number % 3:
                kept.append(call)
            await call
        assert len({id(call) for call in kept}) == len(kept) == 66
        for call in kept:
            with pytest.raises(RuntimeError, match="cannot reuse"):
                await call
        assert sys.getrefcount(value) == held
        with pytest.warns(RuntimeWarning, match="never awaited"):
            producer.send("events", b"lost")  # type: ignore[unused-coroutine]
        await producer.flush()
    wanted = [b"first"] + [content for number in range(100) for content in (value, b"%d" % number)]
    assert values(cluster) == wanted
