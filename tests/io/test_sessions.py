"""Sessions that end (KIP-368): records continue over a connection that was opened in time."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import anyio
import pytest

from aiokafka_lead import Consumer, Producer
from aiokafka_lead._core.connection.session import Session
from aiokafka_lead._io.connection.connection import Connection
from aiokafka_lead._io.connection.renewal import Renewal
from aiokafka_lead._io.connection.settings import ConnectionSettings
from aiokafka_lead._options.logs import client_log
from aiokafka_lead._wire import ApiKey, ApiVersions
from aiokafka_lead.errors import KafkaError
from aiokafka_lead.oidc import Token
from aiokafka_lead.testing import EmbeddedCluster

from ..patience import Lateness, again_if_late

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
    """Return the connections that sent such requests, in the order of their first request."""
    return list(dict.fromkeys(r.connection for r in cluster.requests if r.api_key == api))


async def send_until(producer: Producer, cluster: EmbeddedCluster, connections: int) -> int:
    """Send records one by one until that number of connections has carried some; return the number of records."""
    count = 0
    with anyio.fail_after(50):
        while len(connections_with(cluster, ApiKey.PRODUCE)) < connections:
            await producer.send_and_wait("t", b"%d" % count)
            count += 1
    return count


@again_if_late(BUSY_SESSION_MS, 15_000)
async def test_requests_do_not_wait_for_the_next_login(session_ms: int) -> None:
    held_s = session_ms / 2000  # longer than the rest of a session at the start of the next one
    async with EmbeddedCluster(
        brokers=1, sasl_users=USERS, sasl_session_ms=session_ms, request_log_size=100_000
    ) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, **PLAIN, linger_ms=0) as producer:
            await producer.send_and_wait("t", b"first")
            count, sessions, waited = 1, 1, True
            while waited and sessions < 6:
                next_login = cluster.faults.add("SaslAuthenticate", hold=True)
                while not next_login.struck:
                    delivery = await producer.send("t", b"%d" % count)
                    count += 1
                    with anyio.move_on_after(held_s):  # on a very late machine the session may have expired
                        await delivery
                meanwhile = await producer.send("t", b"meanwhile")
                with anyio.move_on_after(held_s) as scope:
                    await meanwhile
                waited = scope.cancelled_caught  # on a busy machine the old session may have expired
                next_login.remove()
                await meanwhile
                sessions += 1
                count += 1 + await send_until(producer, cluster, sessions)
        assert not waited
        assert len(cluster.records("t")) == count
        requests = list(cluster.requests)
        before, after = connections_with(cluster, ApiKey.PRODUCE)[-2:]
        began = next(i for i, r in enumerate(requests) if r.connection == after)
        took_over = next(i for i, r in enumerate(requests) if r.connection == after and r.api_key == ApiKey.PRODUCE)
        assert [r for r in requests[began:took_over] if r.connection == before and r.api_key == ApiKey.PRODUCE]


@again_if_late(SESSION_MS, 5000, 20_000)
async def test_records_stay_in_order_though_nothing_numbers_them(session_ms: int) -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=session_ms) as cluster:
        cluster.create_topic("t")
        # Answers take a while: there are requests in flight whenever connections change.
        cluster.faults.add("Produce", delay_ms=3)
        async with Producer(
            cluster.bootstrap_servers, **PLAIN, linger_ms=0, batch_size=1, enable_idempotence=False
        ) as producer:
            sent = 0
            with anyio.fail_after(50):
                while len(connections_with(cluster, ApiKey.PRODUCE)) < 2:
                    deliveries = [await producer.send("t", b"%d" % number) for number in range(sent, sent + 20)]
                    sent += 20
                    for delivery in deliveries:
                        await delivery
        assert [record.value for record in cluster.records("t")] == [b"%d" % number for number in range(sent)]


SHORT_SESSIONS_MS = (300, 600, 900)
MARGIN_S = 0.1
"""Seconds before the end of a session by which its last request must have arrived."""


async def lost_in_sessions_of(session_ms: float, lost: list[object]) -> None:
    """Send from several tasks, and read with one, until the third login.

    Add errors, requests after the end of a session, and the times of early logins to ``lost``.
    """
    async with EmbeddedCluster(
        brokers=1, sasl_users=USERS, sasl_session_ms=session_ms, request_log_size=1_000_000
    ) as cluster:
        cluster.create_topic("t")
        servers = cluster.bootstrap_servers
        try:
            async with (
                Producer(servers, **PLAIN, linger_ms=0, retries=0, enable_idempotence=False) as producer,
                Consumer(
                    "t", bootstrap_servers=servers, **PLAIN, group_id="g", auto_offset_reset="earliest"
                ) as consumer,
            ):
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    while len(connections_with(cluster, ApiKey.PRODUCE)) < 3:
                        for delivery in [await producer.send("t", b"v") for _ in range(20)]:
                            try:
                                await delivery
                            except KafkaError as error:
                                lost.append(error)
                            else:
                                sent += 1

                with anyio.fail_after(60):
                    async with anyio.create_task_group() as group:
                        for _ in range(3):
                            group.start_soon(send)
                        read = 0
                        while read < sent or len(connections_with(cluster, ApiKey.PRODUCE)) < 3:
                            read += sum(map(len, (await consumer.getmany(timeout_ms=100)).values()))
        except KafkaError as error:  # of a start
            lost.append(error)
        lost += cluster.protocol_errors
        logins = {r.connection: r.time for r in cluster.requests if r.api_key == ApiKey.SASL_AUTHENTICATE}
        used = connections_with(cluster, ApiKey.PRODUCE)
        lost += [logins[later] for earlier, later in pairwise(used) if logins[later] - logins[earlier] < 1]


async def test_no_record_is_lost_in_sessions_of_less_than_a_second() -> None:
    """Logins are a second apart. Requests wait for the next login, and none is sent after the session has expired."""
    lost: list[object] = []
    lateness = Lateness(MARGIN_S)
    for _ in range(5):
        lost, lateness = [], Lateness(MARGIN_S, tick_s=0.005)
        async with anyio.create_task_group() as watching:
            watching.start_soon(lateness.watch)
            async with anyio.create_task_group() as group:
                for session_ms in SHORT_SESSIONS_MS:
                    group.start_soon(lost_in_sessions_of, session_ms, lost)
            watching.cancel_scope.cancel()
        if not lost or not lateness.late:
            break
    assert not lost or lateness.late  # proves no fault if the machine was late each time


@again_if_late(SESSION_MS, 5000, 20_000)
async def test_a_group_keeps_its_member(session_ms: int) -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=session_ms) as cluster:
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
            with anyio.fail_after(50):
                while len(connections_with(cluster, ApiKey.HEARTBEAT)) < 2:
                    await producer.send_and_wait("t", b"v")
                    await consumer.getone()
                    await consumer.commit()
        assert len([r for r in cluster.requests if r.api_key == ApiKey.JOIN_GROUP]) <= 2


@again_if_late(2500, 8000, 20_000)
async def test_a_login_that_fails_is_tried_again_while_the_session_lasts(session_ms: int) -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS, sasl_session_ms=session_ms) as cluster:
        cluster.create_topic("t")
        async with Producer(cluster.bootstrap_servers, **PLAIN, retries=0, enable_idempotence=False) as producer:
            await producer.send_and_wait("t", b"first")
            refused = cluster.faults.add("SaslAuthenticate", disconnect=True, count=2)
            count = await send_until(producer, cluster, 2)
            assert refused.struck == 2
        assert len(cluster.records("t")) == count + 1


@again_if_late(SESSION_MS, 5000, 20_000)
async def test_another_principal_is_no_error(session_ms: int) -> None:
    principals: list[str] = []

    def validate(token: str, extensions: Any) -> tuple[str, float]:
        principals.append(token)
        return token, time.time() + session_ms / 1000

    calls = 0

    def provider() -> Token:
        nonlocal calls
        calls += 1
        return Token(f"user{calls}", time.time() + session_ms / 1000)

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
            with anyio.fail_after(50):
                while cluster.connection_count(1):  # noqa: ASYNC110 (no event)
                    await anyio.sleep(0.05)


class Nobody:
    """Both ends of a connection without a broker."""

    paused = False

    def on_lost(self, connection: Connection, error: KafkaError, /) -> None: ...

    def on_change(self, connection: Connection, /) -> None: ...

    def limit_frames(self, max_bytes: int) -> None: ...

    def write(self, chunks: Sequence[Any], /) -> None: ...

    def close(self) -> None: ...

    async def run(self) -> None: ...


async def test_logins_that_gain_nothing_become_frequent_only_near_the_end() -> None:
    """Some token providers return the same token until minutes before its end."""
    began = time.monotonic()
    session = Session(renew_at=began, retire_at=began + 8, ends_at=began + 8, next_login_at=0.0)
    settings = ConnectionSettings("c", 30.0, 60.0, 5, 1 << 20)
    logins: list[float] = []
    second = anyio.Event()

    def new() -> Connection:
        connection = Connection(1, ("localhost", 9092), settings, Nobody(), "1")
        connection.opened(Nobody())
        connection.become_ready(ApiVersions({}), authenticated=True, session=session)
        return connection

    async def log_in(make: Callable[[], Connection]) -> Connection:
        logins.append(time.monotonic())
        if len(logins) == 2:
            second.set()
        return make()

    renewal = Renewal(new(), new, log_in, client_log("connection", "c"), 1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(renewal.run)
        await second.wait()
        renewal.stop()
    assert logins[1] - logins[0] > 0.8
