"""Brokers behind a proxy: SOCKS5, HTTP CONNECT, and a connect function of the application."""

from __future__ import annotations

import socket
from typing import Any

import anyio
import pytest

from aiokafka_lead import Client, Consumer, Producer
from aiokafka_lead.errors import ConfigError, KafkaConnectionError
from aiokafka_lead.testing import EmbeddedCluster

from ..leaks import everything
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


async def test_errors_name_the_proxy_and_no_password() -> None:
    async with EmbeddedCluster(brokers=1) as cluster, proxy(USER, "another") as way:
        wrong = f"127.0.0.1:{way.port}"
        for url in (f"socks5://{QUOTED}@{wrong}", f"socks5://{QUOTED}\u00e9@{wrong}", f"http://{QUOTED}@127.0.0.1:1"):
            producer = Producer(cluster.bootstrap_servers, proxy_url=url)
            with pytest.raises(KafkaConnectionError, match=r"through the proxy 127\.0\.0\.1:") as caught:
                await producer.start()
            collected = everything(caught.value)
            for secret in (PASSWORD, "p%3Ass"):
                assert secret not in collected
                assert secret not in repr(producer)


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
    with pytest.raises(ConfigError, match="two ways"):
        Producer("localhost:1", proxy_url="http://host:1", connect=lambda host, port: None)  # type: ignore[arg-type, return-value]
