"""Helpers of the admin client's tests."""

from __future__ import annotations

from aiokafka_lead import Producer
from aiokafka_lead.admin import AdminClient
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.types import TopicPartition


def make_admin(cluster: EmbeddedCluster) -> AdminClient:
    return AdminClient(
        cluster.bootstrap_servers, retry_backoff_ms=10, default_api_timeout_ms=10_000, request_timeout_ms=5000
    )


async def write(cluster: EmbeddedCluster, where: TopicPartition, timestamps_ms: range) -> None:
    """Write a record at each of these times."""
    async with Producer(cluster.bootstrap_servers) as producer:
        values = [b"%d" % at for at in timestamps_ms]
        batch = await producer.send_many(
            where.topic, values, partition=where.partition, timestamps_ms=list(timestamps_ms)
        )
        await batch
