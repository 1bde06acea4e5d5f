"""Helpers of the admin client's tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiokafka_lead import Producer
from aiokafka_lead.admin import AdminClient
from aiokafka_lead.testing import EmbeddedCluster, RequestRecord
from aiokafka_lead.types import TopicPartition
from tests.hostile.answers import changed


def make_admin(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient(
        cluster.bootstrap_servers, retry_backoff_ms=10, default_api_timeout_ms=10_000, request_timeout_ms=5000
    )


def change_answers(cluster: EmbeddedCluster, api: str, change: Callable[[Any], None]) -> None:
    """Let brokers send changed responses to requests of this kind."""
    asked: list[RequestRecord] = []

    def concerns(record: RequestRecord) -> bool:
        asked[:] = [record]
        return True

    cluster.faults.add(api, when=concerns, after=True, garbage=lambda answer: changed(asked[0], answer, change))


async def write(cluster: EmbeddedCluster, where: TopicPartition, timestamps_ms: range) -> None:
    """Write a record at each of these times."""
    async with Producer(cluster.bootstrap_servers) as producer:
        values = [b"%d" % at for at in timestamps_ms]
        batch = await producer.send_many(
            where.topic, values, partition=where.partition, timestamps_ms=list(timestamps_ms)
        )
        await batch
