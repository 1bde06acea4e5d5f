"""Serializers: their arguments, awaiting them, and the records that they refuse."""

from __future__ import annotations

import functools
import json
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead import Producer, SerializationContext
from aiokafka_lead.errors import ClientClosedError, ConfigTypeError, IllegalStateError, RecordSerializationError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

HEADERS = (("trace", b"1"),)


class Seen:
    """Serializers of each kind that record their arguments."""

    def __init__(self) -> None:
        self.contexts: list[SerializationContext] = []

    def plain(self, content: int, base: int = 10) -> bytes:
        return b"%d/%d" % (content, base)

    def asks(self, content: int, context: SerializationContext) -> bytes:
        self.contexts.append(context)
        return b"%d" % content

    async def waits(self, content: int) -> bytes:
        await anyio.lowlevel.checkpoint()
        return b"%d" % content

    async def asks_and_waits(self, content: int, ctx: SerializationContext, /) -> bytes:
        await anyio.lowlevel.checkpoint()
        return self.asks(content, ctx)

    async def __call__(self, content: int, *, context: SerializationContext | None = None) -> bytes:
        await anyio.lowlevel.checkpoint()
        assert context is None  # requested by position only
        return b"%d" % content


@pytest.mark.parametrize("way", ["send", "send_and_wait", "send_many", "send_nowait"])
@pytest.mark.parametrize("kind", ["plain", "asks", "waits", "asks_and_waits", "__call__"])
async def test_each_kind_of_serializer(cluster: EmbeddedCluster, kind: str, way: str) -> None:
    seen = Seen()
    serializer: Any = seen if kind == "__call__" else getattr(seen, kind)
    async with Producer[Any, Any](cluster.bootstrap_servers, value_serializer=serializer) as producer:
        if way == "send_nowait" and kind not in ("plain", "asks"):
            with pytest.raises(IllegalStateError, match=r"send_nowait cannot .*value_serializer.*coroutine function"):
                producer.send_nowait("events", 7)
            return
        if way == "send_many":
            await producer.send_many("events", [7, None, 8], keys=[b"k"] * 3, partition=0, headers=HEADERS)
        else:
            for content in (7, None, 8):
                sent = getattr(producer, way)("events", content, b"k", 0, None, HEADERS)
                if way != "send_nowait":
                    await sent
        await producer.flush()
    suffix = b"/10" if kind == "plain" else b""
    assert [record.value for record in cluster.records("events")] == [b"7" + suffix, None, b"8" + suffix]
    asked = kind.startswith("asks")
    assert seen.contexts == ([SerializationContext("events", HEADERS, False)] * 2 if asked else [])


async def test_key_and_value_are_told_apart(cluster: EmbeddedCluster) -> None:
    seen = Seen()
    async with Producer(cluster.bootstrap_servers, key_serializer=seen.asks, value_serializer=seen.asks) as producer:
        await producer.send_and_wait("events", 1, key=2, partition=0)
    assert [context.is_key for context in seen.contexts] == [True, False]
    assert [(record.key, record.value) for record in cluster.records("events")] == [(b"2", b"1")]


@pytest.mark.parametrize("part", ["key", "value"])
@pytest.mark.parametrize("kind", ["plain", "waits"])
async def test_one_that_raises_is_named_and_nothing_is_taken(cluster: EmbeddedCluster, part: str, kind: str) -> None:
    def plain(content: int) -> bytes:
        if content == 3:
            raise ZeroDivisionError("three")
        return b"%d" % content

    async def waits(content: int) -> bytes:
        return plain(content)

    three: dict[str, Any] = {part: 3}
    many: dict[str, Any] = {"values": [None] * 2, f"{part}s": [1, 3]}
    four: dict[str, Any] = {part: 4}
    options: Any = {f"{part}_serializer": {"plain": plain, "waits": waits}[kind]}
    async with Producer[Any, Any](cluster.bootstrap_servers, **options) as producer:
        with pytest.raises(RecordSerializationError, match=f"the {part} of a record for events.*three") as caught:
            await producer.send("events", **three)
        assert (caught.value.topic, caught.value.part) == ("events", part)
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(RecordSerializationError):
            await producer.send_many("events", **many)
        if kind == "plain":
            with pytest.raises(RecordSerializationError):
                producer.send_nowait("events", **three)
        await producer.flush()
        assert producer.metrics().records_acked == 0
        await producer.send_and_wait("events", **four, partition=0)
    assert len(cluster.records("events")) == 1


@pytest.mark.parametrize("made", ["text", 5, [b"a"]])
async def test_what_is_not_bytes_is_named(cluster: EmbeddedCluster, made: Any) -> None:
    async def waits(content: bytes) -> Any:
        return made

    for serializer in (lambda content: made, waits):
        async with Producer[Any, Any](cluster.bootstrap_servers, value_serializer=serializer) as producer:
            with pytest.raises(ConfigTypeError, match="value_serializer's result must be bytes or None, not"):
                await producer.send("events", b"v")


@pytest.mark.parametrize("serializer", [functools.partial(max, key=len), str.encode, bytes, json.dumps])
def test_what_takes_one_argument_is_good(serializer: Any) -> None:
    Producer("127.0.0.1:1", value_serializer=serializer)


@pytest.mark.parametrize("serializer", [5, "json", lambda: b"", lambda topic, value, headers: b""])
def test_what_cannot_be_called_so_is_refused_at_once(serializer: Any) -> None:
    with pytest.raises(ConfigTypeError, match="value_serializer must"):
        Producer("127.0.0.1:1", value_serializer=serializer)


async def test_a_send_that_is_cancelled_while_it_serializes_has_not_taken_the_record(cluster: EmbeddedCluster) -> None:
    begun = anyio.Event()

    async def slow(content: str) -> bytes:
        if content == "slow":
            begun.set()
            await anyio.sleep_forever()
        return json.dumps(content).encode()

    async with Producer(cluster.bootstrap_servers, value_serializer=slow) as producer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(producer.send, "events", "slow", None, 0)
            await begun.wait()
            tasks.cancel_scope.cancel()
        await producer.send_and_wait("events", "quick", partition=0)
    assert [record.value for record in cluster.records("events")] == [b'"quick"']


async def test_a_producer_that_stops_meanwhile_does_not_take_the_record(cluster: EmbeddedCluster) -> None:
    begun, ready = anyio.Event(), anyio.Event()
    raised: list[Exception] = []

    async def slow(content: bytes) -> bytes:
        begun.set()
        await ready.wait()
        return content

    async def send() -> None:
        try:
            await producer.send("events", b"late", partition=0)
        except ClientClosedError as error:
            raised.append(error)

    producer = Producer(cluster.bootstrap_servers, value_serializer=slow)
    async with anyio.create_task_group() as tasks:
        await producer.start()
        tasks.start_soon(send)
        await begun.wait()
        await producer.stop()
        ready.set()
    assert len(raised) == 1
    assert not cluster.records("events")
