"""The client's life: starting, failing to start, stopping, background tasks."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest
import trustme
from anyio.abc import SocketAttribute, SocketStream

from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead.errors import (
    BackgroundTaskError,
    ClientClosedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NotStartedError,
    SaslAuthenticationFailedError,
    WrongEventLoopError,
)
from aiokafka_lead.testing import EmbeddedCluster
from aiokafka_lead.testing.faults import HTTP_ANSWER, TLS_ALERT

from ..patience import again_if_late
from ..ports import PortPool
from .metadata_support import make_client, running

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def listening(serve: Callable[[SocketStream], Awaitable[None]]) -> AsyncIterator[str]:
    """Run a server that is no broker."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        yield f"127.0.0.1:{port}"
        tasks.cancel_scope.cancel()


async def silent(stream: SocketStream) -> None:
    async with stream:
        await anyio.sleep_forever()


def answering(answer: bytes) -> Callable[[SocketStream], Awaitable[None]]:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(answer)

    return serve


# --- starting --------------------------------------------------------------------------------------------------------


async def test_start_and_stop_from_different_tasks() -> None:
    async with EmbeddedCluster(1) as cluster:
        client = make_client(cluster.bootstrap_servers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.start)
        client.check()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.stop)
        with pytest.raises(ClientClosedError):
            client.check()


async def test_every_server_that_failed_is_named_with_its_own_reason(ports: PortPool) -> None:
    refused = f"127.0.0.1:{ports.take()}"
    async with (
        listening(answering(HTTP_ANSWER)) as web,
        listening(answering(TLS_ALERT)) as tls,
        listening(silent) as mute,
    ):
        servers = [refused, web, tls, mute, "no-such-host.invalid:9092"]
        client = make_client(",".join(servers), request_timeout_ms=3500)
        began = time.monotonic()
        with pytest.raises(KafkaConnectionError) as caught:
            await client.start()
        assert time.monotonic() - began < 20
    text = str(caught.value)
    reasons = dict(part.split(": ", 1) for part in text.removeprefix("no bootstrap server could be used: ").split("; "))
    assert set(reasons) == set(servers)
    assert "refused" in reasons[refused]
    assert "HTTP" in reasons[web]
    assert "TLS" in reasons[tls]
    assert "within" in reasons[mute] or "in time" in reasons[mute]
    assert "resolve" in reasons["no-such-host.invalid:9092"]


@again_if_late(250, 400, 400, 400)
async def test_servers_that_were_never_asked_are_not_said_to_have_failed(timeout_ms: int) -> None:
    async with listening(silent) as first, listening(silent) as second, listening(silent) as third:
        servers = [first, second, third]
        with pytest.raises(KafkaConnectionError) as caught:
            await make_client(",".join(servers), request_timeout_ms=timeout_ms).start()  # the next is asked after 500
    failed, others = str(caught.value).split("; no time was left to try ")
    assert [server for server in servers if server in failed and "no answer" in failed]
    assert sorted([*others.split(", "), *(server for server in servers if server in failed)]) == sorted(servers)
    assert len(others.split(", ")) == 2


async def test_nobody_listening_fails_at_once(ports: PortPool) -> None:
    client = make_client(f"127.0.0.1:{ports.take()}", request_timeout_ms=30_000)
    began = time.monotonic()
    with pytest.raises(KafkaConnectionError, match="refused"):
        await client.start()
    assert time.monotonic() - began < 20


async def test_a_wrong_password_is_an_error_of_its_own() -> None:
    async with EmbeddedCluster(1, sasl_users={"alice": "right"}) as cluster:
        client = make_client(
            cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="wrong",
        )
        with pytest.raises(SaslAuthenticationFailedError, match=cluster.bootstrap_servers):
            await client.start()


async def test_tls_that_the_client_does_not_trust() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with EmbeddedCluster(1, ssl_context=context) as cluster:
        client = make_client(cluster.bootstrap_servers, security_protocol="SSL")
        with pytest.raises(KafkaError, match="certificate"):
            await client.start()


@again_if_late(700, 5_000)
async def test_a_start_that_fails_leaves_nothing_behind(timeout_ms: int) -> None:
    async with EmbeddedCluster(2) as cluster:
        cluster.faults.add("Metadata", drop=True)
        client = make_client(cluster.bootstrap_servers, request_timeout_ms=timeout_ms)
        with pytest.raises(KafkaConnectionError, match="no answer"):
            await client.start()
        await no_connections(cluster)
        with pytest.raises(ClientClosedError):
            client.check()
        with pytest.raises(ClientClosedError):
            await client.start()


async def test_a_cancelled_start_leaves_nothing_behind() -> None:
    async with EmbeddedCluster(1) as cluster:
        cluster.faults.add("Metadata", drop=True)
        client = make_client(cluster.bootstrap_servers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.start)
            await cluster.requests.wait_for("Metadata")
            tasks.cancel_scope.cancel()
        await no_connections(cluster)
        with pytest.raises(ClientClosedError):
            client.check()


async def no_connections(cluster: EmbeddedCluster) -> None:
    """Wait for the brokers, which notice the end of a connection a moment after the client."""
    with anyio.fail_after(20):
        while any(cluster.connection_count(broker) for broker in cluster.broker_ids):  # noqa: ASYNC110
            await anyio.sleep(0.005)


