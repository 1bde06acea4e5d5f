"""Sockets of the embedded brokers: every accepted socket is closed, whenever its broker stops."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack, suppress

import anyio
import anyio.lowlevel
import pytest
import trustme

from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from ..garbage import no_socket_is_dropped
from .raw import batch, connected
from .test_fetch import BY_NAME, fetch_request, wanted
from .test_produce import produce

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

ROUNDS = range(10)
"""More rounds of an event loop than are needed to accept a socket and make it a connection."""


@pytest.fixture(scope="module")
def tls() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    return context


def client_hello() -> bytes:
    """Return the first message of a TLS client."""
    outgoing = ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


def wait_closed(clients: Sequence[socket.socket]) -> None:
    """Read until the other side ends the connections; raise TimeoutError if it does not."""
    for client in clients:
        client.settimeout(20)
        with suppress(ConnectionResetError):
            while client.recv(65536):
                pass


@pytest.mark.parametrize("listener", ["plain", "TLS, silent client", "TLS, greeting client"])
@pytest.mark.parametrize("end", ["stop", "kill", "exit"])
async def test_what_is_accepted_while_a_broker_goes_is_closed(end: str, listener: str, tls: ssl.SSLContext) -> None:
    """The broker stops after any number of rounds: before, while and after sockets become connections."""
    with no_socket_is_dropped():
        for rounds in ROUNDS:
            async with EmbeddedCluster(1, ssl_context=None if listener == "plain" else tls) as cluster:
                host, _, port = cluster.address(1).rpartition(":")
                for _ in ROUNDS:  # the broker waits for clients by now
                    await anyio.lowlevel.checkpoint()
                clients = [socket.create_connection((host, int(port))) for _ in range(3)]
                if listener == "TLS, greeting client":
                    clients[0].sendall(client_hello())
                for _ in range(rounds):
                    await anyio.lowlevel.checkpoint()
                if end == "kill":
                    await cluster.kill_broker(1)
                elif end == "stop":
                    await cluster.stop_broker(1)
                if end != "exit":
                    await anyio.to_thread.run_sync(wait_closed, clients)
            await anyio.to_thread.run_sync(wait_closed, clients)
            for client in clients:
                client.close()


async def test_a_cluster_in_a_thread_closes_what_is_accepted_while_it_ends() -> None:
    with no_socket_is_dropped(), ExitStack() as stack:
        for _ in range(20):
            with ClusterThread(EmbeddedCluster(3)) as cluster:
                addresses = [cluster.address(broker).rpartition(":") for broker in cluster.broker_ids]
                for host, _, port in addresses * 5:
                    stack.enter_context(socket.create_connection((host, int(port))))


async def test_answers_that_nobody_reads_do_not_keep_a_socket_open() -> None:
    """A broker in an orderly shutdown keeps sending its answers; the end of its cluster drops them."""
    with no_socket_is_dropped():
        async with AsyncExitStack() as stack:
            async with EmbeddedCluster(1) as cluster:
                cluster.create_topic("t")
                client = await stack.enter_async_context(connected(cluster.address(1)))
                for _ in range(8):
                    assert (await produce(client, batch(bytes(900_000)))).error_code == 0
                for _ in range(8):
                    await client.send(fetch_request(wanted(0, max_bytes=10_000_000)), BY_NAME)
                await cluster.wait_for_requests("Fetch")
                await cluster.stop_broker(1)
            await client.wait_closed()
