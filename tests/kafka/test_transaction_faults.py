"""Transactions on a real Kafka: cancelled anywhere, and without markers; `long_faults.py` does more, for longer."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from aiokafka_lead import AdminClient, TopicPartition
from aiokafka_lead.testing import EmbeddedCluster

from ..suites import crossed
from .before_markers import answers
from .harness import KafkaCluster
from .probes import World
from .support import in_thread, make_producer
from .transaction_faults import PARTITIONS, Warnings, cancelled_at_random, check

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("release", "rounds"), crossed([("kafka", 6), ("kafka_old", 6), ("kafka", 15), ("kafka_old", 15)], first=2)
)
async def test_cancellations_at_random(
    request: pytest.FixtureRequest, release: str, rounds: int, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    with Warnings() as warnings:
        async with make_producer(kafka, transactional_id=topic) as producer:
            said = await cancelled_at_random(producer, topic, rounds, random.Random(1))
    assert warnings.texts == []
    await check(kafka, topic, said)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_is_answered_before_the_markers_are_written(kafka_that_waits: KafkaCluster) -> None:
    """Mostly the error of a busy coordinator, and never one that suggests a rival."""
    kafka = kafka_that_waits

    @asynccontextmanager
    async def frozen(broker: int) -> AsyncIterator[None]:
        """Move the transactions' coordinators off the broker, and freeze it while the block runs."""
        state = [TopicPartition("__transaction_state", number) for number in range(3)]
        leaders = {tp: await in_thread(kafka.leader, *tp) for tp in state}
        async with AdminClient(kafka.bootstrap()) as admin:
            await admin.alter_partition_reassignments({tp: [led] for tp, led in leaders.items() if led != broker})
            await in_thread(kafka.pause, broker)
            try:
                yield
            finally:
                await in_thread(kafka.resume, broker)
                replicas = {
                    tp: [led, *(other for other in kafka.broker_ids if other != led)] for tp, led in leaders.items()
                }
                await admin.alter_partition_reassignments(replicas)
                await in_thread(kafka.wait_in_sync, "__transaction_state")

    real = await answers(World(kafka.bootstrap()), frozen)
    assert set(real["V2, commit"].values()) == {"PrepareCommit, 1", "ConcurrentTransactionsError"}
    assert real["ours"] == ("ready", ["TransactionAbortedError"])
    async with EmbeddedCluster(brokers=3) as cluster:

        @asynccontextmanager
        async def held(broker: int) -> AsyncIterator[None]:
            cluster.transactions.marker_delay_ms = None
            yield
            cluster.transactions.marker_delay_ms = 0
            cluster.transactions.write_markers()

        assert await answers(World(cluster.bootstrap_servers), held) == real
