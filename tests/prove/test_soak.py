"""A short run of the soak, and its verdict."""

from __future__ import annotations

import anyio
import pytest

from aiokafka_lead.testing import EmbeddedCluster

from .soak import PARTITIONS, TOPICS, Sample, Soak


@pytest.mark.anyio
async def test_all_clients_work() -> None:
    async with EmbeddedCluster(3) as cluster:
        for topic in TOPICS:
            cluster.create_topic(topic, partitions=PARTITIONS, replication_factor=3)
        soak = Soak(cluster.bootstrap_servers, 10)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(soak.run)
            expected = {"sent", "cancelled", "committed", "shared", "handled", "read by classic", "read by consumer"}
            with anyio.fail_after(60):
                while not all(map(soak.done.__getitem__, expected)):  # noqa: ASYNC110 - counters have no event
                    await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()
    assert not soak.failed


def test_growth_is_named() -> None:
    soak = Soak("localhost:9092", 120)
    steady = [Sample(minute, 60.0 + minute % 3, 80_000 + minute % 100, 300, 80, 1) for minute in range(120)]
    soak.samples = steady
    assert soak.grown() == []
    soak.samples = [sample._replace(memory_mib=60 + sample.minutes / 10) for sample in steady]
    assert soak.grown() == ["memory_mib"]
    soak.samples = [sample._replace(tasks=300 + int(sample.minutes), files=80) for sample in steady]
    assert soak.grown() == ["tasks"]
