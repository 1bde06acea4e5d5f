"""Consumers that read from the end receive the records sent after their start, in each kind of group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from aiokafka_lead import Producer

from .harness import KafkaCluster
from .support import in_thread, make_consumer, make_producer, read

pytestmark = pytest.mark.anyio

TopicName = Callable[[], str]

PARTITIONS = 6
TRIES = 5


async def _send(producer: Producer, topic: str, number: int) -> set[tuple[int, bytes]]:
    value = b"%d" % number
    for partition in range(PARTITIONS):
        await producer.send_and_wait(topic, value, partition=partition)
    return {(partition, value) for partition in range(PARTITIONS)}


@pytest.mark.parametrize("options", [{}, {"group_protocol": "classic"}, {"group_protocol": "consumer"}], ids=str)
async def test_latest_counts_from_the_end_of_start(
    kafka: KafkaCluster, topic_name: TopicName, options: dict[str, Any]
) -> None:
    """Even in a group that had another member a moment ago."""
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=PARTITIONS)
    async with make_producer(kafka) as producer:
        for number in range(TRIES):
            if options:
                options = {**options, "group_id": topic, "enable_auto_commit": False}
            consumer = make_consumer(kafka, auto_offset_reset="latest", **options)
            consumer.subscribe([topic])
            async with consumer:
                sent = await _send(producer, topic, number)
                with anyio.fail_after(60):
                    got = await read(consumer, PARTITIONS)
            assert {(record.partition, record.value) for record in got} == sent
