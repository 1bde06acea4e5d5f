"""Authentication by SASL on an open connection: mechanisms, refusals, sessions."""

from __future__ import annotations

import hashlib
import hmac
import logging
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable

import anyio
import pytest

from aiokafka_lead._io.connection.login import MAX_SASL_ROUNDS
from aiokafka_lead._wire import RequestFrame
from aiokafka_lead._wire.messages.heartbeat import HeartbeatResponse
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokafka_lead.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from ..patience import again_if_late
from .handshakes import PASSWORD, SASL, failure
from .script import Changes, Handler, Peer, client, heartbeat, serve

pytestmark = pytest.mark.anyio


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
    """Serve RFC 5802's exchange with this password."""

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
    assert "signature is wrong" in str(error)


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


@again_if_late(200, 5000)
async def test_a_session_that_ends_is_replaced_in_time(session_ms: int) -> None:
    connections = 0
    closed = anyio.Event()

    async def handler(peer: Peer) -> None:
        nonlocal connections
        connections += 1
        await peer.shake_hands()
        handshake = await peer.read()
        await peer.answer(handshake, SaslHandshakeResponse(mechanisms=["PLAIN"]))
        frame, _ = await read_bytes(peer)
        await peer.answer(frame, SaslAuthenticateResponse(session_lifetime_ms=session_ms if connections == 1 else 0))
        await peer.answer(await peer.read(), HeartbeatResponse())
        await peer.drain()
        closed.set()

    async with serve(handler) as port, client(port, **SASL) as brokers:
        changes = Changes(brokers)
        first = await brokers.get(1)
        await first.request(heartbeat())
        await changes.until(lambda: not first.ready)
        with anyio.fail_after(20):
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
