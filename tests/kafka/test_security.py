"""TLS and SASL against real listeners, on both event loops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from aiokafka_lead import AdminClient
from aiokafka_lead.errors import KafkaConnectionError, KafkaError, SaslAuthenticationFailedError, SslAuthenticationError

from .harness import PASSWORD, USER, Certificates, KafkaCluster, Listener
from .support import in_thread, make_producer, read_topic

pytestmark = pytest.mark.anyio

_MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


def _options(kafka: KafkaCluster, listener: Listener, mechanism: str | None) -> dict[str, object]:
    options: dict[str, object] = {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": listener.value,
    }
    if mechanism is not None:
        options |= {"sasl_mechanism": mechanism, "sasl_plain_username": USER, "sasl_plain_password": PASSWORD}
    if listener.value.endswith("SSL"):
        assert kafka.certificates is not None
        options["ssl_context"] = kafka.certificates.context()
    return options


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [
        (Listener.SSL, None),
        *((listener, m) for listener in (Listener.SASL_PLAINTEXT, Listener.SASL_SSL) for m in _MECHANISMS),
    ],
)
async def test_records_go_through_each_listener(
    kafka: KafkaCluster, topic_name: Callable[[], str], listener: Listener, mechanism: str | None
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    options = _options(kafka, listener, mechanism)
    async with make_producer(kafka, **options) as producer:
        # Three leaders, and records larger than one TLS record and one socket buffer.
        for i in range(30):
            await producer.send(topic, b"%d" % i * 100_000, partition=i % 3)
        await producer.flush()
    received = await read_topic(kafka, topic, 3, 30, **options)
    assert sorted(r.value for r in received) == sorted(b"%d" % i * 100_000 for i in range(30))


async def test_a_client_certificate_is_presented(kafka: KafkaCluster) -> None:
    assert kafka.certificates is not None
    context = kafka.certificates.context(with_certificate=True)
    async with AdminClient(kafka.bootstrap(Listener.SSL), security_protocol="SSL", ssl_context=context):
        pass


@pytest.mark.parametrize("mechanism", _MECHANISMS)
@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
async def test_wrong_credentials_are_refused_at_once(
    kafka: KafkaCluster, mechanism: str, user: str, password: str
) -> None:
    options = _options(kafka, Listener.SASL_PLAINTEXT, mechanism)
    options |= {"sasl_plain_username": user, "sasl_plain_password": password}
    with anyio.fail_after(10), pytest.raises(SaslAuthenticationFailedError) as caught:
        async with make_producer(kafka, **options):
            pass
    assert not caught.value.retriable
    assert password not in str(caught.value)


async def test_an_unknown_authority_is_refused_at_once(kafka: KafkaCluster, tmp_path: Path) -> None:
    options = _options(kafka, Listener.SSL, None)
    options["ssl_context"] = (await in_thread(Certificates.make, tmp_path)).context()
    with anyio.fail_after(10), pytest.raises(SslAuthenticationError, match="certificate") as caught:
        async with make_producer(kafka, **options):
            pass
    assert not caught.value.retriable


async def test_the_wrong_protocol_for_a_port_is_named(kafka: KafkaCluster) -> None:
    assert kafka.certificates is not None
    with anyio.fail_after(20), pytest.raises(KafkaConnectionError, match="TLS"):
        async with make_producer(kafka, bootstrap_servers=kafka.bootstrap(Listener.SSL), request_timeout_ms=3000):
            pass
    options = _options(kafka, Listener.SSL, None) | {"bootstrap_servers": kafka.bootstrap(), "request_timeout_ms": 3000}
    with anyio.fail_after(20), pytest.raises(KafkaError, match="TLS"):
        async with make_producer(kafka, **options):
            pass
    options = {"bootstrap_servers": kafka.bootstrap(Listener.SASL_PLAINTEXT), "request_timeout_ms": 3000}
    with anyio.fail_after(20), pytest.raises(KafkaError):
        async with make_producer(kafka, **options):
            pass