async def test_stop_during_start() -> None:
    async with EmbeddedCluster(1) as cluster:
        cluster.faults.add("Metadata", drop=True)
        client = make_client(cluster.bootstrap_servers)
        errors: list[KafkaError] = []

        async def start() -> None:
            try:
                await client.start()
            except KafkaError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(start)
            await cluster.requests.wait_for("Metadata")
            await client.stop()
        assert [type(error) for error in errors] == [ClientClosedError]


async def test_starting_twice() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        with pytest.raises(IllegalStateError, match="already been called"):
            await client.start()
        client.check()


# --- misuse ----------------------------------------------------------------------------------------------------------


async def test_not_started() -> None:
    client = make_client("127.0.0.1:9092")
    with pytest.raises(NotStartedError):
        client.check()
    with pytest.raises(NotStartedError):
        client.spawn(anyio.sleep_forever, name="early")


async def test_stopping_what_was_never_started() -> None:
    client = make_client("127.0.0.1:9092")
    await client.stop()
    with pytest.raises(ClientClosedError):
        await client.start()


async def test_wrong_event_loop() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        errors: list[Exception] = []

        async def elsewhere() -> None:
            for call in (client.check, client.stop):
                try:
                    outcome = call()
                    if outcome is not None:
                        await outcome
                except KafkaError as error:
                    errors.append(error)

        await anyio.to_thread.run_sync(lambda: asyncio.run(elsewhere()))
        assert [type(error) for error in errors] == [WrongEventLoopError, WrongEventLoopError]
        client.check()


# --- stopping --------------------------------------------------------------------------------------------------------


async def test_stop_ends_with_all_brokers_gone() -> None:
    async with EmbeddedCluster(3) as cluster:
        client = make_client(cluster.bootstrap_servers)
        await client.start()
        for broker in cluster.broker_ids:
            await cluster.kill_broker(broker)
        began = time.monotonic()
        await client.stop(timeout_ms=60_000)
        assert time.monotonic() - began < 20


async def test_stop_ends_in_time_though_a_task_does_not() -> None:
    release = anyio.Event()
    ended = anyio.Event()

    async def stubborn() -> None:
        with anyio.CancelScope(shield=True):
            await release.wait()
        ended.set()

    async with EmbeddedCluster(1) as cluster:
        client = make_client(cluster.bootstrap_servers)
        await client.start()
        client.spawn(stubborn, name="stubborn")
        await anyio.lowlevel.checkpoint()
        began = time.monotonic()
        await client.stop(timeout_ms=200)
        assert 0.15 < time.monotonic() - began < 20
        release.set()
        await ended.wait()
        await client.stop()


async def test_stop_may_be_called_again_and_by_several() -> None:
    async with EmbeddedCluster(1) as cluster:
        client = make_client(cluster.bootstrap_servers)
        await client.start()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(client.stop)
        await client.stop()
        await no_connections(cluster)


async def test_requests_in_flight_fail_when_the_client_stops() -> None:
    async with EmbeddedCluster(1) as cluster:
        client = make_client(cluster.bootstrap_servers)
        await client.start()
        fault = cluster.faults.add("Metadata", drop=True)
        errors: list[KafkaError] = []

        async def ask() -> None:
            try:
                await client.request_any(MetadataRequest())
            except KafkaError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            cluster.requests.clear()
            await cluster.requests.wait_for("Metadata")
            await client.stop()
        assert len(errors) == 1
        assert fault.struck


# --- background tasks ------------------------------------------------------------------------------------------------


async def failing() -> None:
    raise ZeroDivisionError("a bug")


async def test_an_error_of_a_background_task_reaches_every_caller() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster, allow_auto_create_topics=False) as client:
        heard: list[BaseException] = []
        client.on_fatal(heard.append)
        errors: list[KafkaError] = []

        async def wait_for_topic() -> None:
            try:
                await client.metadata.topic("nowhere", 60_000)
            except KafkaError as error:
                errors.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_for_topic)
            client.spawn(failing, name="sender")
        with pytest.raises(BackgroundTaskError, match="sender ended with ZeroDivisionError: a bug") as caught:
            client.check()
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert [type(error) for error in [*heard, *errors]] == [BackgroundTaskError, BackgroundTaskError]


async def test_a_task_that_just_ends_is_no_failure() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        done = anyio.Event()

        async def short() -> None:
            done.set()

        client.spawn(short, name="short")
        await done.wait()
        await anyio.lowlevel.checkpoint()
        client.check()


# --- requests --------------------------------------------------------------------------------------------------------


async def test_requests_to_a_node_to_anybody_and_to_the_controller() -> None:
    async with EmbeddedCluster(2) as cluster, running(cluster) as client:
        for node_id in (1, 2, await client.controller()):
            response = await client.request(node_id, MetadataRequest())
            assert response.cluster_id == cluster.cluster_id
        assert (await client.request_any(MetadataRequest())).cluster_id == cluster.cluster_id


async def test_a_request_to_nobody_reachable_ends_in_time() -> None:
    async with EmbeddedCluster(1) as cluster, running(cluster) as client:
        await cluster.stop_broker(1)
        began = time.monotonic()
        with pytest.raises(KafkaError) as caught:
            await client.request_any(MetadataRequest(), timeout_ms=500)
        assert caught.value.retriable
        assert time.monotonic() - began < 20
