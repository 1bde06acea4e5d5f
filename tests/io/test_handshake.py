"""Handshakes before a connection is ready: versions, TLS, SASL; and servers of other protocols."""

from __future__ import annotations

import struct

import pytest

from aiokafka_lead import __version__
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead._wire import RequestFrame, encode
from aiokafka_lead._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lead._wire.messages.heartbeat import HeartbeatRequest
from aiokafka_lead.errors import (
    ClusterAuthorizationFailedError,
    KafkaConnectionError,
    KafkaError,
    MalformedMessageError,
    NotKafkaError,
    SslAuthenticationError,
    UnsupportedVersionError,
)

from .handshakes import failure
from .script import LONG_BACKOFF, Certificates, Handler, Peer, all_versions, client, heartbeat, serve

pytestmark = pytest.mark.anyio


async def given_up_during(stage: str, handler: Handler, **options: object) -> KafkaError:
    """Return the error of a connect that times out at this stage, with more time if it did not get that far."""
    for timeout_ms in (80, 800, 8000):
        error = await failure(handler, socket_connection_setup_timeout_ms=timeout_ms, **options)
        if f"{timeout_ms} ms during {stage}" in str(error):
            return error
    raise AssertionError(error)


# --- versions ---


async def test_the_latest_version_is_asked_for_first_and_names_this_client() -> None:
    asked: list[RequestFrame] = []

    async def handler(peer: Peer) -> None:
        asked.append(await peer.read())
        await peer.answer(asked[0], all_versions())
        await peer.drain()

    async with serve(handler) as port, client(port, client_id="me") as brokers:
        connection = await brokers.get(1)
        assert connection.versions.version_for(HeartbeatRequest) == HeartbeatRequest.MAX_VERSION
    request = asked[0].request
    assert asked[0].version == ApiVersionsRequest.MAX_VERSION
    assert asked[0].client_id == "me"
    assert isinstance(request, ApiVersionsRequest)
    assert (request.client_software_name, request.client_software_version) == ("aiokafka-lead", __version__)


@pytest.mark.parametrize(("offered", "then"), [(2, 2), (0, 0), (None, 0), (99, 0)])
async def test_an_older_broker_is_asked_again_in_its_own_version(offered: int | None, then: int) -> None:
    versions: list[int] = []

    async def handler(peer: Peer) -> None:
        request = await peer.read()
        versions.append(request.version)
        keys = [] if offered is None else [ApiVersion(api_key=18, min_version=0, max_version=offered)]
        refusal = ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=keys)
        await peer.answer(request._replace(version=0), refusal)
        request = await peer.read()
        versions.append(request.version)
        keys = [ApiVersion(api_key=12, min_version=0, max_version=1)]
        await peer.answer(request, ApiVersionsResponse(api_keys=keys))
        await peer.serve_heartbeats()

    async with serve(handler) as port, client(port) as brokers:
        connection = await brokers.get(1)
        await connection.request(heartbeat())
        assert connection.versions.version_for(HeartbeatRequest) == 1
    assert versions == [ApiVersionsRequest.MAX_VERSION, then]


def refusal(max_version: int) -> ApiVersionsResponse:
    keys = [ApiVersion(api_key=18, min_version=0, max_version=max_version)]
    return ApiVersionsResponse(error_code=UnsupportedVersionError.code, api_keys=keys)


@pytest.mark.parametrize(
    ("body", "then"),
    [
        (encode(refusal(2), ApiVersionsRequest.MAX_VERSION), 2),  # the layout of the refused version
        (encode(refusal(2), 0) + b"\0\0\0\0", 2),  # with a throttle time added, as by Azure Event Hubs
        (struct.pack(">hbhhh", 35, 2, 18, 0, 2), 0),  # version 0, except for a compact array
        (struct.pack(">h", 35), 0),
        (struct.pack(">h", 35) + b"\xde\xad\xbe\xef" * 5, 0),
    ],
)
async def test_a_broker_whose_refusal_is_not_in_version_0_is_asked_again(body: bytes, then: int) -> None:
    versions: list[int] = []

    async def handler(peer: Peer) -> None:
        request = await peer.read()
        versions.append(request.version)
        frame = struct.pack(">i", request.correlation_id) + body
        await peer.send(struct.pack(">i", len(frame)) + frame)
        request = await peer.read()
        versions.append(request.version)
        await peer.answer(request, all_versions())
        await peer.serve_heartbeats()

    async with serve(handler) as port, client(port) as brokers:
        connection = await brokers.get(1)
        await connection.request(heartbeat())
    assert versions == [ApiVersionsRequest.MAX_VERSION, then]


