"""`start`: the state when it returns, the work that it leaves to later, and cleanup after a failure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    ClientClosedError,
    LeaderNotAvailableError,
    NoOffsetForPartitionError,
    NotStartedError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    TopicAuthorizationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, E1, E2, consumer_of, fill, numbers, take, values

pytestmark = pytest.mark.anyio

LATEST: dict[str, Any] = {"auto_offset_reset": "latest"}
IMPATIENT: dict[str, Any] = {"request_timeout_ms": 1000, "fetch_max_wait_ms": 100}
AT_ONCE_S = 20
"""Much shorter than ``request_timeout_ms``."""


def by_assignment(consumer: Consumer[Any, Any]) -> None:
    consumer.assign([E0, E1, E2])


def by_topic(consumer: Consumer[Any, Any]) -> None:
    consumer.subscribe(["events"])


def by_pattern(consumer: Consumer[Any, Any]) -> None:
    consumer.subscribe(pattern="ev.*")


SELECTIONS = [by_assignment, by_topic, by_pattern]


async def positions(consumer: Consumer[Any, Any]) -> list[int]:
    """Return positions that are known already; asking the brokers would take longer."""
    with anyio.fail_after(0):
        return [await consumer.position(tp) for tp in sorted(consumer.assignment())]


@pytest.mark.parametrize("select", SELECTIONS)
async def test_latest_counts_from_the_end_of_start(
    cluster: EmbeddedCluster, select: Callable[[Consumer[Any, Any]], None]
) -> None:
    cluster.faults.add("ListOffsets", delay_ms=100)
    await fill(cluster, values(3))
    consumer = consumer_of(cluster, **LATEST)
    select(consumer)
    async with consumer:
        await fill(cluster, values(3, 100))
        with anyio.fail_after(AT_ONCE_S):
            assert numbers(await take(consumer, 3)) == [100, 101, 102]


@pytest.mark.parametrize("select", SELECTIONS)
async def test_wait_ready_waits_for_what_was_chosen_later(
    cluster: EmbeddedCluster, select: Callable[[Consumer[Any, Any]], None]
) -> None:
    await fill(cluster, values(3))
    async with consumer_of(cluster, **LATEST) as consumer:
        select(consumer)
        await consumer.wait_ready()
        assert await positions(consumer) == [3, 0, 0]


async def test_committed_offsets_are_waited_for_too(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    cluster.faults.add("OffsetFetch", delay_ms=100)
    async with consumer_of(cluster, group_id="g", **LATEST) as consumer:
        await consumer.commit({E0: 2})
    consumer = consumer_of(cluster, group_id="g", **LATEST)
    consumer.assign([E0, E1])
    async with consumer:
        assert await positions(consumer) == [2, 0]


@again_if_late(500, 8_000)
async def test_without_waiting_it_returns_at_once(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()  # from the first attempt
    rule = cluster.faults.add("ListOffsets", delay_ms=60_000)
    consumer = consumer_of(cluster, "events", retry_backoff_ms=10, **IMPATIENT)
    with anyio.fail_after(AT_ONCE_S):
        await consumer.start(wait=False)
        with pytest.raises(RequestTimedOutError, match="positions of events-0"):
            await consumer.wait_ready(timeout_ms=timeout_ms)
        rule.remove()
        await consumer.wait_ready()
        assert await positions(consumer) == [0, 0, 0]
        await consumer.stop()


@pytest.mark.parametrize("group_id", [None, "g"])
async def test_with_nothing_to_read_it_returns_at_once(cluster: EmbeddedCluster, group_id: str | None) -> None:
    with anyio.fail_after(AT_ONCE_S):
        async with consumer_of(cluster, group_id=group_id) as consumer:
            await consumer.wait_ready()


async def test_a_paused_partition_gets_its_position(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", delay_ms=100)
    consumer = consumer_of(cluster, **LATEST)
    consumer.assign([E0])
    consumer.pause(E0)
    async with consumer:
        await fill(cluster, values(2))
        consumer.resume(E0)
        assert numbers(await take(consumer, 2)) == [0, 1]


@again_if_late(1_000, 8_000)
async def test_a_partition_without_a_leader_is_left_to_the_background(
    time_ms: int, cluster: EmbeddedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    if "alone" not in cluster.topic_names():  # since the first attempt
        cluster.create_topic("alone", partitions=3, replication_factor=1)
        await fill(cluster, values(2), topic="alone")
    for broker in cluster.broker_ids:
        if not cluster.is_running(broker):
            await cluster.start_broker(broker)
    gone = cluster.leader("alone", 1)
    await cluster.kill_broker(gone, failover_delay_ms=0)
    began = time.monotonic()
    async with consumer_of(cluster, "alone", **{**IMPATIENT, "request_timeout_ms": time_ms}) as consumer:
        assert time.monotonic() - began >= 0.4
        (warning,) = [record.getMessage() for record in caplog.records if record.name == "aiokafka_lead.consumer"]
        assert "positions of alone-1 (no known leader)" in warning
        with pytest.raises(RequestTimedOutError, match=r"positions of alone-1 \(no known leader\)"):
            await consumer.wait_ready(timeout_ms=500)
        assert numbers(await take(consumer, 2)) == [0, 1]
        await cluster.start_broker(gone)
        await consumer.wait_ready()


@pytest.mark.parametrize("topics", [["nowhere"], ["nowhere", "events"]])
async def test_a_topic_that_does_not_exist_is_not_waited_for(cluster: EmbeddedCluster, topics: list[str]) -> None:
    with anyio.fail_after(AT_ONCE_S):
        async with consumer_of(cluster, *topics, allow_auto_create_topics=False, **LATEST) as consumer:
            cluster.create_topic("nowhere")
            await fill(cluster, values(2), topic="nowhere")
            assert numbers(await take(consumer, 2)) == [0, 1]


async def test_a_partition_that_does_not_exist_is_not_waited_for(cluster: EmbeddedCluster) -> None:
    consumer = consumer_of(cluster)
    consumer.assign([E0, TopicPartition("events", 7), TopicPartition("nowhere", 0)])
    with anyio.fail_after(AT_ONCE_S):
        async with consumer:
            assert await consumer.position(E0) == 0


async def test_errors_that_reading_raises_are_left_to_it(cluster: EmbeddedCluster) -> None:
    consumer = consumer_of(cluster, auto_offset_reset="none")
    consumer.assign([E0])
    with anyio.fail_after(AT_ONCE_S):
        async with consumer:
            with pytest.raises(NoOffsetForPartitionError):
                await consumer.getone()
        cluster.faults.add("ListOffsets", error_code=TopicAuthorizationFailedError.code)
        async with consumer_of(cluster, "events") as consumer:
            with pytest.raises(TopicAuthorizationFailedError):
                await consumer.getone()


async def test_what_is_fatal_meanwhile_is_raised(cluster: EmbeddedCluster) -> None:
    """All connections are closed before it is raised."""
    cluster.faults.add("ListOffsets", delay_ms=60_000)
    consumer = consumer_of(cluster, "events")
    async with anyio.create_task_group() as tasks:

        async def start() -> None:
            with pytest.raises(SaslAuthenticationFailedError):
                await consumer.start()

        tasks.start_soon(start)
        await cluster.wait_for_requests("ListOffsets", count=3)
        consumer._client.fail(SaslAuthenticationFailedError("no more"))
    with pytest.raises(ClientClosedError):
        await consumer.getone()
    await no_connections(cluster)


async def test_a_cancelled_start_leaves_nothing_behind(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", delay_ms=60_000)
    consumer = consumer_of(cluster, "events")
    with anyio.fail_after(AT_ONCE_S), anyio.CancelScope() as scope:
        async with anyio.create_task_group() as tasks:

            async def cancel() -> None:
                await cluster.wait_for_requests("ListOffsets", count=3)
                scope.cancel()

            tasks.start_soon(cancel)
            await consumer.start()
    assert scope.cancelled_caught
    with pytest.raises(ClientClosedError):
        await consumer.getone()
    await no_connections(cluster)


async def test_a_stop_ends_a_start(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", delay_ms=60_000)
    consumer = consumer_of(cluster, "events")
    with anyio.fail_after(AT_ONCE_S):
        async with anyio.create_task_group() as tasks:

            async def start() -> None:
                with pytest.raises(ClientClosedError):
                    await consumer.start()

            tasks.start_soon(start)
            await cluster.wait_for_requests("ListOffsets", count=3)
            await consumer.stop()


async def test_unsubscribing_ends_a_wait(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("ListOffsets", delay_ms=60_000)
    with anyio.fail_after(AT_ONCE_S):
        async with consumer_of(cluster) as consumer, anyio.create_task_group() as tasks:
            consumer.assign([E0])
            tasks.start_soon(consumer.wait_ready)
            await cluster.wait_for_requests("ListOffsets")
            consumer.unsubscribe()


async def test_wait_ready_before_start_and_after_stop(cluster: EmbeddedCluster) -> None:
    consumer = consumer_of(cluster, "events")
    with pytest.raises(NotStartedError):
        await consumer.wait_ready()
    await consumer.start()
    await consumer.stop()
    with pytest.raises(ClientClosedError):
        await consumer.wait_ready()


async def test_records_can_be_read_while_another_task_starts(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(2))
    rule = cluster.faults.add("ListOffsets", topic="events", partition=1, error_code=LeaderNotAvailableError.code)
    consumer = consumer_of(cluster, "events")
    with anyio.fail_after(AT_ONCE_S):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.start)
            await cluster.wait_for_requests("Fetch")
            assert numbers(await take(consumer, 2)) == [0, 1]
            rule.remove()
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("events", b"5", partition=1)
        assert numbers(await take(consumer, 1)) == [5]
        await consumer.stop()


async def no_connections(cluster: EmbeddedCluster) -> None:
    """Wait until the brokers have seen every connection end."""
    with anyio.fail_after(AT_ONCE_S):
        while any(map(cluster.connection_count, cluster.broker_ids)):  # noqa: ASYNC110 (no event)
            await anyio.sleep(0.005)
