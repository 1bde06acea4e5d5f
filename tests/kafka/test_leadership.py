"""Leaders, brokers and whole clusters move: KIP-951, KIP-899 and KIP-1102 at real brokers on real ports.

A killed leader under load is in ``test_failures``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer, TopicPartition
from aiokafka_lead.admin import NewTopic
from aiokafka_lead.errors import ClusterIdMismatchError
from aiokafka_lead.testing import EmbeddedCluster

from .flow import FLOW_PARTITIONS, Flow, while_records_flow
from .harness import KafkaCluster
from .support import in_thread, make_consumer, make_producer, on_asyncio, on_trio, partitions_of, read

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

TopicName = Callable[[], str]

PATIENT: dict[str, Any] = {"retry_backoff_ms": 2000, "retry_backoff_max_ms": 2000}
"""Longer than any refresh of metadata takes."""


async def follow(consumer: Consumer, counts: list[int]) -> None:
    """Read until cancelled, and count."""
    async for _ in consumer:
        counts[0] += 1


async def test_elections_are_followed_by_hints(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-951: producer and consumer continue without waiting out the backoff."""
    topic = topic_name()
    counts = [0]
    async with make_consumer(kafka, **PATIENT) as consumer, anyio.create_task_group() as reading:

        async def trouble(flow: Flow) -> None:
            consumer.assign(partitions_of(topic, FLOW_PARTITIONS))
            reading.start_soon(follow, consumer, counts)
            while counts[0] < 100:  # noqa: ASYNC110 - reading has no event
                await anyio.sleep(0.01)
            await in_thread(kafka.move_leaders, topic, range(FLOW_PARTITIONS))
            await flow.progress(100)
            metrics = flow.producer.metrics()
            assert metrics.metadata.hints_accepted >= 1
            assert metrics.free_retries >= 1
            assert metrics.leader_moves >= 1

        flow = await while_records_flow(kafka, topic, trouble, **PATIENT)
        with anyio.fail_after(60):
            while counts[0] < flow.sent * FLOW_PARTITIONS:  # noqa: ASYNC110 - reading has no event
                await anyio.sleep(0.01)
        metrics = consumer.metrics()
        assert metrics.metadata.hints_accepted >= 1
        assert metrics.free_retries >= 1
        reading.cancel_scope.cancel()