@pytest.mark.parametrize("offered", [None, 2, 99])
async def test_a_broker_that_refuses_every_version(offered: int | None) -> None:
    versions: list[int] = []

    async def handler(peer: Peer) -> None:
        while True:
            request = await peer.read()
            versions.append(request.version)
            answer = (
                ApiVersionsResponse(error_code=UnsupportedVersionError.code) if offered is None else refusal(offered)
            )
            await peer.answer(request._replace(version=0), answer)

    error = await failure(handler)
    assert isinstance(error, UnsupportedVersionError)
    assert "refuses every version of ApiVersions" in str(error)
    assert versions == [ApiVersionsRequest.MAX_VERSION, *([2] if offered == 2 else []), 0]


class Abrupt:
    """A broker that closes the connection if it does not know the version of ApiVersions, like Azure Event Hubs."""

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.versions: list[int] = []

    async def __call__(self, peer: Peer) -> None:
        request = await peer.read()
        self.versions.append(request.version)
        if request.version > self.highest:
            return
        answer = all_versions()
        answer.api_keys[0].max_version = self.highest
        await peer.answer(request, answer)
        await peer.serve_heartbeats()


async def test_a_broker_that_hangs_up_at_a_new_version_is_asked_in_an_older_one_at_once() -> None:
    broker = Abrupt(3)
    newest = ApiVersionsRequest.MAX_VERSION
    async with serve(broker) as port, client(port, **LONG_BACKOFF) as brokers:
        for lane in (Lane.CONTROL, Lane.DATA):
            await (await brokers.get(1, lane)).request(heartbeat())
        assert broker.versions == [newest, 3, 3]
        broker.highest = newest  # after an upgrade
        for lane in (Lane.COORDINATOR, Lane.BESIDE):
            await (await brokers.get(1, lane)).request(heartbeat())
        assert broker.versions == [newest, 3, 3, 3, newest]


async def test_a_broker_that_hangs_up_at_every_version_is_asked_twice_for_each_try() -> None:
    broker = Abrupt(-1)
    newest = ApiVersionsRequest.MAX_VERSION
    async with serve(broker) as port, client(port, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1) as brokers:
        for _ in range(2):
            with pytest.raises(
                KafkaConnectionError, match="the broker closed the connection; if this listener uses TLS"
            ):
                await brokers.get(1)
    assert broker.versions == [newest, 3, newest, 3]


async def test_a_broker_that_refuses_with_another_error() -> None:
    async def handler(peer: Peer) -> None:
        await peer.answer(await peer.read(), ApiVersionsResponse(error_code=ClusterAuthorizationFailedError.code))
        await peer.drain()

    assert isinstance(await failure(handler), ClusterAuthorizationFailedError)


# --- servers of other protocols ---


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", NotKafkaError, "HTTP/1.1 400 Bad Request"),
        (bytes.fromhex("15030100020246"), NotKafkaError, "security_protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", NotKafkaError, "SSH"),
        (b"\x4a\x00\x00\x00\x0a8.0.30\x00", NotKafkaError, "4a 00 00 00"),
        (struct.pack(">i", 5_000_000), NotKafkaError, "bootstrap_servers"),
        (struct.pack(">i", -2), NotKafkaError, "-2"),
        (struct.pack(">ii", 4, 99), MalformedMessageError, "correlation id 99"),
        (struct.pack(">iihi", 10, 0, 0, 2**31 - 1), MalformedMessageError, "ApiVersionsResponse"),
    ],
)
async def test_foreign_answers_give_a_typed_error(answer: bytes, kind: type[KafkaError], says: str) -> None:
    async def handler(peer: Peer) -> None:
        await peer.read_frame()
        await peer.send(answer)
        await peer.drain()

    error = await failure(handler)
    assert type(error) is kind
    assert says in str(error)


