"""Brokers behind a proxy: SOCKS5, HTTP CONNECT, and a connect function of the application."""

from __future__ import annotations

import base64
import socket
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer
from aiokafka_lead.errors import BootstrapResolutionError, ConfigError, KafkaConnectionError
from aiokafka_lead.testing import EmbeddedCluster

from ..leaks import everything
from ..names import Names
from ..proxies import proxy
from .script import Certificates

pytestmark = pytest.mark.anyio

USER, PASSWORD = "us er", "p:ss/w@rd"
QUOTED = "us%20er:p%3Ass%2Fw%40rd"


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_records_go_through_a_proxy_that_alone_knows_the_brokers_names(scheme: str) -> None:
    async with EmbeddedCluster(brokers=2, advertised_host="inside.test") as cluster, proxy() as way:
        cluster.create_topic("t", partitions=2)
        way.names["inside.test"] = "127.0.0.1"
        port = cluster.address(1).rpartition(":")[2]
        options: dict[str, Any] = {"proxy_url": f"{scheme}://127.0.0.1:{way.port}"}
        async with Client(f"inside.test:{port}", **options) as client:
            async with client.producer() as producer:
                for partition in (0, 1):
                    await producer.send_and_wait("t", b"v", partition=partition)
                await cluster.kill_broker(1, failover_delay_ms=0)
                await producer.send_and_wait("t", b"w", partition=0)
            async with client.consumer("t", group_id="g", auto_offset_reset="earliest") as consumer:
                values = {(await consumer.getone()).value for _ in range(3)}
        assert values == {b"v", b"w"}
        assert {host for host, _ in way.asked} == {"inside.test"}


async def test_tls_goes_through_to_the_broker() -> None:
    certificates = Certificates()
    async with EmbeddedCluster(brokers=1, ssl_context=certificates.server()) as cluster, proxy(USER, PASSWORD) as way:
        cluster.create_topic("t")
        async with Producer(
            cluster.bootstrap_servers,
            security_protocol="SSL",
            ssl_context=certificates.client(),
            proxy_url=f"socks5://{QUOTED}@127.0.0.1:{way.port}",
        ) as producer:
            await producer.send_and_wait("t", b"v")


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_errors_name_the_proxy_and_no_password(scheme: str) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, proxy(USER, "another") as way:
        refusals = {way.port: "authentication failure" if scheme == "socks5" else "407", 1: "refused"}
        for port, reason in refusals.items():
            url = f"{scheme}://{QUOTED}@127.0.0.1:{port}"
            producer = Producer(cluster.bootstrap_servers, proxy_url=url)
            text = rf"through the proxy 127\.0\.0\.1:{port}: .*{reason}"
            with pytest.raises(KafkaConnectionError, match=text) as caught:
                await producer.start()
            collected = everything(caught.value) + repr(producer)
            encoded = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
            assert not any(secret in collected for secret in (PASSWORD, "p%3Ass", encoded))


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_a_proxy_that_hangs_is_named(scheme: str) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, proxy() as way:
        way.hangs = True
        quick: dict[str, Any] = {"socket_connection_setup_timeout_ms": 100, "request_timeout_ms": 5_000}
        url = f"{scheme}://{QUOTED}@127.0.0.1:{way.port}"
        text = rf"no answer within 100 ms during connecting through the proxy 127\.0\.0\.1:{way.port}"
        with anyio.fail_after(20), pytest.raises(KafkaConnectionError, match=text):
            await Producer(cluster.bootstrap_servers, proxy_url=url, **quick).start()