async def test_partitions_are_given_to_other_brokers(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-455: each partition leaves its leader's broker, with its log."""
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        async with AdminClient(kafka.bootstrap()) as admin:
            for shift in (1, 2):
                targets = {
                    TopicPartition(topic, number): [1 + (number + shift) % 3, 1 + (number + shift + 1) % 3]
                    for number in range(FLOW_PARTITIONS)
                }
                await admin.alter_partition_reassignments(targets)
                with anyio.fail_after(60):
                    while await admin.list_partition_reassignments(targets):  # noqa: ASYNC110 - nor has this
                        await anyio.sleep(0.05)
                await flow.progress(100)

    await while_records_flow(kafka, topic, trouble)


@on_asyncio
async def test_brokers_are_restarted_one_after_the_other(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        for broker in kafka.broker_ids:
            await in_thread(kafka.terminate, broker)
            await flow.progress(100)
            await in_thread(kafka.start_broker, broker)
            await in_thread(kafka.wait_in_sync, topic)

    await while_records_flow(kafka, topic, trouble)


# --- the bootstrap swap ----------------------------------------------------------------------------------------------


@pytest.fixture
def some_brokers(kafka: KafkaCluster) -> Iterator[KafkaCluster]:
    """The cluster, for tests that leave only some of its brokers running; all run afterwards."""
    yield kafka
    kafka.start_missing()


async def only_broker_1(kafka: KafkaCluster, topics: Mapping[str, Mapping[int, Sequence[int]]]) -> None:
    """Stop the other brokers. The topics' replicas are given by partition."""
    async with AdminClient(kafka.bootstrap()) as admin:
        await admin.create_topics([NewTopic(name, replica_assignments=replicas) for name, replicas in topics.items()])
    for broker in (2, 3):
        kafka.kill(broker)
    await in_thread(kafka.wait_for_brokers)


@asynccontextmanager
async def clients_of(
    kafka: KafkaCluster, topic: str, partitions: int, **options: Any
) -> AsyncIterator[tuple[Producer, Consumer]]:
    """Yield a producer and a consumer with brokers 1 and 2 as bootstrap servers, which know broker 1."""
    servers = f"{kafka.address(1)},{kafka.address(2)}"
    async with (
        make_producer(kafka, bootstrap_servers=servers, **options) as producer,
        make_consumer(kafka, bootstrap_servers=servers, **options) as consumer,
    ):
        consumer.assign(partitions_of(topic, partitions))
        await producer.send_and_wait(topic, b"before", partition=0)
        assert {record.value for record in await read(consumer, 1)} == {b"before"}
        yield producer, consumer


@on_asyncio
async def test_the_bootstrap_swap(some_brokers: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-899: broker 1 stops and 2 starts. With default options both clients recover; with "none" they do not."""
    kafka, topic = some_brokers, topic_name()
    await only_broker_1(kafka, {topic: {0: [1], 1: [2]}})
    async with (
        clients_of(kafka, topic, 2, metadata_recovery_strategy="none") as (stuck_producer, stuck_consumer),
        clients_of(kafka, topic, 2) as (producer, consumer),
    ):
        kafka.kill(1)
        stuck = await stuck_producer.send(topic, b"never", partition=1)
        delivery = await producer.send(topic, b"after", partition=1)
        await in_thread(kafka.start_broker, 2)
        with anyio.fail_after(60):
            await delivery
            values: list[bytes | None] = []
            while b"after" not in values:  # the other producer's first record may come before it
                values += [record.value for record in await read(consumer, 1)]
        for client in (producer, consumer):
            assert client.metrics().metadata.rebootstraps_unavailable >= 1

        for unavailable in (stuck_producer, stuck_consumer):
            failures = unavailable.metrics().metadata.refresh_failures
            with anyio.fail_after(60):
                while unavailable.metrics().metadata.refresh_failures < failures + 3:  # noqa: ASYNC110
                    await anyio.sleep(0.01)
            assert unavailable.metrics().metadata.rebootstraps_unavailable == 0
        assert not stuck.done()
        await stuck_producer.stop(timeout_ms=0)


@on_trio
async def test_brokers_that_are_connected_and_silent(some_brokers: KafkaCluster, topic_name: TopicName) -> None:
    """KIP-1102: the only known broker stops answering, so the client asks the bootstrap servers after a timeout."""
    kafka, near, far = some_brokers, topic_name(), topic_name()
    options = {"metadata_recovery_rebootstrap_trigger_ms": 1500, "request_timeout_ms": 5000}
    await only_broker_1(kafka, {near: {0: [1]}, far: {0: [2]}})
    async with clients_of(kafka, near, 1, **options) as (producer, consumer):
        await in_thread(kafka.start_broker, 2)  # no client is looking for it
        kafka.pause(1)
        try:
            consumer.assign(partitions_of(far, 1))
            with anyio.fail_after(60):
                await producer.send_and_wait(far, b"after", partition=0)
                assert [record.value for record in await read(consumer, 1)] == [b"after"]
            for client in (producer, consumer):
                metrics = client.metrics().metadata
                # A request without an answer ends its connection: then no broker is reachable, which counts as the
                # cause.
                assert metrics.rebootstraps_timed_out + metrics.rebootstraps_unavailable >= 1
        finally:
            kafka.resume(1)


@on_trio
async def test_another_cluster_at_the_same_address(some_brokers: KafkaCluster, topic_name: TopicName) -> None:
    """Rule 30: it receives no record, and the error names both clusters."""
    kafka, topic = some_brokers, topic_name()
    await only_broker_1(kafka, {topic: {0: [1], 1: [2]}})
    async with clients_of(kafka, topic, 2) as (producer, consumer):
        kafka.kill(1)
        delivery = await producer.send(topic, b"for the first", partition=0)
        port = int(kafka.address(1).rpartition(":")[2])
        async with EmbeddedCluster(brokers=1, ports=[port], cluster_id="another") as other:
            other.create_topic(topic, partitions=2)
            with anyio.fail_after(60):
                with pytest.raises(ClusterIdMismatchError, match="another"):
                    await delivery
                with pytest.raises(ClusterIdMismatchError, match="another"):
                    await read(consumer, 1)
            assert other.end_offset(topic, 0) == 0
