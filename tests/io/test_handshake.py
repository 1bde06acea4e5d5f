"""What is said before a connection is ready: versions, TLS, SASL; and servers that are something else."""

from __future__ import annotations

import hashlib
import hmac
import logging
import struct
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable

import anyio
import pytest

from aiokafka_lead import __version__
from aiokafka_lead._io.connection.authentication import MAX_SASL_ROUNDS
from aiokafka_lead._io.connection.brokers import NodeState
from aiokafka_lead._wire import RequestFrame, encode
from aiokafka_lead._wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokafka_lead._wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokafka_lead.errors import (
    ClusterAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    MalformedMessageError,
    NotKafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    UnsupportedSaslMechanismError,
    UnsupportedVersionError,
)

from .script import LONG_BACKOFF, Certificates, Changes, Handler, Peer, all_versions, client, heartbeat, serve

pytestmark = pytest.mark.anyio

PASSWORD = "top-secret"
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": PASSWORD,
}


async def failure(handler: Handler, **options: object) -> KafkaError:
    """What a connect to such a server fails with."""
    async with serve(handler) as port, client(port, **LONG_BACKOFF, **options) as brokers:
        with pytest.raises(KafkaError) as caught:
            await brokers.get(1)
        assert f"1 (127.0.0.1:{port})" in str(caught.value)
        assert PASSWORD not in str(caught.value)
        assert brokers.state(1) is NodeState.BACKOFF
        assert type(brokers.last_error(1)) is type(caught.value)
        return caught.value


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
        (encode(refusal(2), ApiVersionsRequest.MAX_VERSION), 2),  # the layout of the version that is refused
        (encode(refusal(2), 0) + b"\0\0\0\0", 2),  # as Azure Event Hubs adds a throttle time
        (struct.pack(">hbhhh", 35, 2, 18, 0, 2), 0),  # version 0, but for a compact array
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


async def test_a_broker_that_refuses_with_another_error() -> None:
    async def handler(peer: Peer) -> None:
        await peer.answer(await peer.read(), ApiVersionsResponse(error_code=ClusterAuthorizationFailedError.code))
        await peer.drain()

    assert isinstance(await failure(handler), ClusterAuthorizationFailedError)


# --- something else listens there ---


@pytest.mark.parametrize(
    ("answer", "kind", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", NotKafkaError, "HTTP/1.1 400 Bad Request"),
        (bytes.fromhex("15030100020246"), NotKafkaError, "security_protocol"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", NotKafkaError, "SSH"),
        (b"\x4a\x00\x00\x00\x0a8.0.30\x00", NotKafkaError, "4a 00 00 00"),
        (struct.pack(">i", 5_000_000), NotKafkaError, "bootstrap_servers"),
        (struct.pack(">i", -2), MalformedMessageError, "-2"),
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

    error = await failure(handler, socket_connection_setup_timeout_ms=60)
    assert type(error) is KafkaConnectionError
    assert "60 ms during ApiVersions" in str(error)


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
            # TLS 1.3's client is done before the server has seen that there is no certificate; whether its alert or
            # the end of the connection comes first is the server's to decide.
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
    options = {"security_protocol": "SSL", "ssl_context": certificates.client()}
    error = await failure(handler, socket_connection_setup_timeout_ms=80, **options)
    assert "during the TLS handshake" in str(error)


# --- SASL ---


def sasl_server(
    authenticate: Callable[[Peer], Awaitable[None]], handshake: SaslHandshakeResponse | None = None
) -> Handler:
    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        request = await peer.read()
        assert isinstance(request.request, SaslHandshakeRequest)
        assert request.version == 1
        await peer.answer(request, handshake or SaslHandshakeResponse(mechanisms=[request.request.mechanism]))
        await authenticate(peer)
        await peer.serve_heartbeats()

    return handler


async def read_bytes(peer: Peer) -> tuple[RequestFrame, bytes]:
    frame = await peer.read()
    assert isinstance(frame.request, SaslAuthenticateRequest)
    return frame, frame.request.auth_bytes


async def test_plain() -> None:
    async def authenticate(peer: Peer) -> None:
        frame, message = await read_bytes(peer)
        assert message == b"\0alice\0top-secret"
        await peer.answer(frame, SaslAuthenticateResponse())

    async with serve(sasl_server(authenticate)) as port, client(port, **SASL) as brokers:
        connection = await brokers.get(1)
        await connection.request(heartbeat())
        assert PASSWORD not in repr(connection)


def scram(mechanism: str, hash_name: str, password: str = PASSWORD) -> Callable[[Peer], Awaitable[None]]:
    """RFC 5802's server, which knows this password."""

    async def authenticate(peer: Peer) -> None:
        salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), b"salt", 4096)
        stored = hashlib.new(hash_name, hmac.digest(salted, b"Client Key", hash_name)).digest()
        frame, client_first = await read_bytes(peer)
        bare = client_first.decode().removeprefix("n,,")
        server_first = f"r={bare.partition('r=')[2]}more,s={b64encode(b'salt').decode()},i=4096"
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=server_first.encode()))
        frame, client_final = await read_bytes(peer)
        without_proof, _, proof = client_final.decode().rpartition(",p=")
        message = f"{bare},{server_first},{without_proof}".encode()
        expected = hmac.digest(stored, message, hash_name)
        key = bytes(a ^ b for a, b in zip(b64decode(proof), expected, strict=True))
        if hashlib.new(hash_name, key).digest() != stored:
            await peer.answer(
                frame,
                SaslAuthenticateResponse(
                    error_code=SaslAuthenticationFailedError.code, error_message=f"no {mechanism} for you"
                ),
            )
            return
        signature = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), message, hash_name)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=b"v=" + b64encode(signature)))

    return authenticate


