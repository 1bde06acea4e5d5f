"""Under any faults, acknowledged means written once, and in order within its partition. Drawn from seeds."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import anyio
import pytest

from aiokafka_lead.errors import (
    KafkaStorageError,
    NotEnoughReplicasAfterAppendError,
    NotLeaderOrFollowerError,
    RequestTimedOutError,
)
from aiokafka_lead.producer import Delivery, Producer
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import again_if_late

pytestmark = pytest.mark.anyio

SEEDS = range(int(os.environ.get("PRODUCER_FAULT_SEEDS", "4")))
PARTITIONS = 3


async def trouble(cluster: EmbeddedCluster, rng: Random) -> None:
    """Cause one fault."""
    match rng.randrange(9):
        case 0 | 1 | 2:
            cluster.move_leader("events", rng.randrange(PARTITIONS), gap_ms=rng.choice([0, 0, 10]))
        case 3:
            cluster.faults.add("Produce", disconnect=True, after=rng.random() < 0.5, count=1, skip=rng.randrange(3))
        case 4:
            error = rng.choice([KafkaStorageError, RequestTimedOutError, NotLeaderOrFollowerError])
            cluster.faults.add("Produce", error_code=error, count=rng.randrange(1, 4))
        case 5:
            cluster.faults.add("Produce", error_code=NotEnoughReplicasAfterAppendError, after=True, count=1)
        case 6:
            cluster.faults.add("Produce", delay_ms=rng.choice([5, 50]), after=rng.random() < 0.5, count=1)
        case 7:
            broker = rng.choice(cluster.broker_ids)
            await cluster.kill_broker(broker, failover_delay_ms=rng.choice([0, 30]))
            await anyio.sleep(0.05)
            await cluster.start_broker(broker)
        case 8:
            await cluster.change_address(rng.choice(cluster.broker_ids))


async def write(producer: Producer, partition: int, content: list[bytes], rng: Random, sent: list[Delivery]) -> None:
    for value in content:
        sent.append(await producer.send("events", value, partition=partition))
        if rng.random() < 0.3:
            await anyio.sleep(rng.choice([0, 0.001, 0.004]))


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("seed", SEEDS)
@again_if_late(1_000, 10_000)
async def test_acknowledged_once_and_in_order(
    request_timeout_ms: int, cluster: EmbeddedCluster, seed: int, compression: Any
) -> None:
    rng = Random(seed)
    width = 1 if compression == "none" else 100  # repeated, so that it takes long to compress
    content = [b"%d" % number * width for number in range(400)]
    if rng.random() < 0.3:
        cluster.max_versions = {"Produce": rng.choice([7, 9, 12])}
    sent: list[list[Delivery]] = [[] for _ in range(PARTITIONS)]
    async with Producer(
        cluster.bootstrap_servers,
        compression_type=compression,
        linger_ms=rng.choice([0, 1, 5]),
        batch_size=(size := rng.choice([100, 1000]) * width),
        batch_size_max=size * rng.choice([1, 4]),
        retry_backoff_ms=20,
        retry_backoff_max_ms=100,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=50,
        request_timeout_ms=request_timeout_ms,
        delivery_timeout_ms=60_000,
    ) as producer:
        async with anyio.create_task_group() as tasks:
            for partition in range(PARTITIONS):
                tasks.start_soon(write, producer, partition, content, Random(seed * 10 + partition), sent[partition])
            for _ in range(12):
                await anyio.sleep(rng.choice([0.01, 0.03, 0.06]))
                await trouble(cluster, rng)
        with anyio.fail_after(30):
            await producer.flush()
        metrics = producer.metrics()
    assert (metrics.records_acked, metrics.records_failed, metrics.buffer_used_bytes) == (400 * PARTITIONS, 0, 0)
    assert not cluster.protocol_errors
    for partition, deliveries in enumerate(sent):
        values = [record.value for record in cluster.records("events", partition)]
        assert values == content
        assert [delivery.result().offset for delivery in deliveries] == list(range(400))
