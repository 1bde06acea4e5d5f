"""``start(wait=False)``: an application starts while Kafka is down, and works as soon as it is up."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import (
    ClientClosedError,
    ConfigTypeError,
    KafkaConnectionError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from ..ports import PortPool

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

AnyClient = AdminClient | Consumer[Any, Any] | Producer[Any, Any] | ShareConsumer[Any, Any]

QUICK: Any = {"reconnect_backoff_ms": 10, "reconnect_backoff_max_ms": 50, "retry_backoff_ms": 10}


async def says_refused(admin: AdminClient) -> bool:
    """Return True if a call fails because the server refuses; on a busy machine it may not have been asked in time."""
    with pytest.raises(RequestTimedOutError) as caught:
        await admin.list_topics(timeout_ms=200)
    return "refused" in str(caught.value)


async def test_clients_that_start_while_kafka_is_down_work_when_it_is_up(ports: PortPool) -> None:
    port = ports.take()
    servers = f"127.0.0.1:{port}"
    producer = Producer(servers, **QUICK)
    consumer = Consumer("events", bootstrap_servers=servers, auto_offset_reset="earliest", **QUICK)
    member = Consumer("events", bootstrap_servers=servers, auto_offset_reset="earliest", group_id="g", **QUICK)
    admin = AdminClient(servers, **QUICK)
    for client in (producer, consumer, member, admin):
        await client.start(wait=False)
    try:
        at_once = producer.send_nowait("events", b"1")
        with anyio.fail_after(20):
            while not await says_refused(admin):
                pass
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("events")
            with anyio.fail_after(20):
                assert (await at_once).offset == 0
                assert (await producer.send_and_wait("events", b"2")).offset == 1
                for reader in (consumer, member):
                    assert [(await reader.getone()).value for _ in range(2)] == [b"1", b"2"]
                await member.wait_ready()
                assert set(await admin.list_topics()) == {"events"}
    finally:
        for client in (producer, consumer, member, admin):
            await client.stop(1000)


async def test_a_transactional_producer_that_starts_while_kafka_is_down(ports: PortPool) -> None:
    port = ports.take()
    producer = Producer(f"127.0.0.1:{port}", transactional_id="t", **QUICK)
    await producer.start(wait=False)
    try:
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("events")
            with anyio.fail_after(20):
                async with producer.transaction() as txn:
                    await txn.send("events", b"1")
            assert [record.value for record in cluster.records("events")] == [b"1"]
    finally:
        await producer.stop(1000)


@again_if_late(500, 8_000)
async def test_sends_say_what_keeps_them_from_the_brokers(block_ms: int, ports: PortPool) -> None:
    async with EmbeddedCluster(1, sasl_users={"alice": "right"}) as cluster:
        cluster.create_topic("events")
        login: Any = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "wrong",
        }
        producer = Producer(cluster.bootstrap_servers, **QUICK, **login)
        await producer.start(wait=False)
        with anyio.fail_after(20), pytest.raises(SaslAuthenticationFailedError):
            await producer.send("events", b"1")
        await producer.stop()
    producer = Producer(f"127.0.0.1:{ports.take()}", max_block_ms=block_ms, **QUICK)
    await producer.start(wait=False)
    with pytest.raises(RequestTimedOutError, match="refused"):
        await producer.send("events", b"1")
    await producer.stop()


def each_kind(servers: str) -> list[AnyClient]:
    """Return one client of each kind; each needs something from a broker that is down."""
    assigned = Consumer(bootstrap_servers=servers, group_id="g")
    assigned.assign([TopicPartition("events", 0)])
    return [
        Producer(servers),
        Producer(servers, transactional_id="t"),
        AdminClient(servers),
        Consumer("events", bootstrap_servers=servers),
        Consumer("events", bootstrap_servers=servers, group_id="g"),
        Consumer("events", bootstrap_servers=servers, group_id="g", group_protocol="consumer"),
        assigned,
        ShareConsumer("events", bootstrap_servers=servers, group_id="g"),
    ]


KINDS = pytest.mark.parametrize("index", range(8))


async def stop_at_once(client: AnyClient) -> None:
    """A stop that waits for a coordinator, to leave the group, takes a quarter or half of its timeout."""
    with anyio.move_on_after(10) as scope:
        await client.stop(timeout_ms=60_000)
    assert not scope.cancel_called


@KINDS
async def test_a_client_stopped_before_kafka_was_ever_up_stops_at_once(ports: PortPool, index: int) -> None:
    client = each_kind(f"127.0.0.1:{ports.take()}")[index]
    await client.start(wait=False)
    await anyio.wait_all_tasks_blocked()
    await stop_at_once(client)


@KINDS
async def test_a_client_whose_start_has_failed_stops_at_once(ports: PortPool, index: int) -> None:
    client = each_kind(f"127.0.0.1:{ports.take()}")[index]
    with pytest.raises(KafkaConnectionError, match="refused"):
        await client.start()
    await stop_at_once(client)


@KINDS
async def test_a_stop_during_the_start_ends_both_at_once(index: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts connections, and never answers
        client = each_kind(f"127.0.0.1:{silent.getsockname()[1]}")[index]

        async def start() -> None:
            with pytest.raises(ClientClosedError):
                await client.start()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await anyio.wait_all_tasks_blocked()
            await stop_at_once(client)


@pytest.mark.parametrize("kind", [Producer, AdminClient])
async def test_wait_is_true_or_false(kind: Any) -> None:
    with pytest.raises(ConfigTypeError, match="wait"):
        await kind("localhost:9").start(wait=None)


async def test_leaving_the_block_takes_no_longer_than_close_timeout_ms() -> None:
    async with EmbeddedCluster(1) as cluster:
        cluster.create_topic("events")
        with anyio.fail_after(20):
            async with Producer(cluster.bootstrap_servers, close_timeout_ms=100) as producer:
                await producer.send_and_wait("events", b"1")
                await cluster.kill_broker(1)
                lost = producer.send_nowait("events", b"2")
        with pytest.raises(Exception, match="stopped before"):
            await lost


@pytest.mark.parametrize("options", [{"dead_letter_topic": "failed"}, {"retry_topics": ["1s"]}])
async def test_a_run_that_starts_while_kafka_is_down(ports: PortPool, options: dict[str, Any]) -> None:
    port = ports.take()
    short: dict[str, Any] = {"request_timeout_ms": 300, "fetch_max_wait_ms": 50, "max_poll_interval_ms": 200, **QUICK}
    consumer = Consumer("events", bootstrap_servers=f"127.0.0.1:{port}", group_id="g", **short)
    await consumer.start(wait=False)
    handled = anyio.Event()

    async def handle(record: object) -> None:
        handled.set()

    async def run() -> None:
        await consumer.run(handle, **options)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await anyio.sleep(0.4)  # longer than both limits
        assert consumer.health().live
        async with EmbeddedCluster(1, ports=[port]) as cluster:
            cluster.create_topic("events")
            with anyio.fail_after(30):
                async with Producer(cluster.bootstrap_servers, linger_ms=10) as producer:
                    while not handled.is_set():
                        await producer.send_and_wait("events", b"1")
            await consumer.stop()


async def test_a_run_that_is_stopped_before_kafka_was_ever_up(ports: PortPool) -> None:
    consumer = Consumer("events", bootstrap_servers=f"127.0.0.1:{ports.take()}", group_id="g", **QUICK)
    await consumer.start(wait=False)

    async def run() -> None:
        await consumer.run(anyio.sleep, dead_letter_topic="failed")

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await anyio.wait_all_tasks_blocked()
            await consumer.stop()
