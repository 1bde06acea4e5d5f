"""Brokers behind a proxy: SOCKS5, HTTP CONNECT, and the application's own way to connect."""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest

from aiokafka_lead import Client, Consumer, Producer
from aiokafka_lead.errors import ConfigError, KafkaConnectionError
from aiokafka_lead.testing import EmbeddedCluster

from .script import Certificates

pytestmark = pytest.mark.anyio

USER, PASSWORD = "us er", "p:ss/w@rd"
QUOTED = "us%20er:p%3Ass%2Fw%40rd"


class Proxy:
    """Speaks SOCKS5 and CONNECT on one port, and knows names that nobody else does."""

    def __init__(self, user: str | None = None, password: str | None = None) -> None:
        self.port = 0
        self.asked: list[tuple[str, int]] = []
        """The hosts and ports that clients wanted to reach."""
        self.names: dict[str, str] = {}
        self._login = None if user is None else (user, password)

    async def handle(self, client: anyio.abc.SocketStream) -> None:
        async with client:
            try:
                first = await client.receive(1)
                to = await (self._socks(client) if first == b"\x05" else self._connect(client, first))
                if to is not None:
                    async with to, anyio.create_task_group() as pumps:
                        pumps.start_soon(pump, client, to, pumps.cancel_scope)
                        pumps.start_soon(pump, to, client, pumps.cancel_scope)
            except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                pass

    async def _socks(self, client: anyio.abc.SocketStream) -> anyio.abc.SocketStream | None:
        (count,) = await read(client, 1)
        methods = await read(client, count)
        if self._login is not None:
            if 2 not in methods:
                await client.send(b"\x05\xff")
                return None
            await client.send(b"\x05\x02")
            _, size = await read(client, 2)
            user = (await read(client, size)).decode()
            (size,) = await read(client, 1)
            password = (await read(client, size)).decode()
            right = (user, password) == self._login
            await client.send(b"\x01\x00" if right else b"\x01\x01")
            if not right:
                return None
        else:
            await client.send(b"\x05\x00")
        _, _, _, kind = await read(client, 4)
        if kind == 3:
            (size,) = await read(client, 1)
            host = (await read(client, size)).decode()
        else:
            host = socket.inet_ntoa(await read(client, 4))
        (port,) = struct.unpack(">H", await read(client, 2))
        to = await self._reach(host, port)
        await client.send(b"\x05" + (b"\x05" if to is None else b"\x00") + b"\x00\x01" + bytes(6))
        return to

    async def _connect(self, client: anyio.abc.SocketStream, head: bytes) -> anyio.abc.SocketStream | None:
        while b"\r\n\r\n" not in head:
            head += await client.receive()
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        to = await self._reach(host, int(port))
        await client.send(b"HTTP/1.1 502 No\r\n\r\n" if to is None else b"HTTP/1.1 200 OK\r\n\r\n")
        return to

    async def _reach(self, host: str, port: int) -> anyio.abc.SocketStream | None:
        self.asked.append((host, port))
        try:
            return await anyio.connect_tcp(self.names.get(host, host), port)
        except OSError:
            return None


async def read(stream: anyio.abc.SocketStream, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += await stream.receive(size - len(data))
    return data


async def pump(one: anyio.abc.SocketStream, other: anyio.abc.SocketStream, scope: anyio.CancelScope) -> None:
    try:
        while True:
            await other.send(await one.receive())
    except (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
        scope.cancel()


@asynccontextmanager
async def proxy(user: str | None = None, password: str | None = None) -> AsyncIterator[Proxy]:
    made = Proxy(user, password)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        made.port = listener.extra(anyio.abc.SocketAttribute.local_port)
        tasks.start_soon(listener.serve, made.handle)
        yield made
        tasks.cancel_scope.cancel()


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
        for url in (f"socks5://{QUOTED}@127.0.0.1:{way.port}", f"http://{QUOTED}@127.0.0.1:1"):
            producer = Producer(cluster.bootstrap_servers, proxy_url=url)
            with pytest.raises(KafkaConnectionError, match=r"through the proxy 127\.0\.0\.1:") as caught:
                await producer.start()
            assert PASSWORD not in str(caught.value)
            assert "p%3Ass" not in str(caught.value)
            assert "p%3Ass" not in repr(producer)


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
    "url", ["", "socks5://", "socks5://host", "https://host:1", "socks5://u:secret@host:99999", "http://u:secret@h:1/x"]
)
async def test_urls_that_are_none_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError, match="proxy_url must be one of") as caught:
        Producer("localhost:1", proxy_url=url)
    assert "secret" not in str(caught.value)
    with pytest.raises(ConfigError, match="two ways"):
        Producer("localhost:1", proxy_url="http://host:1", connect=lambda host, port: None)  # type: ignore[arg-type, return-value]
