"""Records in progress while connections change: a share session belongs to a connection, and locks to a session."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead._wire import ApiKey
from aiokafka_lead.testing import EmbeddedCluster, GroupOptions

from ..patience import again_if_late
from .support import consumer, take

pytestmark = pytest.mark.anyio

PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "secret",
}
GROUPS = GroupOptions(share_record_lock_duration_ms=60_000, share_heartbeat_interval_ms=100)
SESSION_MS = 1500


@again_if_late(3000, 15_000)
async def test_locks_go_over_to_the_connection_of_the_next_session(session_ms: int) -> None:
    """KIP-368: the broker learns of the new connection before the former one ends, and releases no records.

    Fetches are held for longer than from the new connection's time to the former one's last request.
    """
    async with EmbeddedCluster(
        brokers=1, groups=GROUPS, sasl_users={"alice": "secret"}, sasl_session_ms=session_ms, request_log_size=100_000
    ) as cluster:
        cluster.create_topic("jobs")
        cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
        async with Producer(cluster.bootstrap_servers, **PLAIN) as producer:
            await producer.send_and_wait("jobs", b"0")
        options: dict[str, Any] = {"share_acknowledgement_mode": "explicit", "fetch_max_wait_ms": 500, **PLAIN}
        async with consumer(cluster.bootstrap_servers, **options) as jobs:
            (record,) = await take(jobs, 1)
            with anyio.fail_after(50):
                while len({one.connection for one in cluster.requests if one.api_key == ApiKey.SHARE_FETCH}) < 3:
                    assert await jobs.getmany(timeout_ms=50) == {}
            await jobs.acknowledge(record)
        async with AdminClient(cluster.bootstrap_servers, **PLAIN) as admin:
            ((_, offset),) = (await admin.list_share_group_offsets("workers")).items()
            assert offset is not None
            assert offset.lag == 0


async def test_sessions_move_though_fetches_may_be_held_for_long() -> None:
    """A fetch held beyond its session's end used to delay the next fetch until its connection had ended."""
    async with EmbeddedCluster(
        brokers=1, groups=GROUPS, sasl_users={"alice": "secret"}, sasl_session_ms=SESSION_MS, request_log_size=100_000
    ) as cluster:
        cluster.create_topic("jobs")
        cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
        async with consumer(cluster.bootstrap_servers, fetch_max_wait_ms=25_000, **PLAIN) as jobs:
            with anyio.fail_after(60):
                while len({one.connection for one in cluster.requests if one.api_key == ApiKey.SHARE_FETCH}) < 3:
                    assert await jobs.getmany(timeout_ms=50) == {}


async def test_a_connection_without_traffic_is_kept_while_records_are_in_hand() -> None:
    async with EmbeddedCluster(brokers=1, groups=GROUPS) as cluster:
        cluster.create_topic("jobs")
        cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
        async with Producer(cluster.bootstrap_servers) as producer:
            await producer.send_and_wait("jobs", b"0")
        async with (
            consumer(cluster.bootstrap_servers, connections_max_idle_ms=300) as jobs,
            AdminClient(cluster.bootstrap_servers) as admin,
        ):
            (record,) = await take(jobs, 1)
            with anyio.fail_after(30):
                while len([one for one in cluster.requests if one.api_key == ApiKey.SHARE_ACKNOWLEDGE]) < 5:
                    await admin.describe_cluster()
            await jobs.acknowledge(record)
            assert len({one.connection for one in cluster.requests if one.api_key == ApiKey.SHARE_FETCH}) == 1
