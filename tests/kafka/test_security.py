"""TLS and SASL against real listeners, on both event loops."""

from __future__ import annotations

import ssl
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from aiokafka_lead import AdminClient, Producer
from aiokafka_lead._wire.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lead._wire.messages.sasl_handshake import SaslHandshakeRequest
from aiokafka_lead.errors import (
    DeliveryTimeoutError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
)
from tests.kerberos import Realm
from tests.testing.raw import connected

from .harness import PASSWORD, USER, Certificates, KafkaCluster, Listener
from .support import in_thread, make_producer, read_topic

pytestmark = pytest.mark.anyio

_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
_SASL = (Listener.SASL_PLAINTEXT, Listener.SASL_SSL)


def _options(kafka: KafkaCluster, listener: Listener, mechanism: str | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": listener.protocol,
    }
    if mechanism is not None:
        options["sasl_mechanism"] = mechanism
    if mechanism in _MECHANISMS:
        options |= {"sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    if listener.protocol.endswith("SSL"):
        assert kafka.certificates is not None
        options["ssl_cafile"] = kafka.certificates.authority
    return options


async def _pass_through(kafka: KafkaCluster, topic: str, options: dict[str, Any]) -> None:
    """Send and read records of three leaders, larger than one TLS record and one socket buffer."""
    async with make_producer(kafka, **options) as producer:
        for i in range(30):
            await producer.send(topic, b"%d" % i * 100_000, partition=i % 3)
        await producer.flush()
    received = await read_topic(kafka, topic, 3, 30, **options)
    assert sorted(r.value for r in received) == sorted(b"%d" % i * 100_000 for i in range(30))


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        (Listener.SSL, None),
        *((listener, mechanism) for listener in _SASL for mechanism in _MECHANISMS),
    ],
)
async def test_records_go_through_each_listener(
    kafka: KafkaCluster, topic_name: Callable[[], str], listener: Listener, mechanism: str | None
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    await _pass_through(kafka, topic, _options(kafka, listener, mechanism))


@pytest.mark.parametrize("listener", _SASL)
async def test_records_go_through_with_kerberos(
    kafka: KafkaCluster,
    realm: Realm,
    topic_name: Callable[[], str],
    listener: Listener,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KRB5_CONFIG", str(realm.config))
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    options = _options(kafka, listener, "GSSAPI")
    await _pass_through(kafka, topic, options | {"sasl_kerberos_keytab": realm.client_keytab})


async def _delegation_token(kafka: KafkaCluster) -> dict[str, Any]:
    """Return a delegation token, the user's login in place of the password."""
    async with connected(kafka.address(1, Listener.SASL_PLAINTEXT)) as client:
        await client.call(SaslHandshakeRequest(mechanism="PLAIN"))
        await client.call(SaslAuthenticateRequest(auth_bytes=f"\0{USER}\0{PASSWORD}".encode()))
        token = await client.call(CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1))
    assert token.error_code == 0
    password = b64encode(token.hmac).decode()
    return {"sasl_plain_username": token.token_id, "sasl_plain_password": password, "sasl_delegation_token": True}


@pytest.mark.parametrize("listener", _SASL)
async def test_records_go_through_with_a_delegation_token(
    kafka: KafkaCluster, topic_name: Callable[[], str], listener: Listener
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    options = _options(kafka, listener, "SCRAM-SHA-256")
    given = options | await _delegation_token(kafka)
    while True:  # the controller knows the token, and each broker will in a moment
        try:
            for broker_id in kafka.broker_ids:
                at_one: dict[str, Any] = given | {"bootstrap_servers": kafka.address(broker_id, listener)}
                async with AdminClient(**at_one):
                    pass
        except SaslAuthenticationFailedError:
            continue
        break
    await _pass_through(kafka, topic, given)
    refused: dict[str, Any] = given | {"sasl_delegation_token": False}
    with pytest.raises(SaslAuthenticationFailedError):
        async with AdminClient(**refused):
            pass


async def test_a_client_certificate_is_demanded(kafka: KafkaCluster, topic_name: Callable[[], str]) -> None:
    assert kafka.certificates is not None
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    options = _options(kafka, Listener.MUTUAL, None)
    await _pass_through(kafka, topic, options | {"ssl_certfile": kafka.certificates.client_certificate})
    for versions in ({}, {"minimum_version": ssl.TLSVersion.TLSv1_3}, {"maximum_version": ssl.TLSVersion.TLSv1_2}):
        context = kafka.certificates.context()
        for name, version in versions.items():
            setattr(context, name, version)
        without: dict[str, Any] = options | {"ssl_context": context}
        del without["ssl_cafile"]
        with anyio.fail_after(60), pytest.raises(SslAuthenticationError, match="wants a client certificate"):
            async with AdminClient(**without):
                pass


async def test_a_client_certificate_is_replaced_under_load(
    kafka: KafkaCluster, topic_name: Callable[[], str], tmp_path: Path
) -> None:
    assert kafka.certificates is not None
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    own = tmp_path / "own.pem"
    own.write_bytes(kafka.certificates.client_certificate.read_bytes())
    options = _options(kafka, Listener.MUTUAL, None) | {"ssl_certfile": own}
    short = {"request_timeout_ms": 5_000, "delivery_timeout_ms": 6_000}
    async with make_producer(kafka, **options, **short) as producer:  # each partition is led by another broker
        await _send(producer, topic, 0)
        own.write_bytes(kafka.certificates.issue_client())
        await _send(producer, topic, 1)
        # A file that the third broker refuses proves that the client has read it again: at once, or, if that broker was
        # connected before, when the record times out.
        own.write_bytes((await in_thread(Certificates.make, tmp_path / "foreign")).issue_client())
        with pytest.raises(_REFUSED, match="does not accept the client certificate"):
            await producer.send_and_wait(topic, b"refused", partition=2)
        own.write_bytes(kafka.certificates.issue_client())
        with anyio.fail_after(60):
            while not await _goes_through(producer, topic, 2):  # until the backoff expires
                pass
        await _send(producer, topic, 2)
    assert len(await read_topic(kafka, topic, 3, 151, **options)) == 151


_REFUSED = (SslAuthenticationError, DeliveryTimeoutError)


async def _goes_through(producer: Producer, topic: str, partition: int) -> bool:
    try:
        await producer.send_and_wait(topic, b"again", partition=partition)
    except _REFUSED:
        return False
    return True


async def _send(producer: Producer, topic: str, partition: int) -> None:
    for number in range(50):
        await producer.send_and_wait(topic, b"%d" % number, partition=partition)


@pytest.mark.parametrize("mechanism", _MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
async def test_wrong_credentials_are_refused_at_once(
    kafka: KafkaCluster, mechanism: str, user: str, password: str
) -> None:
    options = _options(kafka, Listener.SASL_PLAINTEXT, mechanism)
    options |= {"sasl_plain_username": user, "sasl_plain_password": password}
    with anyio.fail_after(60), pytest.raises(SaslAuthenticationFailedError) as caught:
        async with make_producer(kafka, **options):
            pass
    assert not caught.value.retriable
    assert password not in str(caught.value)


async def test_an_unknown_authority_is_refused_at_once(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = _options(kafka, Listener.SSL, None)
    options["ssl_cafile"] = (await in_thread(Certificates.make, tmp_path)).authority
    with anyio.fail_after(60), pytest.raises(SslAuthenticationError, match="certificate") as caught:
        async with make_producer(kafka, **options):
            pass
    assert not caught.value.retriable


async def test_a_listener_without_tls_1_3_is_named(kafka: KafkaCluster) -> None:
    assert kafka.certificates is not None
    context = kafka.certificates.context()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    options = _options(kafka, Listener.SASL_SSL, "PLAIN") | {"ssl_context": context, "request_timeout_ms": 3000}
    del options["ssl_cafile"]
    with anyio.fail_after(60), pytest.raises(KafkaError, match=r"TLS 1\.3|no version of TLS in common"):
        async with AdminClient(**options):
            pass


async def test_the_wrong_protocol_for_a_port_is_named(kafka: KafkaCluster) -> None:
    assert kafka.certificates is not None
    with anyio.fail_after(60), pytest.raises(KafkaConnectionError, match="TLS"):
        async with make_producer(kafka, bootstrap_servers=kafka.bootstrap(Listener.SSL), request_timeout_ms=3000):
            pass
    options = _options(kafka, Listener.SSL, None) | {"bootstrap_servers": kafka.bootstrap(), "request_timeout_ms": 3000}
    with anyio.fail_after(60), pytest.raises(KafkaError, match="TLS"):
        async with make_producer(kafka, **options):
            pass
    options = {"bootstrap_servers": kafka.bootstrap(Listener.SASL_PLAINTEXT), "request_timeout_ms": 3000}
    with anyio.fail_after(60), pytest.raises(KafkaError):
        async with make_producer(kafka, **options):
            pass