async def test_a_proxys_name_has_several_addresses_or_comes_late(names: Names) -> None:
    async with EmbeddedCluster(brokers=1) as cluster, proxy() as way:
        names["proxy.test"] = []
        for scheme in ("socks5", "http"):
            with pytest.raises(BootstrapResolutionError, match=r"the proxy proxy\.test:.*no address"):
                await AdminClient(cluster.bootstrap_servers, proxy_url=f"{scheme}://proxy.test:{way.port}").start()
        names["proxy.test"] = ["127.0.0.254", "127.0.0.1"]  # nothing listens at the first
        for scheme in ("socks5", "http"):
            async with AdminClient(cluster.bootstrap_servers, proxy_url=f"{scheme}://proxy.test:{way.port}") as admin:
                assert await admin.list_topics() is not None


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_brokers_that_advertise_no_name_never_reach_the_proxy(scheme: str) -> None:
    injected = "a.test:1 HTTP/1.1\r\nProxy-Authorization: none\r\n\r\n"
    async with EmbeddedCluster(brokers=1, advertised_host=injected) as cluster, proxy() as way:
        cluster.create_topic("t")
        port = cluster.address(1).rpartition(":")[2]
        options: dict[str, Any] = {"proxy_url": f"{scheme}://127.0.0.1:{way.port}"}
        async with Producer(f"127.0.0.1:{port}", max_block_ms=300, close_timeout_ms=100, **options) as producer:
            await producer.partitions_for("t", timeout_ms=20_000)  # from the bootstrap server, through the proxy
            with anyio.move_on_after(0.5):
                await producer.send_and_wait("t", b"v")
    assert {host for host, _ in way.asked} == {"127.0.0.1"}


async def test_the_applications_own_way() -> None:
    asked: list[tuple[str, int]] = []

    async def connect(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        return await anyio.to_thread.run_sync(socket.create_connection, ("127.0.0.1", port))

    async with EmbeddedCluster(brokers=1, advertised_host="inside.test") as cluster:
        cluster.create_topic("t")
        port = int(cluster.address(1).rpartition(":")[2])
        async with Producer(f"outside.test:{port}", connect=connect) as producer:
            await producer.send_and_wait("t", b"v")
    assert set(asked) == {("outside.test", port), ("inside.test", port)}


async def test_a_way_that_fails_or_gives_no_socket() -> None:
    async def raising(host: str, port: int) -> socket.socket:
        raise RuntimeError(f"no tunnel to {host}")

    async def nothing(host: str, port: int) -> Any:
        return None

    for connect, text in ((raising, "no tunnel to a.test"), (nothing, "it gave a NoneType")):
        with pytest.raises(KafkaConnectionError, match=text):
            await Consumer(bootstrap_servers="a.test:9092", connect=connect).start()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "socks5://",
        "socks5://host",
        "https://host:1",
        "socks5://u:secret@host:99999",
        "http://u:secret@h:1/x",
        "socks5://u:secret\udce9@host:1",
    ],
)
async def test_urls_that_are_none_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="proxy_url must be one of") as caught:
        Producer("localhost:1", proxy_url=url)
    assert "secret" not in everything(caught.value)
    with pytest.raises(ConfigError, match="cannot be combined"):
        Producer("localhost:1", proxy_url="http://host:1", connect=lambda host, port: None)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("socks5://secret@host:1", "a user name and a password"),
        ("socks5://user:secr%C3%A9t@host:1", "ASCII"),
        (f"socks5://user:{'secret' * 50}@host:1", "255"),
        ("socks4://user:secret@host:1", "no password"),
        ("http://us%3Aer:secret@host:1", "must not contain a colon"),
    ],
)
async def test_logins_that_the_proxys_protocol_cannot_carry(url: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        Producer("localhost:1", proxy_url=url)
    assert "secr" not in everything(caught.value)


async def test_a_login_for_http_may_have_any_characters() -> None:
    async with (
        EmbeddedCluster(brokers=1) as cluster,
        proxy("j\u00f6rg", "") as way,
        AdminClient(cluster.bootstrap_servers, proxy_url=f"http://j%C3%B6rg@127.0.0.1:{way.port}") as admin,
    ):
        assert await admin.list_topics() is not None
