"""Every wait ends: memory, metadata, delivery, flush, stop."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from aiokafka_lead.errors import (
    BufferFull,
    ClientClosedError,
    DeliveryTimeoutError,
    KafkaError,
    RequestTimedOutError,
)
from aiokafka_lead.producer import Delivery, Producer
from aiokafka_lead.testing import EmbeddedCluster
from tests.patience import again_if_late, started

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def failure(delivery: Delivery) -> KafkaError:
    try:
        await delivery
    except KafkaError as error:
        return error
    raise AssertionError("the record was acknowledged")


async def test_send_waits_for_memory_in_turn(cluster: EmbeddedCluster) -> None:
    gate = cluster.faults.add("Produce", hold=True, count=1)
    done: list[int] = []
    async with Producer(cluster.bootstrap_servers, buffer_memory=2000, linger_ms=0) as producer:

        async def send(number: int, size: int) -> None:
            delivery = await producer.send("events", b"x" * size, partition=0)
            done.append(number)
            await delivery

        async with anyio.create_task_group() as tasks:
            await producer.send("events", b"x" * 1500, partition=0)
            for number in range(6):
                tasks.start_soon(send, number, 1300 if number % 2 else 900)
                await anyio.sleep(0.005)
            with pytest.raises(BufferFull):
                producer.send_nowait("events", b"", partition=0)
            assert done == []
            gate.release()
        # No two of them fit at once: the order is that in which memory was granted. A small one did not overtake a
        # large one.
        assert done == [0, 1, 2, 3, 4, 5]
        assert gate.struck == 1
        assert producer.metrics().buffer_waits >= 5
        assert producer.metrics().buffer_used_bytes == 0
    assert len(cluster.records("events", 0)) == 7


async def test_memory_that_does_not_come_is_buffer_full(cluster: EmbeddedCluster) -> None:
    rule = cluster.faults.add("Produce", hold=True, count=1)
    async with Producer(cluster.bootstrap_servers, buffer_memory=2000, max_block_ms=500) as producer:
        await producer.partitions_for("events", timeout_ms=20_000)
        first = await producer.send("events", b"x" * 1500, partition=0)
        began = time.monotonic()
        with pytest.raises(BufferFull, match=r"within 500 ms \(max_block_ms"):
            await producer.send("events", b"x" * 1500, partition=0)
        assert 0.49 < time.monotonic() - began < 20
        delivery = await producer.send_many("events", [b"x" * 10, b"x" * 1500, b"y"], partition=0)
        await cluster.requests.wait_for("Produce")
        assert rule.struck == 1
        rule.release()
        assert [type(outcome) for outcome in (await delivery)[1:]] == [BufferFull, BufferFull]
        assert (await first).offset == 0
    assert len(cluster.records("events", 0)) == 2


async def test_cancelled_send_has_not_taken_the_record(cluster: EmbeddedCluster) -> None:
    slow = cluster.faults.add("Produce", hold=True, count=1)
    async with Producer(cluster.bootstrap_servers, buffer_memory=2000, linger_ms=0) as producer:
        await producer.send("events", b"x" * 1500, partition=0)
        with anyio.move_on_after(0.05) as scope:
            await producer.send("events", b"y" * 1500, partition=0)
        assert scope.cancelled_caught
        await cluster.wait_for_requests("Produce")
        slow.release()
        assert (await producer.send_and_wait("events", b"z" * 1500, partition=0)).offset == 1
        assert producer.metrics().buffer_used_bytes == 0
    assert [record.value[:1] for record in cluster.records("events", 0) if record.value] == [b"x", b"z"]


async def test_cancelled_delivery_leaves_the_record_alone(cluster: EmbeddedCluster) -> None:
    slow = cluster.faults.add("Produce", hold=True, count=1)
    async with Producer(cluster.bootstrap_servers) as producer:
        delivery = await producer.send("events", b"v", partition=0)
        other = await producer.send("events", b"w", partition=0)
        with anyio.move_on_after(0.02) as scope:
            await delivery
        assert scope.cancelled_caught
        await cluster.wait_for_requests("Produce")
        slow.release()
        assert (await other).offset == 1
        assert (await delivery).offset == 0


@again_if_late(400, 4_000)
async def test_records_expire_when_no_broker_answers(time_ms: int, cluster: EmbeddedCluster) -> None:
    limits: dict[str, Any] = {"delivery_timeout_ms": time_ms, "request_timeout_ms": time_ms - 100}
    cluster.faults.add("Produce", drop=True)
    async with started(Producer(cluster.bootstrap_servers, **limits)) as producer:
        began = time.monotonic()
        first = await producer.send("events", b"v", partition=0)
        error = await failure(first)
        assert isinstance(error, DeliveryTimeoutError)
        assert "events-0" in str(error)
        assert "may have been written" in str(error)
        assert time_ms - 10 < 1000 * (time.monotonic() - began) < time_ms + 20_000
        assert producer.metrics().records_expired == 1
        await producer.flush()


@again_if_late(400, 4_000)
async def test_records_expire_when_the_brokers_are_gone(time_ms: int, cluster: EmbeddedCluster) -> None:
    limits: dict[str, Any] = {"delivery_timeout_ms": time_ms, "request_timeout_ms": time_ms - 100}
    written = len(cluster.records("events", 0))
    for broker in cluster.broker_ids:
        if not cluster.is_running(broker):  # since the first attempt
            await cluster.start_broker(broker)
    async with Producer(cluster.bootstrap_servers, **limits, retry_backoff_ms=20) as producer:
        await producer.send_and_wait("events", b"v", partition=0)
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker)
        error = await failure(await producer.send("events", b"v", partition=0))
        assert isinstance(error, DeliveryTimeoutError)
        for broker in cluster.broker_ids:
            await cluster.start_broker(broker)
        # It continues with sequences that the brokers accept.
        number = 0
        for number in count():
            try:
                await producer.send_and_wait("events", b"%d" % number, partition=0)
                break
            except DeliveryTimeoutError:
                continue
    first, *values = [record.value for record in cluster.records("events", 0)[written:]]
    assert first == b"v"
    assert values[-1] == b"%d" % number
    assert sorted(set(values), key=values.index) == values


async def test_flush_waits_for_what_was_taken_and_no_more(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        deliveries = [await producer.send("events", b"v", partition=n % 3) for n in range(30)]
        with anyio.fail_after(20):
            await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        await producer.flush()  # without a pending record
        later = await producer.send("events", b"v", partition=0)
        assert not later.done()
        with anyio.fail_after(20):
            await producer.flush(timeout_ms=20_000)
        assert later.done()


async def test_flush_ends_in_time(cluster: EmbeddedCluster) -> None:
    rule = cluster.faults.add("Produce", hold=True, count=1)
    async with Producer(cluster.bootstrap_servers) as producer:
        delivery = await producer.send("events", b"v", partition=0)
        began = time.monotonic()
        with pytest.raises(RequestTimedOutError, match="1 batches were not acknowledged within 100 ms"):
            await producer.flush(timeout_ms=100)
        assert time.monotonic() - began < 20
        await cluster.requests.wait_for("Produce")
        assert rule.struck == 1
        rule.release()
        assert (await delivery).offset == 0


async def test_stop_sends_what_is_pending(cluster: EmbeddedCluster) -> None:
    producer = Producer(cluster.bootstrap_servers, linger_ms=60_000, delivery_timeout_ms=120_000)
    await producer.start()
    deliveries = [await producer.send("events", b"v", partition=n % 3) for n in range(30)]
    with anyio.fail_after(20):
        await producer.stop()
    assert sorted(delivery.result().offset for delivery in deliveries) == sorted([*range(10)] * 3)


@pytest.mark.parametrize("timeout_ms", [0, 300])
async def test_stop_with_the_brokers_gone(cluster: EmbeddedCluster, timeout_ms: float) -> None:
    producer = Producer(cluster.bootstrap_servers, buffer_memory=3000)
    await producer.start()
    await producer.send_and_wait("events", b"v", partition=0)
    for broker in cluster.broker_ids:
        await cluster.kill_broker(broker)
    deliveries = [await producer.send("events", b"v" * 1000, partition=0) for _ in range(2)]
    held = producer.send_nowait("unknown", b"v")
    errors: list[BaseException] = []

    async def blocked() -> None:
        try:
            await producer.send("events", b"v" * 1000, partition=0)
        except KafkaError as error:
            errors.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(blocked)
        await anyio.wait_all_tasks_blocked()
        began = time.monotonic()
        await producer.stop(timeout_ms=timeout_ms)
        assert time.monotonic() - began < timeout_ms / 1000 + 20
    for delivery in [*deliveries, held]:
        error = await failure(delivery)
        assert isinstance(error, ClientClosedError)
        assert "stopped before" in str(error)
    assert [type(error) for error in errors] == [ClientClosedError]


async def test_cancelled_block_closes_the_producer(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Produce", drop=True)
    deliveries: list[Delivery] = []
    with anyio.CancelScope() as scope:
        async with Producer(cluster.bootstrap_servers) as producer:
            deliveries.append(await producer.send("events", b"v"))
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert isinstance(await failure(deliveries[0]), ClientClosedError)
    with anyio.fail_after(20):
        while any(cluster.connection_count(broker) for broker in cluster.broker_ids):
            await anyio.lowlevel.checkpoint()


async def test_sends_that_never_wait_do_not_starve_the_sender(cluster: EmbeddedCluster) -> None:
    async with Producer(cluster.bootstrap_servers, buffer_memory=8_000_000) as producer:
        first = await producer.send("events", b"x" * 100, partition=0)
        for _ in range(40_000):
            await producer.send("events", b"x" * 100, partition=0)
        assert first.done()
        assert producer.metrics().buffer_waits == 0
