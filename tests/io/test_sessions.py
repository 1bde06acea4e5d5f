"""Sessions that end (KIP-368): records go on over a connection that was made in time."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer
from aiokafka_lead._wire import ApiKey
from aiokafka_lead.oidc import Token
from aiokafka_lead.testing import EmbeddedCluster

pytestmark = pytest.mark.anyio

USERS = {"alice": "secret"}
PLAIN: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "secret",
}

SESSION_MS = 1200
BUSY_SESSION_MS = 4000
"""Long enough for a busy machine to log in before its end."""


def connections_with(cluster: EmbeddedCluster, api: int) -> list[int]:
    """The connections that sent such requests, in the order of the first of each."""
    return list(dict.fromkeys(r.connection for r in cluster.requests if r.api_key == api))


async def send_until(producer: Producer, cluster: EmbeddedCluster, connections: int) -> int:
    """Send records one by one until so many connections have carried some; how many there were."""
    count = 0
    with anyio.fail_after(30):
        while len(connections_with(cluster, ApiKey.PRODUCE)) < connections:
            await producer.send_and_wait("t", b"%d" % count)
            count += 1
    return count


async def test_requests_do_not_wait_for_the_next_login() -> None:
    async with EmbeddedCluster(
        brokers=1, sasl_users=USERS, sasl_session_ms=BUSY_SESSION_MS, request_log_size=100_000
    ) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, **PLAIN, linger_ms=0) as producer:
            await producer.send_and_wait("t", b"first")
            count = 1
            next_login = cluster.faults.add("SaslAuthenticate", hold=True)
            while not next_login.struck:
                await producer.send_and_wait("t", b"%d" % count)
                count += 1
            await producer.send_and_wait("t", b"meanwhile")
            next_login.remove()
            count += 1 + await send_until(producer, cluster, 2)
        assert len(cluster.records("t")) == count
        requests = list(cluster.requests)
        carriers = connections_with(cluster, ApiKey.PRODUCE)
        before, after = carriers
        began = next(i for i, r in enumerate(requests) if r.connection == after)
        took_over = next(i for i, r in enumerate(requests) if r.connection == after and r.api_key == ApiKey.PRODUCE)
        assert [r for r in requests[began:took_over] if r.connection == before and r.api_key == ApiKey.PRODUCE]


async def test_records_stay_in_order_though_nothing_numbers_them() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=SESSION_MS) as cluster:
        cluster.create_topic("t")
        # Answers take a while: there are requests in flight whenever connections change.
        cluster.faults.add("Produce", delay_ms=3)
        async with Producer(
            cluster.bootstrap_servers, **PLAIN, linger_ms=0, batch_size=1, enable_idempotence=False
        ) as producer:
            sent = 0
            with anyio.fail_after(30):
                while len(connections_with(cluster, ApiKey.PRODUCE)) < 2:
                    deliveries = [await producer.send("t", b"%d" % number) for number in range(sent, sent + 20)]
                    sent += 20
                    for delivery in deliveries:
                        await delivery
        assert [record.value for record in cluster.records("t")] == [b"%d" % number for number in range(sent)]


async def test_a_group_keeps_its_member() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=BUSY_SESSION_MS) as cluster:
        cluster.create_topic("t")
        async with (
            Producer(cluster.bootstrap_servers, **PLAIN) as producer,
            Consumer(
                "t",
                bootstrap_servers=cluster.bootstrap_servers,
                **PLAIN,
                group_id="g",
                auto_offset_reset="earliest",
                heartbeat_interval_ms=50,
            ) as consumer,
        ):
            await producer.send_and_wait("t", b"v")
            await consumer.getone()
            with anyio.fail_after(30):
                while len(connections_with(cluster, ApiKey.HEARTBEAT)) < 2:
                    await producer.send_and_wait("t", b"v")
                    await consumer.getone()
                    await consumer.commit()
        assert len([r for r in cluster.requests if r.api_key == ApiKey.JOIN_GROUP]) <= 2


async def test_a_login_that_fails_is_tried_again_while_the_session_lasts() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=2500) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, **PLAIN, retries=0, enable_idempotence=False) as producer:
            await producer.send_and_wait("t", b"first")
            refused = cluster.faults.add("SaslAuthenticate", disconnect=True, count=2)
            count = await send_until(producer, cluster, 2)
            assert refused.struck == 2
        assert len(cluster.records("t")) == count + 1


async def test_another_principal_is_no_error() -> None:
    principals: list[str] = []

    def validate(token: str, extensions: Any) -> tuple[str, float]:
        principals.append(token)
        return token, time.time() + SESSION_MS / 1000

    calls = 0

    def provider() -> Token:
        nonlocal calls
        calls += 1
        return Token(f"user{calls}", time.time() + SESSION_MS / 1000)

    async with EmbeddedCluster(brokers=1, oauth_validator=validate) as cluster:
        cluster.create_topic("t")
        async with Producer(
            cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=provider,
            retries=0,
            enable_idempotence=False,
        ) as producer:
            count = await send_until(producer, cluster, 3)
        assert len(cluster.records("t")) == count
    assert len(set(principals)) >= 3


async def test_an_idle_connection_is_closed_in_spite_of_its_sessions() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=SESSION_MS) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, **PLAIN, connections_max_idle_ms=1500) as producer:
            await producer.send_and_wait("t", b"v")
            with anyio.fail_after(30):
                while cluster.connection_count(1):  # noqa: ASYNC110 (nobody tells)
                    await anyio.sleep(0.05)
