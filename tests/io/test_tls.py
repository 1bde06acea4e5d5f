"""Choice of the TLS context: certificates that are replaced while a client runs, and texts of refusals."""

from __future__ import annotations

import datetime
import ipaddress
import logging
import os
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
import trustme
from anyio import to_thread
from anyio.streams.tls import TLSAttribute
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from aiokafka_lead._io.connection.brokers import Brokers
from aiokafka_lead._io.connection.settings import Lane
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, SslAuthenticationError

from .script import HOST, LONG_BACKOFF, Certificates, Peer, client, heartbeat, serve

pytestmark = pytest.mark.anyio

LANES = list(Lane)


class Listener:
    """A server that records the client certificates presented to it."""

    def __init__(self) -> None:
        self.certificates = Certificates()
        self.seen: list[str] = []

    def issue(self, name: str) -> bytes:
        """Issue a client's key and certificate."""
        return self.certificates.authority.issue_cert(f"{name}@example.org").private_key_and_cert_chain_pem.bytes()

    async def serve_one(self, peer: Peer) -> None:
        shown: Any = peer.stream.extra(TLSAttribute.peer_certificate)
        self.seen.append(str(shown["subjectAltName"][0][1]).partition("@")[0])
        await peer.shake_hands()
        await peer.serve_heartbeats()

    @asynccontextmanager
    async def reached(self, **options: Any) -> AsyncIterator[Brokers]:
        server = self.certificates.server(require_client=True)
        async with serve(self.serve_one, tls=server) as port, client(port, security_protocol="SSL", **options) as found:
            yield found

    def trusting(self, folder: Path) -> str:
        path = folder / "ca.pem"
        self.certificates.authority.cert_pem.write_to_path(path)
        return str(path)


async def connect(brokers: Brokers, lane: Lane) -> None:
    connection = await brokers.get(1, lane)
    await connection.request(heartbeat())


def written_over(folder: Path) -> tuple[Path, Callable[[bytes], None]]:
    path = folder / "own.pem"
    return path, lambda pem: _ignore(path.write_bytes(pem))


def renamed(folder: Path) -> tuple[Path, Callable[[bytes], None]]:
    path = folder / "own.pem"

    def replace(pem: bytes) -> None:
        (folder / "new").write_bytes(pem)
        os.replace(folder / "new", path)

    return path, replace


def kubernetes(folder: Path) -> tuple[Path, Callable[[bytes], None]]:
    """Mount a secret: ``own.pem -> ..data/own.pem``, ``..data -> ..TIME``; a replacement switches ``..data``."""
    path = folder / "own.pem"
    path.symlink_to("..data/own.pem")
    versions = iter(range(100))

    def replace(pem: bytes) -> None:
        version = folder / f"..{next(versions)}"
        version.mkdir()
        (version / "own.pem").write_bytes(pem)
        os.utime(version / "own.pem", (1, 1))
        (folder / "..data_tmp").symlink_to(version.name)
        os.replace(folder / "..data_tmp", folder / "..data")

    return path, replace


def _ignore(_: object) -> None:
    return None


@pytest.mark.parametrize("how", [written_over, renamed, kubernetes])
async def test_the_next_connection_presents_the_new_certificate(
    how: Callable[[Path], tuple[Path, Callable[[bytes], None]]], tmp_path: Path
) -> None:
    listener = Listener()
    path, replace = how(tmp_path)
    replace(listener.issue("first"))
    async with listener.reached(ssl_cafile=listener.trusting(tmp_path), ssl_certfile=path) as brokers:
        await connect(brokers, LANES[0])
        await connect(brokers, LANES[1])
        replace(listener.issue("second"))
        await connect(brokers, LANES[2])
        await connect(brokers, LANES[0])  # this one is open, and stays open
    assert listener.seen == ["first", "first", "second"]


async def test_a_new_authority_is_trusted_and_the_old_one_no_longer(tmp_path: Path) -> None:
    listener, other = Listener(), Listener()
    ca, own = Path(listener.trusting(tmp_path)), tmp_path / "own.pem"
    own.write_bytes(listener.issue("alice"))
    async with listener.reached(ssl_cafile=ca, ssl_certfile=own) as brokers:
        await connect(brokers, LANES[0])
        other.trusting(tmp_path)
        with pytest.raises(SslAuthenticationError, match="set ssl_cafile to the certificate of the authority"):
            await connect(brokers, LANES[1])


