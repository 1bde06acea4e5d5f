"""Brokers die, freeze and lose their leaderships while records flow: each arrives once, in order."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from aiokafka_lead import TopicPartition
from aiokafka_lead.errors import KafkaConnectionError, KafkaError

from ..suites import ALL
from .flow import FLOW_PARTITIONS, Flow, while_records_flow
from .harness import KafkaCluster
from .support import in_thread, make_consumer, make_producer, read

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

TopicName = Callable[[], str]


async def test_a_leader_is_killed_and_comes_back(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        leader = await in_thread(kafka.leader, topic)
        kafka.kill(leader)
        await flow.progress(200)
        await in_thread(kafka.start_broker, leader)
        await in_thread(kafka.wait_in_sync, topic)

    await while_records_flow(kafka, topic, trouble)


@ALL  # as does each broker in test_leadership.py
async def test_a_leader_shuts_down_in_order(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        leader = await in_thread(kafka.leader, topic)
        await in_thread(kafka.terminate, leader)
        await flow.progress(200)
        await in_thread(kafka.start_broker, leader)
        await in_thread(kafka.wait_in_sync, topic)

    await while_records_flow(kafka, topic, trouble)


async def test_a_leader_freezes_with_its_connections_open(kafka: KafkaCluster, topic_name: TopicName) -> None:
    """The frozen broker neither answers nor closes connections; after waking, it still considers itself the leader."""
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        leader = await in_thread(kafka.leader, topic)
        kafka.pause(leader)
        try:
            await flow.progress(200)
        finally:
            kafka.resume(leader)
        await in_thread(kafka.wait_in_sync, topic)

    await while_records_flow(kafka, topic, trouble, request_timeout_ms=2000)


async def test_leaders_move_by_election(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        for _ in range(2):
            await in_thread(kafka.move_leaders, topic, range(FLOW_PARTITIONS))
            await flow.progress(100)

    flow = await while_records_flow(kafka, topic, trouble, request_timeout_ms=90_000)
    assert flow.slowest_s < 60  # no request ran into its timeout


@pytest.mark.parametrize("any_kafka", ["kafka_old"], indirect=True)
async def test_leaders_move_on_a_release_without_hints(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = topic_name()

    async def trouble(flow: Flow) -> None:
        await in_thread(any_kafka.move_leaders, topic, range(FLOW_PARTITIONS))
        await flow.progress(100)

    await while_records_flow(any_kafka, topic, trouble)


async def test_a_topic_is_deleted_and_made_anew_under_both_clients(kafka: KafkaCluster, topic_name: TopicName) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=1)
    tp = TopicPartition(topic, 0)
    only_here = {"allow_auto_create_topics": False}  # else a client that asks in between makes it, and the test cannot
    async with make_producer(kafka, **only_here) as producer, make_consumer(kafka, **only_here) as consumer:
        consumer.assign([tp])
        for i in range(10):
            await producer.send_and_wait(topic, b"first %d" % i)
        assert [r.value for r in await read(consumer, 10)] == [b"first %d" % i for i in range(10)]
        await in_thread(kafka.delete_topic, topic)
        await in_thread(kafka.create_topic, topic, partitions=1)
        metas = [await producer.send_and_wait(topic, b"second %d" % i) for i in range(5)]
        assert [meta.offset for meta in metas] == list(range(5))
        assert [r.value for r in await read(consumer, 5)] == [b"second %d" % i for i in range(5)]


@pytest.mark.parametrize("any_kafka", ["kafka_old"], indirect=True)
async def test_every_stop_is_in_time_with_all_brokers_gone(any_kafka: KafkaCluster, topic_name: TopicName) -> None:
    kafka = any_kafka
    topic = await in_thread(kafka.create_topic, topic_name())
    producer, consumer = make_producer(kafka), make_consumer(kafka)
    await producer.start()
    await consumer.start()
    consumer.assign([TopicPartition(topic, 0)])
    await producer.send_and_wait(topic, b"arrives")
    await read(consumer, 1)
    for broker in kafka.broker_ids:
        kafka.kill(broker)
    try:
        delivery = await producer.send(topic, b"does not")
        with anyio.fail_after(60):
            await producer.stop(timeout_ms=1000)
            await consumer.stop(timeout_ms=1000)
        with pytest.raises(KafkaError):
            await delivery
        with anyio.fail_after(60), pytest.raises(KafkaConnectionError, match="refused"):
            async with make_producer(kafka, request_timeout_ms=2000):
                pass
    finally:
        for broker in kafka.broker_ids:
            await in_thread(kafka.start_broker, broker)
