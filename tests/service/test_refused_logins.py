"""A broker that has just started may refuse logins until it has loaded its users."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, TopicPartition
from aiokafka_lead.errors import (
    DeliveryTimeoutError,
    SaslAuthenticationFailedError,
)
from aiokafka_lead.testing import EmbeddedCluster, Fault

from ..patience import again_if_late, started
from ..share.support import take

pytestmark = pytest.mark.anyio

SASL: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "top-secret",
    "reconnect_backoff_ms": 10,
    "reconnect_backoff_max_ms": 50,
    "retry_backoff_ms": 20,
}
MANY = 10_000


@pytest.fixture(name="cluster")
async def two_brokers() -> AsyncIterator[EmbeddedCluster]:
    async with EmbeddedCluster(brokers=2, sasl_users={"alice": "top-secret"}) as cluster:
        cluster.create_topic("events", assignments=[[1], [2]], partitions=2)
        cluster.move_coordinator("g", to=2)
        yield cluster


async def restart(cluster: EmbeddedCluster, refusals: int = 3) -> Fault:
    """Restart broker 2, which refuses the first logins without giving a reason."""
    await cluster.stop_broker(2)
    fault = cluster.faults.add("SaslAuthenticate", broker=2, error_code=SaslAuthenticationFailedError, count=refusals)
    await cluster.start_broker(2)
    return fault


@asynccontextmanager
async def producing(cluster: EmbeddedCluster, *, shared: bool = False, **options: Any) -> AsyncIterator[Producer]:
    options = {"linger_ms": 0, **options}
    if not shared:
        async with Producer(cluster.bootstrap_servers, **SASL, **options) as producer:
            yield producer
    else:
        async with (
            started(Client(cluster.bootstrap_servers, **SASL, request_timeout_ms=500)) as client,
            client.producer(**options) as producer,
        ):
            yield producer


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "OAUTHBEARER"])
async def test_records_are_kept_whatever_the_mechanism(mechanism: str) -> None:
    login = dict(SASL, sasl_mechanism=mechanism)
    if mechanism == "OAUTHBEARER":
        login = {name: value for name, value in login.items() if not name.startswith("sasl_plain")}
        login["sasl_oauth_token_provider"] = lambda: "top-secret"
    options: dict[str, Any] = (
        {"sasl_users": {"alice": "top-secret"}}
        if mechanism != "OAUTHBEARER"
        else {"oauth_validator": lambda token, extensions: "alice"}
    )
    async with EmbeddedCluster(brokers=2, **options) as cluster:
        cluster.create_topic("events", assignments=[[2]])
        async with Producer(cluster.bootstrap_servers, linger_ms=0, **login) as producer:
            await producer.send_and_wait("events", b"before")
            fault = await restart(cluster)
            with anyio.fail_after(30):
                assert (await producer.send_and_wait("events", b"after")).offset == 1
            assert fault.struck == 3


@pytest.mark.parametrize("shared", [False, True])
async def test_records_are_kept(cluster: EmbeddedCluster, shared: bool) -> None:
    async with producing(cluster, shared=shared) as producer:
        await producer.send_and_wait("events", b"before", partition=0)  # broker 2 has no connection yet
        fault = await restart(cluster)
        with anyio.fail_after(30):
            deliveries = [await producer.send("events", b"%d" % number, partition=1) for number in range(20)]
            assert [(await delivery).offset for delivery in deliveries] == list(range(20))
        assert fault.struck == 3


async def test_records_are_kept_beyond_the_request_timeout(cluster: EmbeddedCluster) -> None:
    async with producing(cluster, shared=True) as producer:
        await producer.send_and_wait("events", b"before", partition=1)
        fault = await restart(cluster, MANY)
        delivery = await producer.send("events", b"late", partition=1)
        began = anyio.current_time()
        with anyio.fail_after(30):
            while fault.struck < 5 or anyio.current_time() - began < 1:
                await cluster.wait_for_requests(
                    "SaslAuthenticate", count=cluster.requests.count("SaslAuthenticate") + 1
                )
            fault.remove()
            assert (await delivery).offset == 1


@again_if_late(1_000, 8_000)
async def test_records_are_given_up_when_their_time_is_over(time_ms: int, cluster: EmbeddedCluster) -> None:
    cluster.faults.clear()  # from the first attempt
    options: dict[str, Any] = {"delivery_timeout_ms": time_ms, "request_timeout_ms": time_ms / 2}
    async with producing(cluster, **options) as producer:
        await producer.send_and_wait("events", b"before", partition=1)
        await restart(cluster, MANY)
        with anyio.fail_after(30), pytest.raises(DeliveryTimeoutError, match="refused the login with PLAIN") as caught:
            await producer.send_and_wait("events", b"v", partition=1)
        assert "top-secret" not in str(caught.value)


async def test_a_login_that_never_worked_fails_at_once(cluster: EmbeddedCluster) -> None:
    wrong = {**SASL, "sasl_plain_password": "guessed"}
    for client in (Producer(cluster.bootstrap_servers, **wrong), AdminClient(cluster.bootstrap_servers, **wrong)):
        with anyio.fail_after(10), pytest.raises(SaslAuthenticationFailedError):
            await client.start()


async def test_transactions_go_on(cluster: EmbeddedCluster) -> None:
    cluster.transactions.move_coordinator("t", to=2)
    async with producing(cluster, transactional_id="t") as producer:
        with anyio.fail_after(30):
            async with producer.transaction():
                await producer.send_and_wait("events", b"0", partition=0)
            async with producer.transaction():
                await producer.send_and_wait("events", b"1", partition=0)
                fault = await restart(cluster)
                await producer.send_and_wait("events", b"2", partition=1)
            async with producer.transaction():
                await producer.send("events", b"3", partition=1)
        assert fault.struck == 3


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_of_a_group_read_and_commit(cluster: EmbeddedCluster, protocol: str) -> None:
    options: dict[str, Any] = {"group_id": "g", "group_protocol": protocol, "auto_offset_reset": "earliest"}
    async with (
        producing(cluster) as producer,
        Consumer("events", bootstrap_servers=cluster.bootstrap_servers, **SASL, **options) as consumer,
    ):
        for partition in (0, 1):
            await producer.send_and_wait("events", b"before", partition=partition)
        with anyio.fail_after(30):
            assert {(await consumer.getone()).partition for _ in range(2)} == {0, 1}
            fault = await restart(cluster, 6)
            for partition in (0, 1):
                await producer.send_and_wait("events", b"after", partition=partition)
            assert {(await consumer.getone()).partition for _ in range(2)} == {0, 1}
            await consumer.commit()
            stored = await consumer.committed(TopicPartition("events", 1))
        assert stored is not None
        assert stored.offset == 2
        assert fault.struck == 6


async def test_a_coordinator_that_refuses_the_login_is_looked_up_again(cluster: EmbeddedCluster) -> None:
    async with AdminClient(cluster.bootstrap_servers, **SASL) as admin:
        assert await admin.list_consumer_group_offsets("g") == {}
        await restart(cluster, MANY)
        cluster.move_coordinator("g", to=1)
        with anyio.fail_after(30):
            assert await admin.list_consumer_group_offsets("g") == {}


async def test_a_reader_hears_of_a_refusal_that_lasts(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"request_timeout_ms": 1000, "fetch_max_wait_ms": 100, "auto_offset_reset": "earliest"}
    async with started(Consumer(bootstrap_servers=cluster.bootstrap_servers, **SASL, **options)) as consumer:
        consumer.assign([TopicPartition("events", 1)])
        assert await consumer.getmany(timeout_ms=300) == {}
        await restart(cluster, MANY)
        began = anyio.current_time()
        with anyio.fail_after(30), pytest.raises(SaslAuthenticationFailedError, match="refused the login"):
            await consumer.getone()
        assert anyio.current_time() - began > 0.9


async def test_an_admin_client_waits_for_as_long_as_its_calls_may_take(cluster: EmbeddedCluster) -> None:
    options: dict[str, Any] = {"request_timeout_ms": 500, "retry_backoff_max_ms": 50}
    async with started(AdminClient(cluster.bootstrap_servers, **SASL, **options)) as admin:
        fault = await restart(cluster, 20)
        with anyio.fail_after(30):
            assert await admin.list_consumer_group_offsets("g") == {}
        assert fault.struck == 20
        await restart(cluster, MANY)
        with anyio.fail_after(30), pytest.raises(Exception, match="refused the login"):
            await admin.list_consumer_group_offsets("g", timeout_ms=1500)


async def test_a_share_consumer_goes_on(cluster: EmbeddedCluster) -> None:
    cluster.shares.configure("workers", {"share.auto.offset.reset": "earliest"})
    async with (
        producing(cluster) as producer,
        ShareConsumer("events", bootstrap_servers=cluster.bootstrap_servers, group_id="workers", **SASL) as jobs,
    ):
        await producer.send_and_wait("events", b"before", partition=1)
        await take(jobs, 1)
        fault = await restart(cluster)
        await producer.send_and_wait("events", b"after", partition=1)
        assert [record.value for record in await take(jobs, 1)] in ([b"after"], [b"before"])
        assert fault.struck == 3
