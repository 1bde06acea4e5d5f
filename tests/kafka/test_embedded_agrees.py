"""The embedded cluster answers requests in the same way as Apache Kafka."""

from __future__ import annotations

import anyio
import pytest

from aiokafka_lead.testing import EmbeddedCluster

from . import (
    consumer_group_probes,
    coordinator_probes,
    pipeline_probes,
    probes,
    share_probes,
    topic_probes,
    transaction_probes,
)
from .harness import KafkaCluster

PROBES: list[probes.Probe] = [
    probes.refused_records,
    probes.idempotence,
    probes.points_of_a_log,
    probes.fetches,
    probes.metadata,
    probes.connections,
    topic_probes.topics,
    coordinator_probes.groups,
    coordinator_probes.static_members,
    consumer_group_probes.invalid_heartbeats,
    consumer_group_probes.consumer_groups,
    consumer_group_probes.server_assignors,
    consumer_group_probes.regular_expressions,
    consumer_group_probes.static_consumers,
    consumer_group_probes.moving_groups,
    *transaction_probes.PROBES,
    pipeline_probes.offsets_of_two,
    *share_probes.PROBES,
]


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: probe.__name__)
def test_answers(kafka: KafkaCluster, probe: probes.Probe) -> None:
    async def ask() -> tuple[probes.Answers, probes.Answers]:
        with anyio.fail_after(120):
            real = await probe(probes.World(kafka.bootstrap()))
            async with EmbeddedCluster(brokers=3) as cluster:
                return real, await probe(probes.World(cluster.bootstrap_servers))

    real, embedded = anyio.run(ask)
    assert embedded == real
