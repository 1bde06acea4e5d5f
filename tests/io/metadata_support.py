"""A client on an embedded cluster, and helpers that wait for changes of its metadata."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from aiokafka_lead._core.metadata.types import ClusterSnapshot, LeaderHint
from aiokafka_lead._io.client import Client
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import NotLeaderOrFollowerError
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import START_MS

NOT_LEADER = NotLeaderOrFollowerError.code


def make_client(bootstrap_servers: str, **options: Any) -> Client:
    """Return a client that has not been started, with short backoffs."""
    defaults = {"request_timeout_ms": 5000, "retry_backoff_ms": 20, "reconnect_backoff_ms": 20}
    return Client(ClientConfig.from_options(bootstrap_servers, {**defaults, **options}))


@asynccontextmanager
async def running(cluster: EmbeddedCluster | str, **options: Any) -> AsyncIterator[Client]:
    """Yield a started client, and stop it at the end."""
    client = make_client(cluster if isinstance(cluster, str) else cluster.bootstrap_servers, **options)
    await client.start(timeout_ms=START_MS)
    try:
        yield client
    finally:
        with anyio.CancelScope(shield=True):
            await client.stop()


async def until(client: Client, met: Callable[[ClusterSnapshot], bool], timeout_s: float = 30) -> ClusterSnapshot:
    """Return the first snapshot, from the present one on, that meets the condition."""
    with anyio.fail_after(timeout_s):
        snapshot = client.metadata.snapshot
        while not met(snapshot):
            snapshot = await client.metadata.wait_newer(snapshot.generation, timeout_s * 1000)
        return snapshot


def true_hint(cluster: EmbeddedCluster, topic: str, partition: int = 0) -> LeaderHint:
    """Return the hint that the former leader of a partition would give."""
    return LeaderHint(
        topic,
        cluster.topic_id(topic),
        partition,
        cluster.leader(topic, partition),
        cluster.leader_epoch(topic, partition),
        None,
        NOT_LEADER,
    )
