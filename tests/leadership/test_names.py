"""Rule 25: names are resolved on every connect, so that all brokers behind the bootstrap name may be replaced."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import sniffio
import trio

from aiokafka_lead.testing import EmbeddedCluster

from .support import consumer_of, next_number, producer_of, values

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(sys.platform != "linux", reason="needs 127.0.0.2, which only Linux has without any set-up"),
]

QUICK: dict[str, Any] = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 100}

NAME = "kafka.test"
addresses: dict[str, str] = {}
"""Current addresses of names, on both event loops."""


class NamingLoop(asyncio.SelectorEventLoop):
    """An event loop with its own resolver."""

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return await super().getaddrinfo(addresses.get(name, host), port, **options)


class NamingResolver(trio.abc.HostnameResolver):
    """The same for trio."""

    async def getaddrinfo(
        self, host: bytes | None, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        name = host.decode() if host is not None else ""
        found = addresses.get(name, name)
        return await trio.to_thread.run_sync(socket.getaddrinfo, found, port, family, type, proto, flags)

    async def getnameinfo(self, sockaddr: Any, flags: int) -> tuple[str, str]:
        return await trio.to_thread.run_sync(socket.getnameinfo, sockaddr, flags)


@pytest.fixture(
    scope="module",
    params=[pytest.param(("asyncio", {"loop_factory": NamingLoop}), id="asyncio"), pytest.param("trio", id="trio")],
)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def name() -> Iterator[str]:
    """A name that resolves to 127.0.0.1 at first."""
    addresses[NAME] = "127.0.0.1"
    yield NAME
    addresses.clear()


async def test_rule_25_a_name_that_leads_elsewhere_after_a_rebootstrap(name: str) -> None:
    """Another set of brokers, with the same cluster id, serves the topic at the new address."""
    if sniffio.current_async_library() == "trio":
        trio.socket.set_custom_hostname_resolver(NamingResolver())
    async with EmbeddedCluster(brokers=1, cluster_id="same") as old:
        old.create_topic("t")
        port = int(old.bootstrap_servers.rpartition(":")[2])
        servers = f"{name}:{port}"
        async with (
            EmbeddedCluster(brokers=1, host="127.0.0.2", ports=[port], cluster_id="same") as new,
            producer_of(servers, **QUICK) as producer,
            consumer_of(servers, "t", **QUICK) as consumer,
        ):
            new.create_topic("t")
            await producer.send_and_wait("t", b"0", partition=0)
            assert await next_number(consumer) == 0
            assert not new.requests.count()
            addresses[name] = "127.0.0.2"
            await old.kill_broker(1)
            await producer.send_and_wait("t", b"1", partition=0)
            assert await next_number(consumer) == 1
            for client in (producer, consumer):
                assert client.metrics().metadata.rebootstraps_unavailable >= 1
            assert (values(old), values(new)) == ([0], [1])
