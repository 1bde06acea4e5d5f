"""A registry that is unavailable, or refuses the client: good records wait, and known schemas stay usable."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from aiokafka_lead import Consumer, ConsumerRecord, Producer, ShareConsumer
from aiokafka_lead.errors import HandlerError, SchemaContentError, SchemaNotFoundError, SchemaRegistryUnavailableError
from aiokafka_lead.oidc import Token
from aiokafka_lead.schema import Schema, SchemaRegistry
from aiokafka_lead.testing import EmbeddedCluster, EmbeddedSchemaRegistry
from tests.patience import again_if_late
from tests.share.support import configure

from .material import LATER, ORDER, ORDER_TEXT, order

pytestmark = pytest.mark.anyio

COUNT = 5
GOES = {"away": None, "answers 503": 503, "refuses the client": 401, "is hidden by a proxy": 404}


def go(registry: EmbeddedSchemaRegistry, status: int | None) -> None:
    if status is None:
        registry.stop()
    else:
        registry.fail(status, count=1_000_000)


def come_back(registry: EmbeddedSchemaRegistry, status: int | None) -> None:
    if status is None:
        registry.start()
    else:
        registry.fail(status, count=0)


async def until(done: Callable[[], Any]) -> None:
    with anyio.fail_after(30):
        while not done():  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)


async def write(cluster: EmbeddedCluster, registry: EmbeddedSchemaRegistry) -> None:
    cluster.create_topic("dead", partitions=1)
    serializer = SchemaRegistry(registry.url).avro_serializer(ORDER, auto_register=True)
    async with Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:
        for number in range(COUNT):
            await producer.send_and_wait("orders", order(number))


def hasty(registry: EmbeddedSchemaRegistry) -> SchemaRegistry:
    return SchemaRegistry(registry.url, timeout_ms=400, request_timeout_ms=400, retry_backoff_ms=1)


class Running:
    """A `run` of one kind."""

    def __init__(self, cluster: EmbeddedCluster, kind: str, deserializer: Any, **options: Any) -> None:
        self.cluster = cluster
        self.kind = kind
        self.handled: list[int] = []
        self.options = {"dead_letter_topic": "dead", "retries": 1, "retry_backoff_ms": 1, **options}
        self.options["retry_backoff_max_ms"] = 1
        servers = cluster.bootstrap_servers
        common: Any = {"bootstrap_servers": servers, "group_id": "workers", "value_deserializer": deserializer}
        self.consumer: Any = (
            ShareConsumer("orders", **common, retry_backoff_ms=5, retry_backoff_max_ms=20)
            if kind == "share"
            else Consumer("orders", **common, auto_offset_reset="earliest", retry_backoff_ms=5, retry_backoff_max_ms=20)
        )

    async def handle(self, record: Any, _txn: Any = None) -> None:
        self.handled.append(record.value["id"])

    async def run(self) -> None:
        if self.kind != "exactly once":
            await self.consumer.run(self.handle, **self.options)
            return
        async with Producer(self.cluster.bootstrap_servers, transactional_id="t") as producer:
            await self.consumer.run(self.handle, exactly_once=producer, **self.options)


@pytest.mark.parametrize("goes", GOES)
@pytest.mark.parametrize("kind", ["run", "exactly once", "share"])
async def test_good_records_wait(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, kind: str, goes: str
) -> None:
    """They are handled once, no attempt counts, none becomes a dead letter, and health names the reason of the wait."""
    await write(cluster, schema_registry)
    await configure(cluster.bootstrap_servers, "workers")
    go(schema_registry, GOES[goes])
    running = Running(cluster, kind, hasty(schema_registry).deserializer())
    async with running.consumer as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(running.run)
        await until(lambda: any("schema registry" in each for each in consumer.health().problems))
        health = consumer.health()
        assert health.live
        await anyio.sleep(0.3)  # for more attempts than there are retries
        come_back(schema_registry, GOES[goes])
        await until(lambda: len(running.handled) >= COUNT)
        await until(lambda: not consumer.health().problems)
        await consumer.stop()
    assert sorted(running.handled) == list(range(COUNT))
    assert cluster.end_offset("dead") == 0


@pytest.mark.parametrize("kind", ["run", "exactly once", "share"])
async def test_the_wait_has_an_end_where_that_is_wanted(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry, kind: str
) -> None:
    await write(cluster, schema_registry)
    await configure(cluster.bootstrap_servers, "workers")
    schema_registry.stop()
    running = Running(cluster, kind, hasty(schema_registry).deserializer(), registry_patience_ms=200)
    async with running.consumer:
        with anyio.fail_after(30), pytest.raises(HandlerError, match="registry_patience_ms") as raised:
            await running.run()
    assert raised.value.record is not None
    assert isinstance(raised.value.__cause__.__cause__, SchemaRegistryUnavailableError)  # type: ignore[union-attr]
    assert cluster.end_offset("dead") == 0


async def test_a_handler_that_cannot_send_for_want_of_the_registry_has_not_failed(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    await write(cluster, schema_registry)
    registry = hasty(schema_registry)
    running = Running(cluster, "run", registry.deserializer())
    serializer = hasty(schema_registry).avro_serializer(ORDER, auto_register=True)
    async with Producer(cluster.bootstrap_servers, value_serializer=serializer) as producer:

        async def handle(record: ConsumerRecord[Any, Any]) -> None:
            if not running.handled:
                schema_registry.stop()
                running.handled.append(-1)
            await producer.send_and_wait("copies", record.value)
            running.handled.append(record.value["id"])

        running.handle = handle  # type: ignore[assignment]
        async with running.consumer as consumer, anyio.create_task_group() as tasks:
            tasks.start_soon(running.run)
            await until(lambda: consumer.health().problems)
            come_back(schema_registry, None)
            await until(lambda: len(running.handled) > COUNT)
            await consumer.stop()
    assert sorted(running.handled) == [-1, *range(COUNT)]
    assert cluster.end_offset("dead") == 0


async def test_what_is_wrong_with_a_record_is_no_outage(
    cluster: EmbeddedCluster, schema_registry: EmbeddedSchemaRegistry
) -> None:
    cluster.create_topic("dead", partitions=1)
    async with Producer(cluster.bootstrap_servers) as producer:
        for bad in (b"plain", b"\x00\x00\x00\x03\xe7x"):
            await producer.send_and_wait("orders", bad)
    running = Running(cluster, "run", SchemaRegistry(schema_registry.url).deserializer())
    async with running.consumer as consumer, anyio.create_task_group() as tasks:
        tasks.start_soon(running.run)
        await until(lambda: cluster.end_offset("dead") == 2)
        await consumer.stop()


# --- writing ---


async def test_the_latest_schema_that_is_known_serves_on(schema_registry: EmbeddedSchemaRegistry) -> None:
    """No value waits for long, and the new version is found when the registry is back."""
    registry = SchemaRegistry(schema_registry.url, latest_max_age_ms=1, timeout_ms=20_000)
    await registry.register("orders-value", Schema(ORDER_TEXT))
    serializer = registry.avro_serializer(use_latest=True)
    first = await serializer.encode(order(1), "orders")
    for status in GOES.values():
        go(schema_registry, status)
        began = time.monotonic()
        for _ in range(20):
            assert await serializer.encode(order(1), "orders") == first
        assert time.monotonic() < began + 15
        come_back(schema_registry, status)
    other = SchemaRegistry(schema_registry.url)
    await other.register("orders-value", Schema(json.dumps(LATER)))
    with anyio.fail_after(20):
        while await serializer.encode(order(1), "orders") == first:  # noqa: ASYNC110
            await anyio.sleep(0.05)


class Tokens:
    """Tokens that end soon, from a provider that may fail."""

    def __init__(self) -> None:
        self.failures = 0
        self.ends = 0.0

    def token(self) -> Token:
        if self.failures:
            self.failures -= 1
            raise OSError("no route")
        self.ends = time.time() + 0.05
        return Token("t", self.ends)


@again_if_late(1_000, 8_000)
async def test_a_token_that_cannot_be_had_is_an_outage(
    timeout_ms: int, schema_registry: EmbeddedSchemaRegistry
) -> None:
    tokens = Tokens()
    registry = SchemaRegistry(
        schema_registry.url,
        token_provider=tokens,
        latest_max_age_ms=1,
        timeout_ms=timeout_ms,
        retry_backoff_ms=1,
        retry_backoff_max_ms=5,
    )
    await registry.register("orders-value", Schema(ORDER_TEXT))
    serializer = registry.avro_serializer(use_latest=True)
    first = await serializer.encode(order(1), "orders")
    tokens.failures = 1_000_000
    await until(lambda: time.time() > tokens.ends)
    with pytest.raises(SchemaRegistryUnavailableError, match="needs a token: the token provider"):
        await registry.subjects()
    assert await serializer.encode(order(1), "orders") == first
    tokens.failures = 1
    assert await registry.subjects() == ["orders-value"]


@again_if_late(300, 3_000)
async def test_answers_without_an_end_are_an_outage(timeout_ms: int) -> None:
    """They end with the request's time, and their threads return for other requests."""

    async def drip(stream: SocketStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.BrokenResourceError):
                while True:
                    await stream.send(b"X")
                    await anyio.sleep(0.01)

    errors: list[SchemaRegistryUnavailableError] = []

    async def ask(registry: SchemaRegistry, number: int) -> None:
        with pytest.raises(SchemaRegistryUnavailableError) as raised:
            await registry.version("orders-value", number)
        errors.append(raised.value)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as serving,
    ):
        serving.start_soon(listener.serve, drip)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}"
        registry = SchemaRegistry(url, request_timeout_ms=timeout_ms, timeout_ms=timeout_ms + 200)
        for _ in range(3):
            with anyio.fail_after(60):
                async with anyio.create_task_group() as asking:
                    for number in range(8):
                        asking.start_soon(ask, registry, number + 1)
        serving.cancel_scope.cancel()
    assert not any("stuck" in str(error) for error in errors)