@pytest.mark.parametrize(("mechanism", "hash_name"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
async def test_scram(mechanism: str, hash_name: str) -> None:
    options = SASL | {"sasl_mechanism": mechanism}
    async with serve(sasl_server(scram(mechanism, hash_name))) as port, client(port, **options) as brokers:
        await (await brokers.get(1)).request(heartbeat())
    error = await failure(sasl_server(scram(mechanism, hash_name, "another")), **options)
    assert isinstance(error, SaslAuthenticationFailedError)
    assert f"no {mechanism} for you" in str(error)
    assert not error.retriable


async def test_a_server_that_cannot_prove_the_password_is_not_talked_to() -> None:
    async def authenticate(peer: Peer) -> None:
        frame, client_first = await read_bytes(peer)
        nonce = client_first.decode().rpartition("r=")[2]
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=f"r={nonce}x,s=c2FsdA==,i=4096".encode()))
        frame, _ = await read_bytes(peer)
        await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=b"v=" + b64encode(bytes(32))))

    error = await failure(sasl_server(authenticate), **(SASL | {"sasl_mechanism": "SCRAM-SHA-256"}))
    assert isinstance(error, SaslAuthenticationFailedError)
    assert "could not prove" in str(error)


async def test_a_mechanism_that_the_broker_lacks() -> None:
    async def never(peer: Peer) -> None:
        await peer.drain()

    refusal = SaslHandshakeResponse(
        error_code=UnsupportedSaslMechanismError.code, mechanisms=["SCRAM-SHA-512", "OAUTHBEARER"]
    )
    error = await failure(sasl_server(never, refusal), **SASL)
    assert isinstance(error, UnsupportedSaslMechanismError)
    assert "it offers OAUTHBEARER, SCRAM-SHA-512" in str(error)


async def test_sasl_at_a_listener_without_it() -> None:
    async def never(peer: Peer) -> None:
        await peer.drain()

    error = await failure(sasl_server(never, SaslHandshakeResponse(error_code=IllegalSaslStateError.code)), **SASL)
    assert isinstance(error, IllegalSaslStateError)
    assert "security_protocol" in str(error)


async def test_an_exchange_that_never_ends_is_ended() -> None:
    async def authenticate(peer: Peer) -> None:
        for number in range(MAX_SASL_ROUNDS + 1):
            frame, _ = await read_bytes(peer)
            challenge = b"r=x,s=c2FsdA==,i=4096" if number else b""
            await peer.answer(frame, SaslAuthenticateResponse(auth_bytes=challenge))

    error = await failure(sasl_server(authenticate), **(SASL | {"sasl_mechanism": "SCRAM-SHA-256"}))
    assert isinstance(error, SaslAuthenticationFailedError)


async def test_a_broker_that_hangs_up_during_authentication() -> None:
    async def authenticate(peer: Peer) -> None:
        await read_bytes(peer)
        await peer.stream.aclose()

    error = await failure(sasl_server(authenticate), **SASL)
    assert type(error) is KafkaConnectionError
    assert "SaslAuthenticate was in flight" in str(error)


async def test_a_session_that_ends_is_replaced_in_time() -> None:
    connections = 0
    closed = anyio.Event()

    async def handler(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await peer.shake_hands()
        handshake = await peer.read()
        await peer.answer(handshake, SaslHandshakeResponse(mechanisms=["PLAIN"]))
        frame, _ = await read_bytes(peer)
        await peer.answer(frame, SaslAuthenticateResponse(session_lifetime_ms=200 if connections == 1 else 0))
        await peer.answer(await peer.read(), HeartbeatResponse())
        await peer.drain()
        closed.set()

    async with serve(handler) as port, client(port, **SASL) as brokers:
        changes = Changes(brokers)
        first = await brokers.get(1)
        await first.request(heartbeat())
        await changes.until(lambda: not first.ready)
        with anyio.fail_after(10):
            await closed.wait()
        assert brokers.last_error(1) is None
        second = await brokers.get(1)
        assert second is not first
        await second.request(heartbeat())


async def test_passwords_and_proofs_stay_out_of_logs(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def refuse(peer: Peer) -> None:
        frame, _ = await read_bytes(peer)
        await peer.answer(
            frame, SaslAuthenticateResponse(error_code=SaslAuthenticationFailedError.code, error_message="go away")
        )

    async def accept(peer: Peer) -> None:
        frame, _ = await read_bytes(peer)
        await peer.answer(frame, SaslAuthenticateResponse())

    await failure(sasl_server(refuse), **SASL)
    async with serve(sasl_server(accept)) as port, client(port, **SASL) as brokers:
        await brokers.get(1)
    assert "go away" in caplog.text
    assert PASSWORD not in caplog.text
