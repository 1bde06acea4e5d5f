"""TLS listeners and SASL, from the broker's side; other clients are the judges of the mechanisms."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import aiokafka
import anyio
import confluent_kafka
import pytest
import trustme

from aiokafka_lead import Producer, errors
from aiokafka_lead._wire.messages.api_versions import ApiVersionsRequest
from aiokafka_lead._wire.messages.metadata import MetadataRequest
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lead.testing import ClusterThread, EmbeddedCluster

from .raw import RawClient, connected

USERS = {"alice": "alice-secret", "bob": "bob,=secret"}

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def server_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost", "127.0.0.1").configure_cert(context)
    return context


@pytest.fixture(scope="module")
def client_context(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@pytest.mark.anyio
async def test_nothing_goes_before_authentication() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS) as cluster:
        async with connected(cluster.address(1)) as client:
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == 0
            await client.send(MetadataRequest(topics=None))
            assert await client.is_closed()
        async with connected(cluster.address(1)) as client:
            unknown = await client.call(SaslHandshakeRequest(mechanism="GSSAPI"))
            assert (unknown.error_code, unknown.mechanisms) == (errors.UnsupportedSaslMechanismError.code, MECHANISMS)
        async with connected(cluster.address(1)) as client:
            assert (await client.call(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == 0
            answer = await client.call(SaslAuthenticateRequest(auth_bytes=b"\0alice\0alice-secret"))
            assert (answer.error_code, answer.auth_bytes) == (0, b"")
            assert (await client.call(MetadataRequest(topics=None))).brokers


@pytest.mark.anyio
async def test_a_listener_without_authentication_says_so() -> None:
    async with EmbeddedCluster(brokers=1) as cluster:
        async with connected(cluster.address(1)) as client:
            answer = await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
            assert (answer.error_code, answer.mechanisms) == (errors.IllegalSaslStateError.code, [])
        producer = Producer(
            cluster.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_plain_username="alice",
            sasl_plain_password="secret",
        )
        with pytest.raises(errors.IllegalSaslStateError, match="set security_protocol"):
            await producer.start()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        ("PLAIN", b"\0alice\0wrong"),
        ("PLAIN", b"\0mallory\0alice-secret"),
        ("PLAIN", b"nonsense"),
        ("SCRAM-SHA-256", b"n,,n=mallory,r=abc"),
        ("SCRAM-SHA-256", b"nonsense"),
        ("", b"\0alice\0alice-secret"),
    ],
)
async def test_who_is_not_known_is_told_and_closed(mechanism: str, message: bytes) -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS) as cluster, connected(cluster.address(1)) as client:
        if mechanism:
            await client.call(SaslHandshakeRequest(mechanism=mechanism))
        answer = await client.call(SaslAuthenticateRequest(auth_bytes=message))
        assert answer.error_code == errors.SaslAuthenticationFailedError.code
        assert answer.error_message
        assert await client.is_closed()


@pytest.mark.anyio
async def test_a_wrong_scram_proof_is_refused() -> None:
    async with EmbeddedCluster(brokers=1, sasl_users=USERS) as cluster, connected(cluster.address(1)) as client:
        await client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"))
        first = await client.call(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=abc"))
        assert first.auth_bytes.startswith(b"r=abc")
        nonce = first.auth_bytes.split(b",")[0]
        final = await client.call(SaslAuthenticateRequest(auth_bytes=b"c=biws," + nonce + b",p=AAAA"))
        assert final.error_code == errors.SaslAuthenticationFailedError.code


@pytest.mark.anyio
async def test_tls(server_context: ssl.SSLContext, client_context: ssl.SSLContext) -> None:
    async with EmbeddedCluster(brokers=1, ssl_context=server_context) as cluster:
        host, _, port = cluster.address(1).rpartition(":")
        async with await anyio.connect_tcp(
            host, int(port), ssl_context=client_context, tls_hostname="localhost", tls_standard_compatible=False
        ) as stream:
            client = RawClient(stream)
            assert (await client.call(MetadataRequest(topics=None))).brokers
            await cluster.kill_broker(1)
            with pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
                await stream.receive()
        await cluster.start_broker(1)
        # Plaintext is not TLS: the connection ends, the broker continues.
        async with connected(cluster.address(1)) as plain:
            await plain.send(MetadataRequest(topics=None))
            await plain.wait_closed()
        async with await anyio.connect_tcp(
            host, int(port), ssl_context=client_context, tls_hostname="localhost", tls_standard_compatible=False
        ) as stream:
            assert (await RawClient(stream).call(MetadataRequest(topics=None))).brokers


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("tls", [False, True])
def test_confluent(
    mechanism: str, tls: bool, server_context: ssl.SSLContext, authority: trustme.CA, tmp_path: Path
) -> None:
    context = server_context if tls else None
    with ClusterThread(EmbeddedCluster(brokers=2, sasl_users=USERS, ssl_context=context)) as cluster:
        cluster.create_topic("t")
        trusted = tmp_path / "ca.pem"
        authority.cert_pem.write_to_path(trusted)
        options: dict[str, Any] = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": "bob",
            "sasl.password": "bob,=secret",
            "ssl.ca.location": str(trusted),
        }
        producer = confluent_kafka.Producer(options)
        producer.produce("t", b"v")
        assert producer.flush(20) == 0
        assert [record.value for record in cluster.records("t")] == [b"v"]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_aiokafka(mechanism: str) -> None:
    async def run(servers: str) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password="alice-secret",
        )
        async with producer:
            await producer.send_and_wait("t", b"v")

    with ClusterThread(EmbeddedCluster(brokers=1, sasl_users=USERS)) as cluster:
        cluster.create_topic("t")
        asyncio.run(run(cluster.bootstrap_servers))
        assert [record.value for record in cluster.records("t")] == [b"v"]
