"""Static members at Apache Kafka that return with another subscription, without a rebalance by the group itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer

from .harness import KafkaCluster
from .support import in_thread, make_consumer

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]

_PARTITIONS = 2
_WITHIN_S = 90


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One event loop suffices: the embedded cluster's tests run on both."""
    return "asyncio"


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
async def test_a_static_member_that_comes_back_to_other_topics_gets_them(
    kafka: KafkaCluster, topic_name: TopicName, assignor: str
) -> None:
    """Although the coordinator gives it the old assignment (KAFKA-12759); both as the group's leader and otherwise."""
    first, second, third = topics = [topic_name() for _ in range(3)]
    for topic in topics:
        await in_thread(kafka.create_topic, topic, partitions=_PARTITIONS)

    def member(instance: str, *subscribed: str) -> Consumer[Any, Any]:
        consumer = make_consumer(
            kafka,
            group_id=f"{first}-group",
            group_instance_id=instance,
            partition_assignment_strategy=[assignor],
            heartbeat_interval_ms=200,
            enable_auto_commit=False,
        )
        consumer.subscribe(subscribed)
        return consumer

    async def are_read(of: Consumer[Any, Any], by: Consumer[Any, Any], *expected: str) -> None:
        """Wait until the one has partitions of these topics, while both read."""
        with anyio.fail_after(_WITHIN_S):
            while not {tp.topic for tp in of.assignment()} >= set(expected):
                for consumer in (of, by):
                    await consumer.getmany(timeout_ms=50)

    async with member("leader", first) as leader:
        async with member("other", first) as other:
            await are_read(other, leader, first)
        async with member("other", second) as other:
            await are_read(other, leader, second)
        async with member("other", first, second, third) as other:
            await are_read(other, leader, second, third)
            await leader.stop()
            async with member("leader", third) as back:
                await are_read(back, other, third)
                await are_read(other, back, first, second)
