"""OAUTHBEARER against real brokers, with tokens that they verify, on both event loops."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from aiokafka_lead import AdminClient
from aiokafka_lead.errors import SaslAuthenticationFailedError, TokenProviderError
from aiokafka_lead.oidc import Assertion, AssertionFile, ClientCredentials, JwtBearer, Token
from tests.oidc import certified_provider, identity_provider
from tests.oidc.identity_provider import IdentityProvider, json_answer

from .harness import KafkaCluster, Listener
from .support import in_thread, make_producer, read_topic

pytestmark = pytest.mark.anyio

SECRET = "orders-secret"


@pytest.fixture(scope="module")
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider({"orders": SECRET}).running() as provider:
        yield provider


def options(kafka: KafkaCluster, provider: Any, listener: Listener = Listener.SASL_PLAINTEXT) -> dict[str, Any]:
    tls = {}
    if listener.protocol.endswith("SSL"):
        assert kafka.certificates is not None
        tls["ssl_cafile"] = kafka.certificates.authority
    return {
        "bootstrap_servers": kafka.bootstrap(listener),
        "security_protocol": listener.protocol,
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
        **tls,
    }


@pytest.mark.parametrize(
    ("listener", "grant"),
    [
        (Listener.SASL_PLAINTEXT, "client credentials"),
        (Listener.SASL_SSL, "client credentials"),
        (Listener.SASL_PLAINTEXT, "JWT bearer"),
    ],
)
async def test_records_go_through_with_one_token(
    kafka: KafkaCluster,
    idp: IdentityProvider,
    topic_name: Callable[[], str],
    tmp_path: Path,
    listener: Listener,
    grant: str,
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name(), partitions=3)
    asked = len(idp.forms)
    provider: Any = ClientCredentials(idp.url, "orders", SECRET, extensions={"traceId": "1"})
    if grant == "JWT bearer":
        (tmp_path / "assertion.jwt").write_text("signed.by.another")
        provider = JwtBearer(idp.url, AssertionFile(tmp_path / "assertion.jwt"))
    given = options(kafka, provider, listener)
    async with make_producer(kafka, **given) as producer:
        for i in range(30):
            await producer.send(topic, b"%d" % i * 10_000, partition=i % 3)
        await producer.flush()
        received = await read_topic(kafka, topic, 3, 30, **given)
    assert sorted(r.value for r in received) == sorted(b"%d" % i * 10_000 for i in range(30))
    assert len(idp.forms) == asked + 1


@pytest.mark.parametrize(
    "claims", [{"life_s": -60}, {"iss": "https://another.example.org"}, {"aud": "another"}, {"sub": None}]
)
async def test_a_token_that_the_broker_does_not_take_is_an_error_at_once(
    kafka: KafkaCluster, idp: IdentityProvider, claims: dict[str, Any]
) -> None:
    token = idp.jwt("orders", **claims)
    with anyio.fail_after(60), pytest.raises(SaslAuthenticationFailedError, match="invalid_token") as caught:
        async with make_producer(kafka, **options(kafka, lambda: token)):
            pass
    assert token not in str(caught.value)


async def test_records_wait_for_a_provider_and_sessions_end_with_their_tokens(
    kafka: KafkaCluster, idp: IdentityProvider, topic_name: Callable[[], str]
) -> None:
    topic = await in_thread(kafka.create_topic, topic_name())
    down = threading.Event()
    refused = threading.Event()
    tokens: list[float] = []
    life_s = 4.0

    def provider() -> Token:
        if down.is_set():
            refused.set()
            raise OSError("the identity provider is down")
        ends_at = int(time.time() + life_s)  # brokers take whole seconds
        tokens.append(ends_at)
        return Token(idp.jwt("orders", exp=ends_at), ends_at)

    given = options(kafka, provider) | {"retries": 0, "enable_idempotence": False, "delivery_timeout_ms": 60_000}
    async with make_producer(kafka, request_timeout_ms=20_000, **given) as producer:
        sent = 0
        enough = anyio.Event()

        async def send() -> None:
            nonlocal sent
            while not enough.is_set():  # without retries any request that a broker leaves unanswered is an error
                await producer.send_and_wait(topic, b"v")
                sent += 1
                await anyio.sleep(0.01)

        async def until(met: Callable[[], bool]) -> None:
            while not met():  # noqa: ASYNC110 - no event
                await anyio.sleep(0.01)

        with anyio.fail_after(120):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                await until(lambda: len(tokens) >= 2)
                down.set()
                await in_thread(refused.wait, 60)
                # A token is valid until its end, which a slow machine may reach sooner.
                before, ends_at = sent, tokens[-1]
                await until(lambda: sent >= before + 20 or time.time() >= ends_at)
                down.clear()
                await until(lambda: len(tokens) >= 3)
                before = sent
                await until(lambda: sent > before)
                enough.set()
    assert len(await read_topic(kafka, topic, 1, sent)) == sent


@pytest.mark.parametrize("proof", ["basic", "post", "assertion"])
async def test_the_tokens_of_a_certified_provider_are_taken(
    kafka: KafkaCluster,
    openid_provider: Path,
    topic_name: Callable[[], str],
    tmp_path: Path,
    proof: Literal["basic", "post", "assertion"],
) -> None:
    """With the client's secret in either place (KIP-768), and with a JWT that the client signs (KIP-1258)."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    path = tmp_path / "key.pem"
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    clients: list[dict[str, Any]] = [
        {"client_id": name, "client_secret": SECRET, "token_endpoint_auth_method": f"client_secret_{name}"}
        for name in ("basic", "post")
    ]
    known = {"keys": [identity_provider.public_jwk(key.public_key(), "k1")]}
    clients.append({"client_id": "assertion", "jwks": known, "token_endpoint_auth_method": "private_key_jwt"})
    topic = await in_thread(kafka.create_topic, topic_name())
    with certified_provider.running(tmp_path, clients) as url:
        if proof == "assertion":
            signed = Assertion(path, issuer=proof, subject=proof, audience=identity_provider.ISSUER, key_id="k1")
            provider = ClientCredentials(url, proof, assertion=signed, scope="kafka")
        else:
            provider = ClientCredentials(url, proof, SECRET, auth=proof, scope="kafka")
        given = options(kafka, provider, Listener.SASL_SSL)
        async with make_producer(kafka, **given) as producer:
            await producer.send_and_wait(topic, b"v")
            assert [r.value for r in await read_topic(kafka, topic, 1, 1, **given)] == [b"v"]
        wrong = ClientCredentials(url, "basic", "wrong", scope="kafka")
        with anyio.fail_after(60), pytest.raises(SaslAuthenticationFailedError, match="401: invalid_client"):
            async with make_producer(kafka, **options(kafka, wrong)):
                pass


async def test_a_provider_that_is_down_is_an_error_of_its_own(kafka: KafkaCluster, idp: IdentityProvider) -> None:
    idp.instead = lambda: json_answer(503, error="temporarily_unavailable")
    try:
        with anyio.fail_after(30), pytest.raises(TokenProviderError, match="temporarily_unavailable"):
            async with AdminClient(**options(kafka, ClientCredentials(idp.url, "orders", SECRET))):
                pass
    finally:
        idp.instead = None
