"""Producers that prefer their rack (KIP-1123)."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafka_lead import Producer
from aiokafka_lead.errors import ConfigError
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

RACKS = ["a", "b", "c"]
RECORD = b"x" * 1000


@pytest.mark.parametrize("aware", [False, True])
async def test_what_leaves_the_rack(aware: bool) -> None:
    async with EmbeddedCluster(brokers=3, racks=RACKS) as cluster:
        cluster.create_topic("t", partitions=9)
        options: dict[str, Any] = {
            "client_rack": "b",
            "partitioner_rack_aware": aware,
            "batch_size": 4_000,
            "linger_ms": 1,
        }
        async with Producer(cluster.bootstrap_servers, **options) as producer:
            for _ in range(40):
                await (await producer.send_many("t", [RECORD] * 10))
            metrics = producer.metrics()
            share = metrics.bytes_sent_in_rack / metrics.bytes_sent
            assert share == 1.0 if aware else 0.1 < share < 0.6
            if aware:  # no usable partition is left there
                await cluster.kill_broker(2, failover_delay_ms=0)
                await producer.send_and_wait("t", RECORD)
                in_rack = producer.metrics().bytes_sent_in_rack
                for _ in range(5):
                    await producer.send_and_wait("t", RECORD)
                assert producer.metrics().bytes_sent_in_rack == in_rack


async def test_awareness_needs_a_rack() -> None:
    with pytest.raises(ConfigError, match="needs client_rack"):
        Producer("localhost:1", partitioner_rack_aware=True)