async def test_a_broken_replacement_keeps_the_old_certificate_and_warns_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    listener = Listener()
    own = tmp_path / "own.pem"
    own.write_bytes(listener.issue("first"))
    with caplog.at_level(logging.WARNING, "aiokafka_lead"):
        async with listener.reached(ssl_cafile=listener.trusting(tmp_path), ssl_certfile=own) as brokers:
            await connect(brokers, LANES[0])
            own.write_bytes(b"half of a")
            await connect(brokers, LANES[1])
            await connect(brokers, LANES[2])
            (warning,) = caplog.records
            assert "the TLS context could not be renewed" in warning.getMessage()
            assert f"ssl_certfile ({own}): this is neither PEM nor PKCS #12" in warning.getMessage()
            own.write_bytes(listener.issue("second"))
            await connect(brokers, LANES[3])
    assert listener.seen == ["first", "first", "first", "second"]


async def test_files_that_vanish_before_the_first_connection_are_waited_for(tmp_path: Path) -> None:
    listener = Listener()
    own = tmp_path / "own.pem"
    own.write_bytes(listener.issue("alice"))
    async with listener.reached(
        ssl_cafile=listener.trusting(tmp_path), ssl_certfile=own, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1
    ) as brokers:
        own.rename(tmp_path / "elsewhere")
        with pytest.raises(KafkaConnectionError, match=r"ssl_certfile .*: No such file or directory") as caught:
            await connect(brokers, LANES[0])
        assert caught.value.retriable
        (tmp_path / "elsewhere").rename(own)
        await connect(brokers, LANES[0])
    assert listener.seen == ["alice"]


@pytest.mark.parametrize("waits", [False, True])
async def test_a_callable_gives_the_context_of_each_connection(waits: bool, caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    threads: list[bool] = []
    answers: list[object] = ["first", "second", OSError("the vault is closed"), 5, "third"]

    def give() -> ssl.SSLContext:
        threads.append(threading.current_thread() is main)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, str):
            return answer  # type: ignore[return-value]
        context = listener.certificates.client()
        with trustme.Blob(listener.issue(answer)).tempfile() as path:
            context.load_cert_chain(path)
        return context

    async def give_later() -> ssl.SSLContext:
        return give()

    main = threading.current_thread()
    with caplog.at_level(logging.WARNING, "aiokafka_lead"):
        async with listener.reached(ssl_context=give_later if waits else give) as brokers:
            for lane in LANES[:4]:
                await connect(brokers, lane)
    assert listener.seen == ["first", "second", "second", "second"]
    assert threads == [waits] * 4
    reasons = [record.getMessage().partition("cannot be used now: ")[2] for record in caplog.records]
    assert reasons == ["the vault is closed", "it must be an ssl.SSLContext, not int"]


async def test_a_callable_that_fails_at_first_is_asked_again() -> None:
    listener = Listener()
    context = listener.certificates.client(certificate=False)
    with trustme.Blob(listener.issue("alice")).tempfile() as path:
        context.load_cert_chain(path)
    answers = [context]

    def give() -> ssl.SSLContext:
        if not asked:
            asked.append(True)
            raise LookupError("no secret yet")
        return answers[0]

    asked: list[bool] = []
    async with listener.reached(ssl_context=give, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1) as brokers:
        with pytest.raises(KafkaConnectionError, match="the result of ssl_context cannot be used now: no secret yet"):
            await connect(brokers, LANES[0])
        await connect(brokers, LANES[0])
    assert listener.seen == ["alice"]


# --- refusals ---


