"""A call's ``timeout_ms`` replaces the option that otherwise limits it, for the whole call.

The client's options are the longest times, so that a call that ignores its timeout does not end in time.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import (
    AdminClient,
    Client,
    Consumer,
    ConsumerRecord,
    Producer,
    ShareConsumer,
    TopicPartition,
    Transaction,
    TransactionPipeline,
)
from aiokafka_lead.errors import (
    BufferFull,
    ConfigError,
    ConfigTypeError,
    KafkaConnectionError,
    RequestTimedOutError,
    TransactionTimedOutError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster, Fault

from ..patience import again_if_late

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

HOUR = 3_600_000.0
LONG: dict[str, Any] = {"request_timeout_ms": HOUR}
IN_TIME_S = 60
"""Far more than a call with a timeout of milliseconds takes on any machine, and far less than `HOUR`."""


@pytest.fixture(name="cluster")
async def one_broker() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(1, auto_create_topics=False) as cluster:
        cluster.create_topic("events")
        yield cluster


def producer_of(servers: str, **options: Any) -> Producer[bytes, bytes]:
    return Producer(servers, max_block_ms=HOUR, delivery_timeout_ms=3 * HOUR, **LONG, **options)


def pipeline_of(servers: str) -> TransactionPipeline[bytes, bytes]:
    options: dict[str, Any] = {"transactional_id": "copier", "max_block_ms": HOUR, "delivery_timeout_ms": 3 * HOUR}
    return TransactionPipeline(servers, **options, **LONG)


KINDS: dict[str, Callable[[str], Any]] = {
    "producer": producer_of,
    "pipeline": pipeline_of,
    "consumer": lambda servers: Consumer("events", bootstrap_servers=servers, **LONG),
    "share": lambda servers: ShareConsumer("events", bootstrap_servers=servers, group_id="s", **LONG),
    "admin": lambda servers: AdminClient(servers, **LONG),
    "client": lambda servers: Client(servers, **LONG),
}


# --- start ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_connects_within_its_timeout(cluster: EmbeddedCluster, kind: str) -> None:
    cluster.faults.add("Metadata", hold=True)
    client = KINDS[kind](cluster.bootstrap_servers)
    with anyio.fail_after(IN_TIME_S), pytest.raises(KafkaConnectionError):
        await client.start(timeout_ms=200)


@again_if_late(700, 5_000)
async def test_a_start_may_have_longer_than_a_request(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Metadata", hold=True)
    producer = Producer(cluster.bootstrap_servers, request_timeout_ms=100)
    began = time.monotonic()
    with pytest.raises(KafkaConnectionError):
        await producer.start(timeout_ms=timeout_ms)
    assert time.monotonic() - began >= timeout_ms / 1000 - 0.001
    assert held.struck


async def test_a_client_on_shared_connections_has_its_own_time(cluster: EmbeddedCluster) -> None:
    async with Client(cluster.bootstrap_servers) as client:
        with pytest.raises(ConfigError, match="timeout_ms"):
            await client.producer().start(timeout_ms=-1)
        producer = client.producer()
        await producer.start(timeout_ms=IN_TIME_S * 1000)
        await producer.send_and_wait("events", b"v")


@pytest.mark.parametrize("kind", ["producer", "pipeline"])
@again_if_late(500, 8000)
async def test_a_start_gets_a_producer_id_in_the_rest_of_its_time(
    timeout_ms: int, cluster: EmbeddedCluster, kind: str
) -> None:
    held = cluster.faults.add("InitProducerId", hold=True)
    servers = cluster.bootstrap_servers
    client: Any = pipeline_of(servers) if kind == "pipeline" else producer_of(servers, transactional_id="copier")
    with anyio.fail_after(IN_TIME_S), pytest.raises(TransactionTimedOutError):
        await client.start(timeout_ms=timeout_ms)
    assert held.struck


@pytest.mark.parametrize("request_name", ["JoinGroup", "ListOffsets"])
@again_if_late(500, 8000)
async def test_a_consumer_starts_without_the_positions_that_take_longer(
    timeout_ms: int, cluster: EmbeddedCluster, request_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    held = cluster.faults.add(request_name, hold=True)
    consumer = Consumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **LONG)
    with anyio.fail_after(IN_TIME_S):
        await consumer.start(timeout_ms=timeout_ms)
    assert "is still waiting for" in caplog.text
    held.remove()
    held.release()
    await consumer.stop()


@again_if_late(500, 8000)
async def test_a_share_consumer_starts_without_its_assignment(
    timeout_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    held = cluster.faults.add("ShareGroupHeartbeat", hold=True)
    consumer = ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="s", **LONG)
    with anyio.fail_after(IN_TIME_S):
        await consumer.start(timeout_ms=timeout_ms)
    assert "is still waiting for" in caplog.text
    held.remove()
    held.release()
    await consumer.stop()


# --- sends ------------------------------------------------------------------------------------------------------------


async def test_a_send_waits_for_room_within_its_timeout(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", hold=True, count=1)
    async with producer_of(cluster.bootstrap_servers, buffer_memory=2000) as producer:
        first = await producer.send("events", b"x" * 1500, partition=0, timeout_ms=IN_TIME_S * 1000)
        with anyio.fail_after(IN_TIME_S):
            with pytest.raises(BufferFull, match=r"within 100 ms \(max_block_ms, or the call's timeout_ms\)"):
                await producer.send("events", b"x" * 1500, partition=0, timeout_ms=100)
            with pytest.raises(BufferFull):
                await producer.send("events", b"x" * 1500, partition=0, timeout_ms=0)
            many = await producer.send_many("events", [b"x" * 10, b"x" * 1500, b"y"], partition=0, timeout_ms=100)
            with pytest.raises(BufferFull):  # which has accepted nothing
                await producer.send_many(
                    "events", [b"x" * 1500], headers=[[("h", b"v")]], timestamps_ms=[1], timeout_ms=0
                )
        held.remove()
        assert [type(outcome) for outcome in (await many)[1:]] == [BufferFull, BufferFull]
        assert (await first).offset == 0
    assert len(cluster.records("events", 0)) == 2


@again_if_late(100, 3000)
async def test_a_send_waits_for_a_topic_within_its_timeout(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster.bootstrap_servers) as producer:
        with anyio.fail_after(IN_TIME_S):
            for send in (producer.send, producer.send_and_wait):
                with pytest.raises(UnknownTopicOrPartitionError):
                    await send("absent", b"v", timeout_ms=timeout_ms)
            with pytest.raises(UnknownTopicOrPartitionError):
                await producer.send_many("absent", [b"v"], timeout_ms=timeout_ms)


@pytest.mark.parametrize("name", ["send", "send_and_wait", "send_many"])
async def test_a_timeout_is_checked_even_if_no_wait_is_needed(cluster: EmbeddedCluster, name: str) -> None:
    async with producer_of(cluster.bootstrap_servers) as producer:
        await producer.send_and_wait("events", b"v")
        content: Any = [b"v"] if name == "send_many" else b"v"
        with pytest.raises(ConfigError, match="timeout_ms"):
            await getattr(producer, name)("events", content, timeout_ms=-1)
        with pytest.raises(ConfigTypeError, match="timeout_ms"):
            await getattr(producer, name)("events", content, timeout_ms="1")
    assert len(cluster.records("events", 0)) == 1


async def test_send_and_wait_waits_for_the_acknowledgement_within_its_timeout(cluster: EmbeddedCluster) -> None:
    held = cluster.faults.add("Produce", hold=True, count=1)
    async with producer_of(cluster.bootstrap_servers) as producer:
        await producer.partitions_for("events")
        with anyio.fail_after(IN_TIME_S), pytest.raises(RequestTimedOutError, match="may still be written"):
            await producer.send_and_wait("events", b"first", timeout_ms=200)
        held.remove()
        assert (await producer.send_and_wait("events", b"second", timeout_ms=IN_TIME_S * 1000)).offset == 1
    assert [record.value for record in cluster.records("events", 0)] == [b"first", b"second"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@again_if_late(200, 4000)
async def test_an_acknowledgement_that_comes_while_the_loop_is_blocked_counts(timeout_ms: int) -> None:
    with ClusterThread(EmbeddedCluster(1)) as cluster:
        cluster.create_topic("events")
        async with producer_of(cluster.bootstrap_servers) as producer, anyio.create_task_group() as tasks:
            await producer.send_and_wait("events", b"first")
            held = cluster.faults.add("Produce", hold=True, count=1)

            async def release_and_block() -> None:
                await cluster.wait_for_requests("Produce", count=2)
                held.release()
                while len(cluster.records("events", 0)) < 2 or time.monotonic() < began + timeout_ms / 1000 + 0.1:
                    time.sleep(0.05)  # noqa: ASYNC251 - that is the matter

            tasks.start_soon(release_and_block)
            began = time.monotonic()
            try:
                assert (await producer.send_and_wait("events", b"second", timeout_ms=timeout_ms)).offset == 1
            finally:
                held.release()


@again_if_late(100, 3000)
async def test_sends_of_a_transaction_have_their_own_time(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    async with producer_of(cluster.bootstrap_servers, transactional_id="copier") as producer:
        with anyio.fail_after(IN_TIME_S):
            with pytest.raises(UnknownTopicOrPartitionError):
                async with producer.transaction() as transaction:
                    await transaction.send("absent", b"v", timeout_ms=timeout_ms)
            async with producer.transaction() as transaction:
                await transaction.send("events", b"v", timeout_ms=IN_TIME_S * 1000)
                await transaction.send_and_wait("events", b"v", timeout_ms=IN_TIME_S * 1000)
                await transaction.send_many("events", [b"v"], timeout_ms=IN_TIME_S * 1000)
            held = cluster.faults.add("Produce", hold=True, count=1)
            with pytest.raises(TransactionTimedOutError):
                await _send_late(transaction := producer.transaction(), held)
            assert transaction.outcome == "aborted"


async def _send_late(transaction: Transaction[bytes, bytes], held: Fault) -> None:
    async with transaction:
        try:
            await transaction.send_and_wait("events", b"late", timeout_ms=200)
        finally:
            held.remove()


# --- reading ----------------------------------------------------------------------------------------------------------


async def test_getone_returns_none_without_a_record(cluster: EmbeddedCluster) -> None:
    servers = cluster.bootstrap_servers
    async with Consumer("events", bootstrap_servers=servers) as consumer, Producer(servers) as producer:
        record: ConsumerRecord[bytes | None, bytes | None] | None
        with anyio.fail_after(IN_TIME_S):
            assert await consumer.getone(timeout_ms=50) is None
            assert await consumer.getone(TopicPartition("events", 0), timeout_ms=0) is None
            await producer.send_and_wait("events", b"v")
            record = await consumer.getone(timeout_ms=IN_TIME_S * 1000)
        assert record is not None
        assert record.value == b"v"
        with pytest.raises(ConfigTypeError, match="timeout_ms"):
            await consumer.getone(timeout_ms="1")  # type: ignore[call-overload]