async def test_a_subject_that_is_gone_is_no_outage(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url, latest_max_age_ms=0)
    await registry.register("orders-value", Schema(ORDER_TEXT))
    serializer = registry.avro_serializer(use_latest=True)
    await serializer.encode(order(1), "orders")
    await SchemaRegistry(schema_registry.url).delete_subject("orders-value")
    with pytest.raises(SchemaNotFoundError):
        await serializer.encode(order(1), "orders")


async def test_what_is_registered_here_is_the_latest_at_once(schema_registry: EmbeddedSchemaRegistry) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("orders-value", Schema(ORDER_TEXT))
    serializer = registry.avro_serializer(use_latest=True)
    with pytest.raises(SchemaContentError, match="cents"):
        await serializer.encode({**order(1), "cents": 3}, "orders")
    later = await registry.register("orders-value", Schema(json.dumps(LATER)))
    assert later.id is not None
    content = await serializer.encode({**order(1), "cents": 3}, "orders")
    assert int.from_bytes(content[1:5], "big") == later.id
    schema_registry.requests.clear()
    await serializer.encode({**order(1), "cents": 3}, "orders")
    assert not schema_registry.requests
    await registry.delete_version("orders-value", 2)
    with pytest.raises(SchemaContentError, match="cents"):
        await serializer.encode({**order(1), "cents": 3}, "orders")


async def test_an_answer_that_was_asked_for_before_a_registration_does_not_last(
    schema_registry: EmbeddedSchemaRegistry,
) -> None:
    registry = SchemaRegistry(schema_registry.url)
    await registry.register("orders-value", Schema(ORDER_TEXT))
    schema_registry.hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.latest, "orders-value")
        await anyio.sleep(0.05)
        registry.forget()
        schema_registry.release()
    schema_registry.requests.clear()
    await registry.latest("orders-value")
    assert len(schema_registry.requests) == 1
