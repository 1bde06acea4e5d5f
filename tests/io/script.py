"""Small scripted servers, and the client's connections to them."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import trustme
from anyio.abc import ByteStream, SocketAttribute
from anyio.streams.tls import TLSListener

from aiokafka_lead._core.metadata.types import Broker
from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.connection import Connection
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._io.loop import Waiter
from aiokafka_lead._wire import RequestFrame, Response, decode_request, encode_response
from aiokafka_lead._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lead._wire.messages.fetch import FetchRequest
from aiokafka_lead._wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead._wire.messages.produce import ProduceRequest
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lead.config import ClientConfig
from aiokafka_lead.errors import ClientClosedError, KafkaError

HOST = "127.0.0.1"

GONE = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)

SPOKEN = (
    ApiVersionsRequest,
    FetchRequest,
    HeartbeatRequest,
    MetadataRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)


def all_versions() -> ApiVersionsResponse:
    """Return the ApiVersions answer of a broker as new as this client."""
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api.API_KEY, min_version=api.MIN_VERSION, max_version=api.MAX_VERSION) for api in SPOKEN
        ]
    )


LONG_BACKOFF = {"reconnect_backoff_ms": 20_000, "reconnect_backoff_max_ms": 20_000}
"""A backoff longer than any test, for tests that observe a broker in backoff."""


class Peer:
    """The server's end of one connection."""

    def __init__(self, stream: ByteStream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def read(self) -> RequestFrame:
        """Return the next request; raise anyio.EndOfStream when the client has closed."""
        return decode_request(await self.read_frame())

    async def read_frame(self) -> bytes:
        while len(self._buffer) < 4 or len(self._buffer) < 4 + struct.unpack_from(">i", self._buffer)[0]:
            self._buffer += await self.stream.receive()
        stop = 4 + struct.unpack_from(">i", self._buffer)[0]
        frame = bytes(self._buffer[4:stop])
        del self._buffer[:stop]
        return frame

    async def send(self, data: bytes) -> None:
        await self.stream.send(data)

    async def answer(self, request: RequestFrame, response: Response, correlation_id: int | None = None) -> None:
        await self.send(answer_bytes(request, response, correlation_id))

    async def shake_hands(self) -> None:
        """Answer ApiVersions like a broker as new as this client."""
        await self.answer(await self.read(), all_versions())

    async def drain(self) -> None:
        """Read until the client closes or breaks the connection."""
        try:
            while True:
                await self.stream.receive()
        except GONE:
            return

    async def serve_heartbeats(self) -> None:
        """Answer every request with a heartbeat response, until the client closes."""
        try:
            while True:
                await self.answer(await self.read(), HeartbeatResponse())
        except GONE:
            return


def answer_bytes(request: RequestFrame, response: Response, correlation_id: int | None = None) -> bytes:
    number = request.correlation_id if correlation_id is None else correlation_id
    return b"".join(encode_response(response, request.version, number))


def heartbeat() -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


Handler = Callable[[Peer], Awaitable[None]]


@asynccontextmanager
async def serve(
    handler: Handler, tls: ssl.SSLContext | None = None, host: str = HOST, port: int = 0
) -> AsyncIterator[int]:
    """Run ``handler`` for every connection; yield the port. A handler that returns closes its connection."""

    async def handle(stream: ByteStream) -> None:
        async with stream:
            try:
                await handler(Peer(stream))
            except GONE:
                return

    tcp = await anyio.create_tcp_listener(local_host=host, local_port=port)
    port = tcp.extra(SocketAttribute.local_port)
    async with tcp, anyio.create_task_group() as group:
        if tls is None:
            group.start_soon(tcp.serve, handle)
        else:
            group.start_soon(TLSListener(tcp, tls, standard_compatible=False).serve, handle)
        yield port
        group.cancel_scope.cancel()


@asynccontextmanager
async def client(port: int = 1, **options: Any) -> AsyncIterator[Brokers]:
    """Return brokers that know node 1 at this port."""
    config = ClientConfig.from_options(f"{HOST}:{port}", options)
    async with anyio.create_task_group() as group:
        brokers = Brokers(config, group)
        brokers.add_node(Broker(1, HOST, port))
        try:
            with anyio.fail_after(30):
                yield brokers
        finally:
            brokers.stop(ClientClosedError())
            group.cancel_scope.cancel()


@asynccontextmanager
async def connected(handler: Handler, **options: Any) -> AsyncIterator[Connection]:
    """Yield a ready connection to a server that continues with ``handler`` after the handshake."""

    async def handle(peer: Peer) -> None:
        await peer.shake_hands()
        await handler(peer)

    async with serve(handle) as port, client(port, **options) as brokers:
        yield await brokers.get(1, Lane.CONTROL)


class Outcome(Waiter[Any]):
    """Outcome of a submitted request; counts calls, since there must be exactly one."""

    __slots__ = ("calls",)

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def on_done(self, response: Any, error: KafkaError | None) -> None:
        self.calls += 1
        if error is None:
            self.set_result(response)
        else:
            self.set_error(error)


class Changes:
    """A listener of `Brokers` that a test can wait on."""

    def __init__(self, brokers: Brokers) -> None:
        self.nodes: list[int] = []
        self._waiters: list[tuple[Callable[[], bool], Waiter[None]]] = []
        brokers.add_listener(self._on_change)

    def _on_change(self, node_id: int) -> None:
        self.nodes.append(node_id)
        for condition, waiter in self._waiters:
            if condition():
                waiter.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a change makes the condition true."""
        waiter: Waiter[None] = Waiter()
        self._waiters.append((condition, waiter))
        if not condition():
            await waiter.wait(20)


@asynccontextmanager
async def full_backlog() -> AsyncIterator[int]:
    """Yield a port that never completes a connection: its queue of unaccepted connections is full."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        fillers = []
        try:
            while True:
                filler = socket.socket()
                fillers.append(filler)
                filler.settimeout(0.2)
                filler.connect((HOST, port))
        except TimeoutError:
            yield port
        finally:
            for filler in fillers:
                filler.close()


class Certificates:
    """A certificate authority, and contexts for both sides."""

    def __init__(self) -> None:
        self.authority = trustme.CA()

    def server(self, *names: str, require_client: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.authority.issue_cert(*(names or (HOST,))).configure_cert(context)
        if require_client:
            self.authority.configure_trust(context)
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client(self, *, trusting: bool = True, certificate: bool = False) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if trusting:
            self.authority.configure_trust(context)
        if certificate:
            self.authority.issue_cert("client").configure_cert(context)
        return context


def submit(connection: Connection, times: int = 1, timeout_ms: float | None = None) -> list[Outcome]:
    outcomes = []
    for _ in range(times):
        outcome = Outcome()
        connection.submit(heartbeat(), outcome.on_done, timeout_ms=timeout_ms)
        outcomes.append(outcome)
    return outcomes


async def answer_all(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.serve_heartbeats()


async def answer_nothing(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.drain()
