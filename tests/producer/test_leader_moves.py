"""Leaders move: the rules of retrying (KIP-951), on a real socket."""

from __future__ import annotations

import time

import anyio
import pytest

from aiokafka_lead.errors import NotLeaderOrFollowerError
from aiokafka_lead.producer import Producer
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio


async def test_next_record_after_a_move_does_not_wait_for_the_backoff(cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
    ) as producer:
        for broker in range(1, 4):  # connect to all
            cluster.move_leader("events", 0, to=broker)
            await producer.send_and_wait("events", b"v", partition=0)
        for _ in range(10):
            cluster.move_leader("events", 0)
            with anyio.fail_after(20):
                await producer.send_and_wait("events", b"v", partition=0)
        metrics = producer.metrics()
    assert metrics.free_retries >= 10
    assert metrics.leader_moves >= 10
    assert 0 < metrics.leader_move_ms_max < 20_000
    assert metrics.metadata.hints_accepted >= 10
    assert len(cluster.records("events", 0)) == 13


async def test_without_hints_the_backoff_is_kept_and_only_the_moved_partition_waits(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 9}
    for partition in range(2):
        cluster.move_leader("events", partition, to=1)
    async with Producer(
        cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
    ) as producer:
        for partition in range(2):
            await producer.send_and_wait("events", b"v", partition=partition)
        cluster.freeze_metadata(60_000)
        cluster.move_leader("events", 0, to=2)
        began = time.monotonic()
        moved = await producer.send("events", b"v", partition=0)
        while time.monotonic() - began < 0.25:
            await producer.send_and_wait("events", b"v", partition=1)
        assert not moved.done()
        assert cluster.requests.count("Produce", broker=2) == 0
        assert producer.metrics().metadata.hints_received == 0
        await producer.stop(timeout_ms=0)


async def test_metadata_that_knows_the_new_epoch_ends_the_backoff(cluster: EmbeddedCluster) -> None:
    cluster.max_versions = {"Produce": 9}
    async with Producer(
        cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
    ) as producer:
        await producer.send_and_wait("events", b"v", partition=0)
        cluster.move_leader("events", 0, to=2)
        with anyio.fail_after(20):
            await producer.send_and_wait("events", b"v", partition=0)


async def test_new_leader_that_does_not_know_yet_is_asked_again_soon(cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=60_000, retry_backoff_max_ms=60_000
    ) as producer:
        for partition in range(3):  # connect to all
            await producer.send_and_wait("events", b"v", partition=partition)
        refusals = cluster.faults.add("Produce", broker=2, error_code=NotLeaderOrFollowerError, count=3)
        cluster.move_leader("events", 0, to=2)
        with anyio.fail_after(20):
            await producer.send_and_wait("events", b"v", partition=0)
        assert refusals.spent
        metrics = producer.metrics()
        assert (metrics.free_retries, metrics.catch_up_waits) == (1, 3)


async def test_broker_that_refuses_for_ever_sees_few_requests(cluster: EmbeddedCluster) -> None:
    async with Producer(
        cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=1000
    ) as producer:
        await producer.send_and_wait("events", b"v", partition=0)
        rule = cluster.faults.add("Produce", error_code=NotLeaderOrFollowerError)
        cluster.requests.clear()
        delivery = await producer.send("events", b"v", partition=0)
        await cluster.wait_for_requests("Produce", count=7)
        first, *_, last = cluster.requests.select("Produce")
        assert last.time - first.time > 0.4
        rule.remove()
        assert (await delivery).offset == 1


async def test_late_answers_of_the_old_leader_count(cluster: EmbeddedCluster) -> None:
    """Until the old leader has answered, the new one gets no batch; the late answer is accepted."""
    async with Producer(cluster.bootstrap_servers, linger_ms=0, metadata_max_age_ms=50) as producer:
        await producer.send_and_wait("events", b"first", partition=0)
        late = cluster.faults.add("Produce", hold=True, after=True, count=1)
        slow = await producer.send("events", b"slow", partition=0)
        await cluster.wait_for_requests("Produce", count=2)
        cluster.move_leader("events", 0, to=2)
        await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 2)
        behind = await producer.send("events", b"behind", partition=0)
        await cluster.wait_for_requests("Metadata", count=cluster.requests.count("Metadata") + 2)
        assert cluster.requests.count("Produce", broker=2) == 0
        late.release()
        assert (await slow).offset == 1
        assert (await behind).offset == 2
        assert cluster.requests.count("Produce", broker=2) == 1
        assert producer.metrics().retries == 0


@pytest.mark.parametrize("idempotent", [True, False])
async def test_order_holds_while_the_leader_moves_on_and_on(cluster: EmbeddedCluster, idempotent: bool) -> None:
    in_flight = 5 if idempotent else 1
    async with Producer(
        cluster.bootstrap_servers,
        linger_ms=0,
        batch_size=200,
        enable_idempotence=idempotent,
        max_in_flight_requests_per_connection=in_flight,
    ) as producer:
        deliveries = []
        for number in range(600):
            deliveries.append(await producer.send("events", b"%d" % number, partition=0))
            if number % 30 == 0:
                cluster.move_leader("events", 0)
            if number % 5 == 0:
                await anyio.sleep(0.001)
        offsets = [(await delivery).offset for delivery in deliveries]
    assert offsets == sorted(offsets)
    values = [record.value for record in cluster.records("events", 0)]
    assert values == [b"%d" % number for number in range(600)]
    assert not cluster.protocol_errors


async def test_broker_that_dies_under_load(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=1, reconnect_backoff_ms=20) as producer:
        deliveries: list[list[object]] = [[], [], []]
        for number in range(900):
            deliveries[number % 3].append(await producer.send("events", b"%d" % number, partition=number % 3))
            if number == 300:
                await cluster.kill_broker(1)
            if number == 600:
                await cluster.start_broker(1)
            if number % 10 == 0:
                await anyio.sleep(0.002)
        with anyio.fail_after(20):
            await producer.flush()
        assert producer.metrics().records_acked == 900
    for partition in range(3):
        values = [record.value for record in cluster.records("events", partition)]
        assert values == [b"%d" % number for number in range(partition, 900, 3)]
