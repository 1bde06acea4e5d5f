"""`lag`, `health`, and the warning after the event loop was blocked."""

from __future__ import annotations

import logging
import socket
import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import ConsumerRecord, Handlers
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.testing import EmbeddedCluster

from .support import E0, E1, E2, Gate, fill, runner_of, until

pytestmark = pytest.mark.anyio

Record = ConsumerRecord[Any, Any]


async def until_unhealthy(consumer: Consumer[Any, Any]) -> None:
    """Poll until it is unhealthy, because health is a snapshot without an event."""
    while consumer.health().healthy:  # noqa: ASYNC110
        await anyio.sleep(0.01)


async def test_lag_is_known_from_fetches(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    await fill(cluster, 4, partition=1)
    async with runner_of(cluster, group_id=None) as consumer:
        assert consumer.lag().total is None
        assert (await consumer.getone(E0)).offset == 0
        with anyio.fail_after(20):
            while consumer.lag().total is None:
                await consumer.getmany(E2, timeout_ms=10)
        asked = len(cluster.requests)
        lag = consumer.lag()
        assert lag.partitions == {E0: 9, E1: 4, E2: 0}
        assert lag.total == 13
        assert len(cluster.requests) - asked == 0


async def test_a_port_that_is_taken_is_named(cluster: EmbeddedCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with runner_of(cluster) as consumer:
            with pytest.raises(OSError, match=f"cannot listen on port {port}: "):
                await consumer.run(anyio.sleep, health_port=port, health_host="127.0.0.1")


async def test_lag_within_a_run_counts_what_is_not_done(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 10)
    gate = Gate()
    async with runner_of(cluster) as consumer, until(consumer) as done, anyio.create_task_group() as tasks:
        handled = anyio.Event()

        async def handle(record: Record) -> None:
            if record.offset == 2:
                await gate.wait()
            if record.offset == 9:
                handled.set()

        tasks.start_soon(consumer.run, handle)
        await handled.wait()
        await anyio.lowlevel.checkpoint()
        assert consumer.lag().partitions[E0] == 8
        gate.open()
        with anyio.fail_after(20):
            while consumer.lag().partitions[E0] != 0:
                await anyio.lowlevel.checkpoint()
        done()


async def test_health_of_a_consumer_that_reads(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 1)
    consumer = runner_of(cluster)
    assert consumer.health().problems == ("the consumer has not been started",)
    async with consumer:
        await consumer.getone()
        health = consumer.health()
        assert health.healthy
        assert health.since_fetch_ms is not None
        assert health.since_fetch_ms < 10_000
        assert health.joined is None
    assert consumer.health().problems == ("the consumer has been stopped",)


async def test_brokers_that_do_not_answer_are_a_problem(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"request_timeout_ms": 1500, "fetch_max_wait_ms": 50}
    async with runner_of(cluster, **options) as consumer, anyio.create_task_group() as tasks:
        assert await consumer.getmany(timeout_ms=100) == {}
        assert consumer.health().healthy
        cluster.faults.add("Fetch", count=None, drop=True)
        tasks.start_soon(consumer.getone)
        with anyio.fail_after(20):
            await until_unhealthy(consumer)
        assert "answered a fetch" in consumer.health().problems[0]
        tasks.cancel_scope.cancel()


async def test_a_loop_that_asks_between_its_reads_learns_of_brokers_that_do_not_answer(
    cluster: EmbeddedCluster,
) -> None:
    options: dict[str, Any] = {"request_timeout_ms": 1500, "fetch_max_wait_ms": 50}
    async with runner_of(cluster, **options) as consumer:
        cluster.faults.add("Fetch", count=None, drop=True)
        with anyio.fail_after(20):
            while consumer.health().healthy:
                assert await consumer.getmany(timeout_ms=20) == {}
        assert "answered a fetch" in consumer.health().problems[0]


async def test_a_handler_that_is_stuck_is_a_problem(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 2)
    options: dict[str, Any] = {"group_id": None, "max_poll_interval_ms": 100}
    async with runner_of(cluster, **options) as consumer, anyio.create_task_group() as tasks:

        async def handle(record: Record) -> None:
            if record.offset == 1:
                await anyio.sleep_forever()

        tasks.start_soon(consumer.run, handle)
        with anyio.fail_after(20):
            while (health := consumer.health()).healthy or health.handler_ms is None:  # noqa: ASYNC110
                await anyio.sleep(0.01)
        assert "handling its records" in health.problems[0]
        assert health.handler_ms >= 100
        tasks.cancel_scope.cancel()


async def test_a_batch_that_waits_for_its_retry_is_not_at_work(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 2)
    handlers, failed = Handlers(), anyio.Event()

    @handlers.on("events", max_records=2)
    async def handle(records: list[Record]) -> None:
        failed.set()
        raise LookupError("not yet")

    options: dict[str, Any] = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    async with runner_of(cluster, max_poll_interval_ms=100) as consumer, anyio.create_task_group() as tasks:

        async def run() -> None:
            await consumer.run(handlers, **options)

        tasks.start_soon(run)
        await failed.wait()
        with anyio.fail_after(20):
            while consumer.health().handler_ms is not None:
                await anyio.lowlevel.checkpoint()
        assert consumer.health().live
        tasks.cancel_scope.cancel()


async def test_an_application_that_does_not_come_back_is_a_problem(cluster: EmbeddedCluster) -> None:
    await fill(cluster, 20)
    async with runner_of(cluster, group_id=None, max_poll_interval_ms=700) as consumer:
        async for record in consumer:
            if record.offset == 10:
                assert consumer.health().healthy
                with anyio.fail_after(20):
                    await until_unhealthy(consumer)
                assert "handling its records" in consumer.health().problems[0]
                break


async def test_a_blocked_event_loop_is_warned_of(cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture) -> None:
    await fill(cluster, 1)
    async with runner_of(cluster, heartbeat_interval_ms=200) as consumer, until(consumer) as done:

        async def handle(record: Record) -> None:
            with anyio.fail_after(30):
                time.sleep(1.5)  # noqa: ASYNC251 - that is the matter
                while not consumer.health().blocked_ms:
                    await anyio.lowlevel.checkpoint()
            done()

        with caplog.at_level(logging.WARNING, "aiokafka_lead.consumer"):
            await consumer.run(handle)
        health = consumer.health()
    warnings = [record.getMessage() for record in caplog.records if "event loop" in record.getMessage()]
    assert any("was blocked for" in warning and "no fetch was answered for" in warning for warning in warnings)
    assert 300 <= health.blocked_ms < 20_000
    assert health.since_blocked_ms is not None
