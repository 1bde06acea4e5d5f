"""Subscriptions, start and stop."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer, TopicPartition
from aiokafka_lead.consumer import Consumer
from aiokafka_lead.errors import (
    ClientClosedError,
    ConfigError,
    ConfigTypeError,
    IllegalStateError,
    KafkaConnectionError,
    NotStartedError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late
from .support import E0, E1, E2, consumer_of, fill, numbers, take, values

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


async def test_new_partitions_are_read_from_their_beginning(cluster: EmbeddedCluster) -> None:
    """Even with "latest": records written before the consumer notices them must not be missed."""
    await fill(cluster, values(5))
    async with consumer_of(cluster, "events", auto_offset_reset="latest", metadata_max_age_ms=50) as consumer:
        assert await consumer.position(E0) == 5
        cluster.add_partitions("events", 4)
        await fill(cluster, values(3, 100), partition=3)
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 3)) == [100, 101, 102]
        assert TopicPartition("events", 3) in consumer.assignment()


async def test_a_topic_that_comes_later_is_read_from_its_beginning(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"auto_offset_reset": "latest", "allow_auto_create_topics": False}
    async with consumer_of(cluster, "later", **options) as consumer:
        assert await consumer.getmany(timeout_ms=50) == {}
        cluster.create_topic("later", partitions=1)
        await fill(cluster, values(2), topic="later")
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 2)) == [0, 1]


async def test_a_pattern_finds_topics_that_come_later(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("logs-a")
    async with consumer_of(cluster, metadata_max_age_ms=50) as consumer:
        consumer.subscribe(pattern="logs-.*")
        await fill(cluster, values(1), topic="logs-a")
        assert numbers(await take(consumer, 1)) == [0]
        cluster.create_topic("logs-b")
        await fill(cluster, values(1, 7), topic="logs-b")
        with anyio.fail_after(20):
            assert numbers(await take(consumer, 1)) == [7]
        assert consumer.subscription() == {"logs-a", "logs-b"}
        assert {tp.topic for tp in consumer.assignment()} == {"logs-a", "logs-b"}


async def test_a_subscription_can_be_replaced(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("other")
    await fill(cluster, values(3))
    await fill(cluster, values(3, 50), topic="other")
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        consumer.subscribe(["other"])
        assert numbers(await take(consumer, 3)) == [50, 51, 52]
        assert consumer.subscription() == {"other"}
        consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        with pytest.raises(IllegalStateError, match="subscribe"):
            await consumer.getone()
        consumer.assign([E0])
        assert numbers(await take(consumer, 3)) == [0, 1, 2]
        assert consumer.subscription() == frozenset()


@again_if_late(200, 4000)
async def test_a_topic_that_does_not_exist_is_an_error_after_a_while(timeout_ms: int, cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"default_api_timeout_ms": timeout_ms, "allow_auto_create_topics": False}
    async with consumer_of(cluster, "nowhere", **options) as consumer:
        for _ in range(2):
            with anyio.fail_after(20), pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
                await consumer.getone()


async def test_a_topic_that_is_refused_is_an_error_at_once(cluster: EmbeddedCluster) -> None:
    cluster.faults.add("Metadata", topic="events", error_code=TopicAuthorizationFailedError.code)
    async with consumer_of(cluster, "events") as consumer:
        with anyio.fail_after(20), pytest.raises(TopicAuthorizationFailedError, match="events"):
            async for _ in consumer:
                pass


def test_bad_subscriptions_are_named() -> None:
    consumer = Consumer("events", bootstrap_servers="localhost:9")
    with pytest.raises(ConfigTypeError, match="topics"):
        consumer.subscribe("events")
    with pytest.raises(ConfigTypeError, match="topics"):
        consumer.subscribe([1])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="either topics or a pattern"):
        consumer.subscribe()
    with pytest.raises(ConfigError, match="either topics or a pattern"):
        consumer.subscribe(["a"], pattern="b")
    with pytest.raises(ConfigError, match="pattern"):
        consumer.subscribe(pattern="(")
    with pytest.raises(ConfigError, match="auto_offset_reset"):
        Consumer("events", bootstrap_servers="localhost:9", auto_offset_reset="sometimes")
    with pytest.raises(ConfigError, match="listener"):
        Consumer(bootstrap_servers="localhost:9").subscribe(["a"], listener=object())
    with pytest.raises(ConfigError, match="partition_assignment_strategy"):
        Consumer(bootstrap_servers="localhost:9", group_id="g", partition_assignment_strategy=["best"])


async def test_use_before_start_and_after_stop(cluster: EmbeddedCluster) -> None:
    consumer = consumer_of(cluster, "events")
    with pytest.raises(NotStartedError):
        await consumer.getone()
    with pytest.raises(NotStartedError):
        async for _ in consumer:
            pass
    with pytest.raises(NotStartedError):
        await consumer.end_offsets([E0])
    await consumer.start()
    await consumer.stop()
    await consumer.stop()
    with pytest.raises(ClientClosedError):
        await consumer.getmany(timeout_ms=100)
    with pytest.raises(ClientClosedError):
        async for _ in consumer:
            pass
    with pytest.raises(ClientClosedError):
        consumer.batches()
    with pytest.raises(ClientClosedError):
        await consumer.start()


async def test_stop_ends_what_waits(cluster: EmbeddedCluster) -> None:
    ended: list[str] = []
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        async def iterate() -> None:
            async for _ in consumer:
                pass
            ended.append("iteration")

        tasks.start_soon(iterate)
        await cluster.wait_for_requests("Fetch", count=3)
        with anyio.fail_after(20):
            await consumer.stop()
    assert ended == ["iteration"]


@pytest.mark.parametrize(("kind", "expected"), [("batches", "end"), ("getone", "closed")])
async def test_stop_ends_other_waits(cluster: EmbeddedCluster, kind: str, expected: str) -> None:
    ended: list[str] = []
    async with consumer_of(cluster, "events") as consumer, anyio.create_task_group() as tasks:

        async def wait() -> None:
            try:
                if kind == "getone":
                    await consumer.getone()
                async for _ in consumer.batches():
                    pass
                ended.append("end")
            except ClientClosedError:
                ended.append("closed")

        tasks.start_soon(wait)
        await cluster.wait_for_requests("Fetch", count=3)
        await consumer.stop()
    assert ended == [expected]


async def test_stop_ends_with_every_broker_gone(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(3))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker)
        began = time.monotonic()
        await consumer.stop(timeout_ms=2000)
        assert time.monotonic() - began < 20


async def test_stop_ends_with_brokers_that_are_silent(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, "events") as consumer:
        await cluster.wait_for_requests("Fetch", count=3)
        cluster.faults.add(drop=True)
        began = time.monotonic()
        await consumer.stop(timeout_ms=1000)
        assert time.monotonic() - began < 20


async def test_buffered_records_do_not_need_the_brokers(cluster: EmbeddedCluster) -> None:
    await fill(cluster, values(50))
    async with consumer_of(cluster, "events") as consumer:
        await take(consumer, 1)
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker)
        assert numbers(await take(consumer, 49)) == list(range(1, 50))
        assert await consumer.getmany(timeout_ms=100) == {}


async def test_no_broker_at_all() -> None:
    consumer = Consumer("events", bootstrap_servers="127.0.0.1:9", request_timeout_ms=2000, fetch_max_wait_ms=100)
    with pytest.raises(KafkaConnectionError, match=r"127\.0\.0\.1:9"):
        await consumer.start()


async def test_a_cancelled_block_ends(cluster: EmbeddedCluster) -> None:
    with anyio.move_on_after(0.3) as scope:
        async with consumer_of(cluster, "events") as consumer:
            async for _ in consumer:
                pass
    assert scope.cancelled_caught


async def test_several_consumers_beside_a_producer(cluster: EmbeddedCluster) -> None:
    got: list[list[int]] = [[], []]

    async def read(index: int) -> None:
        async with consumer_of(cluster, "events") as consumer:
            got[index] = numbers(await take(consumer, 30))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, 0)
        tasks.start_soon(read, 1)
        async with Producer(cluster.bootstrap_servers) as producer:
            for number in range(30):
                await producer.send_and_wait("events", b"%d" % number, partition=number % 3)
    assert sorted(got[0]) == sorted(got[1]) == list(range(30))


async def test_the_assignment_without_a_group_is_everything(cluster: EmbeddedCluster) -> None:
    async with consumer_of(cluster, "events") as consumer:
        assert consumer.assignment() == {E0, E1, E2}
        assert repr(consumer) == "<Consumer client_id='aiokafka-lead' partitions=3>"
