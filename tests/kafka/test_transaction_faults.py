"""Transactions on a real Kafka that are cancelled anywhere; `long_faults.py` does more to them, for longer."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from .harness import KafkaCluster
from .support import in_thread, make_producer
from .transaction_faults import PARTITIONS, Warnings, cancelled_at_random, check

pytestmark = pytest.mark.anyio

ROUNDS = 15


@pytest.mark.parametrize("release", ["kafka", "kafka_old"])
async def test_cancellations_at_random(
    request: pytest.FixtureRequest, release: str, topic_name: Callable[[], str]
) -> None:
    kafka: KafkaCluster = request.getfixturevalue(release)
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    with Warnings() as warnings:
        async with make_producer(kafka, transactional_id=topic) as producer:
            said = await cancelled_at_random(producer, topic, ROUNDS, random.Random(1))
    assert warnings.texts == []
    await check(kafka, topic, said)