async def test_a_server_that_hangs_up_may_want_tls() -> None:
    async def handler(peer: Peer) -> None:
        await peer.read_frame()

    error = await failure(handler)
    assert type(error) is KafkaConnectionError
    assert "SASL_SSL" in str(error)
    assert error.retriable


async def test_a_plaintext_client_at_a_tls_listener() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    async with serve(handler, tls=Certificates().server()) as port, client(port) as brokers:
        with pytest.raises(KafkaConnectionError, match="SASL_SSL"):
            await brokers.get(1)


async def test_a_silent_server_is_given_up_after_the_setup_timeout() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    assert type(await given_up_during("ApiVersions", handler)) is KafkaConnectionError


async def test_a_listener_with_sasl_hangs_up_on_who_does_not_authenticate() -> None:
    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.read()

    async with serve(handler) as port, client(port) as brokers:
        connection = await brokers.get(1)
        with pytest.raises(KafkaConnectionError, match="require SASL"):
            await connection.request(heartbeat())


# --- TLS ---


async def serve_all(peer: Peer) -> None:
    await peer.shake_hands()
    await peer.serve_heartbeats()


async def test_tls_works_and_verifies() -> None:
    certificates = Certificates()
    async with serve(serve_all, tls=certificates.server()) as port:
        options = {"security_protocol": "SSL", "ssl_context": certificates.client()}
        async with client(port, **options) as brokers:
            connection = await brokers.get(1)
            for _ in range(3):
                await connection.request(heartbeat())


@pytest.mark.parametrize("problem", ["unknown authority", "other name"])
async def test_a_certificate_that_is_not_accepted_is_not_retriable(problem: str) -> None:
    certificates = Certificates()
    names = ("elsewhere.example",) if problem == "other name" else ("127.0.0.1",)
    context = certificates.client(trusting=problem != "unknown authority")
    async with (
        serve(serve_all, tls=certificates.server(*names)) as port,
        client(port, security_protocol="SSL", ssl_context=context) as brokers,
    ):
        with pytest.raises(SslAuthenticationError, match="certificate is not accepted") as caught:
            await brokers.get(1)
        assert not caught.value.retriable


async def test_a_client_certificate_is_sent_and_its_lack_is_told() -> None:
    certificates = Certificates()
    server = certificates.server(require_client=True)
    async with serve(serve_all, tls=server) as port:
        options = {"security_protocol": "SSL", "ssl_context": certificates.client(certificate=True)}
        async with client(port, **options) as brokers:
            await (await brokers.get(1)).request(heartbeat())
        async with client(port, security_protocol="SSL", ssl_context=certificates.client()) as brokers:
            # TLS 1.3's client finishes before the server has seen that there is no certificate; the server decides
            # which arrives first, its alert or the end of the connection.
            with pytest.raises((SslAuthenticationError, KafkaConnectionError)):
                await brokers.get(1)


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x04\x00\x00\x00\x00"])
async def test_a_tls_client_at_a_plaintext_listener(reply: bytes) -> None:
    async def handler(peer: Peer) -> None:
        await peer.stream.receive()
        if reply:
            await peer.send(reply)
            await peer.drain()

    certificates = Certificates()
    error = await failure(handler, security_protocol="SSL", ssl_context=certificates.client())
    assert isinstance(error, NotKafkaError if reply else KafkaConnectionError)
    assert '"PLAINTEXT" or "SASL_PLAINTEXT"' in str(error)


async def test_a_tls_handshake_that_stalls_is_given_up() -> None:
    async def handler(peer: Peer) -> None:
        await peer.drain()

    certificates = Certificates()
    await given_up_during("the TLS handshake", handler, security_protocol="SSL", ssl_context=certificates.client())