def _no_certificate(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificates.server(require_client=True), certificates.client()


def _foreign_certificate(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    context = certificates.client()
    trustme.CA().issue_cert("alice@example.org").configure_cert(context)
    return certificates.server(require_client=True), context


def _other_versions(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, context = certificates.server(), certificates.client()
    server.maximum_version = ssl.TLSVersion.TLSv1_2
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return server, context


def _other_ciphers(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    server, context = certificates.server(), certificates.client()
    server.set_ciphers("ECDHE-ECDSA-AES256-GCM-SHA384")
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    return server, context


def _other_name(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificates.server("elsewhere.example"), certificates.client()


def _no_authority(certificates: Certificates) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificates.server(), certificates.client(trusting=False)


def _refuse(listening: socket.socket, server: ssl.SSLContext) -> None:
    """Make a handshake like OpenSSL's servers: the alert is sent before the end."""
    accepted, _ = listening.accept()
    with accepted:
        try:
            with server.wrap_socket(accepted, server_side=True) as stream:
                stream.recv(1)
        except OSError:  # includes ssl.SSLError
            accepted.close()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_no_certificate, "HANDSHAKE_FAILURE"),
        (
            _foreign_certificate,
            "does not accept the client certificate of ssl_certfile: the broker does not know the a",
        ),
        (_other_versions, "broker and client have no version of TLS in common"),
        (_other_ciphers, "broker and client have no cipher in common, or the listener wants a client certificate"),
        (_other_name, "connect by a name that is in it"),
        (_no_authority, "set ssl_cafile to the certificate of the authority"),
    ],
)
async def test_a_refusal_names_its_cure(
    make: Callable[[Certificates], tuple[ssl.SSLContext, ssl.SSLContext]], words: str
) -> None:
    server, context = make(Certificates())
    if context.minimum_version != ssl.TLSVersion.TLSv1_3:
        server.maximum_version = ssl.TLSVersion.TLSv1_2  # so that a refusal comes within the handshake
    with socket.create_server((HOST, 0)) as listening:
        async with anyio.create_task_group() as group:
            group.start_soon(to_thread.run_sync, _refuse, listening, server)
            port = listening.getsockname()[1]
            async with client(port, security_protocol="SSL", ssl_context=context, **LONG_BACKOFF) as brokers:
                with pytest.raises(SslAuthenticationError, match=words) as caught:
                    await brokers.get(1)
                assert not caught.value.retriable


async def test_a_server_that_drops_a_client_of_tls_1_3() -> None:
    """Java's brokers do so; no alert comes."""

    async def handler(peer: Peer) -> None:
        await peer.stream.receive()

    context = Certificates().client()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    async with (
        serve(handler) as port,
        client(port, security_protocol="SSL", ssl_context=context, **LONG_BACKOFF) as brokers,
    ):
        with pytest.raises(KafkaError, match=r"the broker may not know TLS 1\.3, the least that ssl_context allows"):
            await brokers.get(1)


# --- strictness ---


def _lenient_certificates(folder: Path) -> tuple[str, ssl.SSLContext]:
    """Return the file of an authority, and a server's context with its certificate, both without key identifiers.

    Strimzi's certificates are like that.
    """
    now = datetime.datetime.now(datetime.UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster-ca")])

    def issue(name: str, key: ec.EllipticCurvePrivateKey, extension: x509.ExtensionType, critical: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical)
        )
        return builder.sign(keys[0], hashes.SHA256()).public_bytes(Encoding.PEM)

    (folder / "ca.pem").write_bytes(issue("cluster-ca", keys[0], x509.BasicConstraints(True, None), True))
    host = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))])
    own = keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "server.pem").write_bytes(own + issue("kafka", keys[1], host, False))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem")
    return str(folder / "ca.pem"), server


def _strict_default_context(**options: Any) -> ssl.SSLContext:
    """Return the default context of Python 3.13 and later."""
    context = DEFAULT_CONTEXT(**options)
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


DEFAULT_CONTEXT = ssl.create_default_context


async def test_certificates_without_key_identifiers_are_accepted_as_by_other_clients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssl, "create_default_context", _strict_default_context)
    ca, server = _lenient_certificates(tmp_path)

    async def handler(peer: Peer) -> None:
        await peer.shake_hands()
        await peer.serve_heartbeats()

    async with serve(handler, tls=server) as port:
        async with client(port, security_protocol="SSL", ssl_cafile=ca) as brokers:
            await connect(brokers, LANES[0])
        context = ssl.create_default_context(cafile=ca)  # the application's own
        async with client(port, security_protocol="SSL", ssl_context=context, **LONG_BACKOFF) as brokers:
            with pytest.raises(SslAuthenticationError, match=r"Key Identifier.*VERIFY_X509_STRICT"):
                await brokers.get(1)
