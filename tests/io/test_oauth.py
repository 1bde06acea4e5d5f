"""OAUTHBEARER against embedded brokers: one token for all connections, refreshed in time, refused with a reason."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import pytest

from aiokafka_lead import AdminClient, Consumer, Producer
from aiokafka_lead._wire.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokafka_lead.errors import (
    ConfigError,
    ConfigTypeError,
    KafkaError,
    SaslAuthenticationFailedError,
    TokenProviderError,
)
from aiokafka_lead.oidc import ClientCredentials, Token, confluent_cloud
from aiokafka_lead.testing import EmbeddedCluster

from ..oidc.identity_provider import IdentityProvider
from ..patience import again_if_late

pytestmark = pytest.mark.anyio

GOOD = "good"


class Validator:
    """Accepts tokens that begin with "good"; the end of each is the provider's token."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.revoked: set[str] = set()

    def __call__(self, token: str, extensions: Any) -> str | None:
        self.seen.append((token, dict(extensions)))
        return "alice" if token.startswith(GOOD) and token not in self.revoked else None


def options(provider: Any, **others: Any) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": provider,
        **others,
    }


class Counting:
    """A provider that counts its calls; each token is valid for ``life_s``."""

    def __init__(self, life_s: float | None = 300) -> None:
        self.calls = 0
        self.life_s = life_s
        self.instead: Callable[[], Any] | None = None
        """Called in place of returning a token."""
        self._changed = threading.Condition()

    def token(self) -> Any:
        with self._changed:
            self.calls += 1
            self._changed.notify_all()
        if self.instead is not None:
            return self.instead()
        return Token(f"{GOOD}.{self.calls}", None if self.life_s is None else time.time() + self.life_s)

    async def called(self, times: int) -> None:
        """Wait until the provider has been called this number of times in all."""

        def wait() -> bool:
            with self._changed:
                return self._changed.wait_for(lambda: self.calls >= times, 20)

        assert await anyio.to_thread.run_sync(wait)


async def coroutine_function() -> str:
    return GOOD


def function() -> Token:
    return Token(GOOD, time.time() + 60, {"logicalCluster": "lkc-1"})


class LikeOfAiokafka:
    async def token(self) -> str:
        return GOOD

    def extensions(self) -> dict[str, str]:
        return {"logicalCluster": "lkc-1"}


class Synchronous:
    def token(self) -> str:
        return GOOD


@pytest.mark.parametrize("provider", [coroutine_function, function, LikeOfAiokafka(), Synchronous(), lambda: GOOD])
async def test_records_go_with_every_kind_of_provider(provider: Any) -> None:
    validator = Validator()
    async with EmbeddedCluster(brokers=2, oauth_validator=validator) as cluster:
        cluster.create_topic("t", partitions=2)
        async with Producer(cluster.bootstrap_servers, **options(provider)) as producer:
            for partition in (0, 1):
                await producer.send_and_wait("t", b"v", partition=partition)
        async with Consumer(
            "t", bootstrap_servers=cluster.bootstrap_servers, **options(provider, auto_offset_reset="earliest")
        ) as consumer:
            for _ in range(2):
                assert (await consumer.getone()).value == b"v"
    given = {"logicalCluster": "lkc-1"} if isinstance(provider, LikeOfAiokafka) or provider is function else {}
    assert {token for token, _ in validator.seen} == {GOOD}
    assert all(extensions == given for _, extensions in validator.seen)


async def test_a_provider_is_asked_once_for_all_connections_of_clients_that_share_it() -> None:
    provider = Counting()
    validator = Validator()
    async with EmbeddedCluster(brokers=3, oauth_validator=validator) as cluster:
        cluster.create_topic("t", partitions=3)
        given = options(provider)
        async with (
            Producer(cluster.bootstrap_servers, **given) as producer,
            Consumer(
                "t", bootstrap_servers=cluster.bootstrap_servers, **given, auto_offset_reset="earliest", group_id="g"
            ) as consumer,
            AdminClient(cluster.bootstrap_servers, **given),
        ):
            for partition in range(3):
                await producer.send_and_wait("t", b"v", partition=partition)
            for _ in range(3):
                await consumer.getone()
            await consumer.commit()
    assert len(validator.seen) >= 9
    assert provider.calls == 1


async def test_connections_that_are_made_at_a_time_share_a_call_of_a_provider_that_does_not_say_when_tokens_end() -> (
    None
):
    provider = Counting(life_s=None)
    given = options(provider)
    async with EmbeddedCluster(brokers=1, oauth_validator=Validator()) as cluster:

        async def start() -> None:
            async with Producer(cluster.bootstrap_servers, **given):
                pass

        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(start)
    assert provider.calls == 1


@pytest.mark.parametrize("refusal", ["at first", "later"])
async def test_a_refused_token_is_an_error_at_once_with_the_brokers_reason_and_not_used_again(refusal: str) -> None:
    provider = Counting()
    validator = Validator()
    async with EmbeddedCluster(brokers=1, oauth_validator=validator) as cluster:
        validator.revoked.add(f"{GOOD}.1")
        with anyio.fail_after(20), pytest.raises(SaslAuthenticationFailedError) as caught:
            async with Producer(cluster.bootstrap_servers, **options(provider)):
                pass
        assert "invalid_token" in caught.value.message
        assert not caught.value.retriable
        # The client has acknowledged the refusal, and sent no other request on that connection (RFC 7628, 3.2.3).
        sent = [r.request for r in cluster.requests if isinstance(r.request, SaslAuthenticateRequest)]
        assert [request.auth_bytes for request in sent][1:] == [b"\x01"]
        async with Producer(cluster.bootstrap_servers, **options(provider)) as producer:
            await producer.send_and_wait("t", b"v")
    assert provider.calls == 2


async def test_nor_is_a_token_that_is_refused_by_an_error_code_alone() -> None:
    """Brokers with other validators than Apache Kafka's do that."""
    provider = Counting()
    validator = Validator()
    quick = options(provider, sasl_login_retry_backoff_ms=10)
    async with (
        EmbeddedCluster(brokers=1, oauth_validator=validator) as cluster,
        Producer(cluster.bootstrap_servers, **quick) as producer,
    ):
        refused = cluster.faults.add("SaslAuthenticate", error_code=SaslAuthenticationFailedError, count=2)
        with anyio.fail_after(20):
            await producer.send_and_wait("t", b"v")  # over a second connection
        assert refused.struck == 2
    assert {token for token, _ in validator.seen} == {f"{GOOD}.1", f"{GOOD}.3"}


@again_if_late(3_000, 12_000)
async def test_a_token_is_refreshed_ahead_of_its_end_for_all_and_the_old_one_kept_meanwhile(life_ms: int) -> None:
    provider = Counting(life_s=life_ms / 1000)
    validator = Validator()
    quick = {
        "sasl_login_refresh_window_factor": 0.5,
        "sasl_login_refresh_window_jitter": 0,
        "sasl_login_refresh_min_period_seconds": 0,
        "sasl_login_refresh_buffer_seconds": 0,
    }
    refreshing = threading.Event()
    release = threading.Event()

    def slow() -> Token:
        refreshing.set()
        release.wait(20)
        return Token(f"{GOOD}.refreshed", time.time() + 300)

    async with EmbeddedCluster(brokers=2, oauth_validator=validator) as cluster:
        cluster.create_topic("t", partitions=2)
        given = options(provider, **quick)
        async with (
            Producer(cluster.bootstrap_servers, **given) as first,
            Producer(cluster.bootstrap_servers, **given) as second,
        ):
            provider.instead = slow
            assert await anyio.to_thread.run_sync(refreshing.wait, 20)
            # A connection made meanwhile does not wait.
            for partition in (0, 1):
                await first.send_and_wait("t", b"v", partition=partition)
            assert {token for token, _ in validator.seen} == {f"{GOOD}.1"}
            release.set()
            while provider.calls == 2 and not any(token == f"{GOOD}.refreshed" for token, _ in validator.seen):
                await cluster.kill_broker(2)
                await cluster.start_broker(2)
                await second.send_and_wait("t", b"v", partition=0)
                await second.send_and_wait("t", b"v", partition=1)
    assert provider.calls == 2


def fail() -> None:
    raise ValueError("out of\x1b[2J order")


FAILURES: dict[str, tuple[Callable[[], Any], type[KafkaError], str]] = {
    "it raises": (fail, TokenProviderError, r"ValueError: out of\\x1b\[2J order"),
    "no token": (lambda: None, SaslAuthenticationFailedError, "a str or a Token, not NoneType"),
    "an empty one": (lambda: "", SaslAuthenticationFailedError, "must not be empty"),
    "injection": (lambda: f"{GOOD}\x01\x01", SaslAuthenticationFailedError, "letters, digits"),
    "too large": (lambda: "x" * 600_000, SaslAuthenticationFailedError, "larger than brokers accept"),
    "over": (lambda: Token(GOOD, time.time() - 5), TokenProviderError, r"expired \d+\.\d s ago"),
    "milliseconds": (lambda: Token(GOOD, time.time() * 1000), SaslAuthenticationFailedError, "milliseconds"),
}


@pytest.mark.parametrize("kind", FAILURES)
async def test_a_provider_that_fails_is_an_error_of_a_known_type_and_asked_again(kind: str) -> None:
    behave, error, text = FAILURES[kind]
    provider = Counting()
    provider.instead = behave
    async with EmbeddedCluster(brokers=1, oauth_validator=Validator()) as cluster:
        with anyio.fail_after(20), pytest.raises(error, match=text):
            async with Producer(cluster.bootstrap_servers, **options(provider)):
                pass
        provider.instead = None
        async with Producer(cluster.bootstrap_servers, **options(provider)) as producer:
            await producer.send_and_wait("t", b"v")


async def test_records_wait_for_a_provider_that_is_down_and_go_when_it_is_back() -> None:
    provider = Counting()
    validator = Validator()
    async with EmbeddedCluster(brokers=2, oauth_validator=validator) as cluster:
        cluster.create_topic("t", replication_factor=2)
        async with Producer(
            cluster.bootstrap_servers, **options(provider, sasl_login_retry_backoff_max_ms=200)
        ) as producer:
            await producer.send_and_wait("t", b"v")
            asked = provider.calls
            validator.revoked.add(f"{GOOD}.1")
            provider.instead = fail
            for broker in cluster.broker_ids:
                await cluster.kill_broker(broker)
                await cluster.start_broker(broker)
            # By then each broker asked has refused the token, which would be an error of the record.
            await provider.called(asked + 3)
            delivery = await producer.send("t", b"w")
            await provider.called(asked + 6)
            assert not delivery.done()
            provider.instead = None
            await delivery
        assert [record.value for record in cluster.records("t")] == [b"v", b"w"]


async def test_a_provider_that_does_not_return_is_given_up_in_time_and_holds_nobody_up() -> None:
    release = threading.Event()
    provider = Counting()
    daemons: list[bool] = []

    def hang() -> None:
        daemons.append(threading.current_thread().daemon)
        release.wait(30)

    provider.instead = hang
    try:
        async with EmbeddedCluster(brokers=1, oauth_validator=Validator()) as cluster:
            given = options(provider, sasl_oauth_token_timeout_ms=100, sasl_login_retry_backoff_ms=1)
            # A few calls still run, but no more are added: threads are not exhausted.
            for _ in range(8):
                with anyio.fail_after(20), pytest.raises(TokenProviderError, match=r"within 100 ms|calls are stuck"):
                    async with Producer(cluster.bootstrap_servers, **given):
                        pass
            assert provider.calls <= 4
            assert all(daemons)  # the end of a program does not wait for them
            release.set()
            provider.instead = None
            with anyio.fail_after(20):
                while True:
                    try:
                        async with Producer(cluster.bootstrap_servers, **given) as producer:
                            await producer.send_and_wait("t", b"v")
                        break
                    except TokenProviderError:
                        continue
    finally:
        release.set()


async def test_a_client_that_is_stopped_does_not_take_the_call_of_another_with_it() -> None:
    started = anyio.Event()
    calls = 0

    async def provider() -> str:
        nonlocal calls
        calls += 1
        if calls == 1:
            started.set()
            await anyio.sleep_forever()
        return GOOD

    async with EmbeddedCluster(brokers=1, oauth_validator=Validator()) as cluster, anyio.create_task_group() as group:
        given = options(provider)
        first, second = (Producer(cluster.bootstrap_servers, **given) for _ in range(2))

        async def start_first() -> None:
            with pytest.raises(KafkaError):
                await first.start()

        group.start_soon(start_first)
        await started.wait()

        async def start_second() -> None:
            async with second:
                await second.send_and_wait("t", b"v")

        group.start_soon(start_second)
        await anyio.wait_all_tasks_blocked()
        await first.stop()
    assert calls == 2


async def test_a_provider_that_is_cancelled_on_its_own_is_one_that_failed(anyio_backend: str) -> None:
    if anyio_backend == "trio":
        pytest.skip("trio's cancellation belongs to scopes alone")

    async def provider() -> str:
        raise asyncio.CancelledError

    async with EmbeddedCluster(brokers=1, oauth_validator=Validator()) as cluster:
        with anyio.fail_after(20), pytest.raises(TokenProviderError, match="was cancelled"):
            async with Producer(cluster.bootstrap_servers, **options(provider)):
                pass


async def test_client_credentials_from_flat_options_with_confluents_extensions() -> None:
    validator = Validator()
    with IdentityProvider({"orders": "secret"}).running() as idp:

        def verify(token: str, extensions: Any) -> str:
            validator(token, extensions)
            return "orders"

        async with EmbeddedCluster(brokers=1, oauth_validator=verify) as cluster:
            flat: Any = {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauthbearer_token_endpoint_url": idp.url,
                "sasl_oauthbearer_client_credentials_client_id": "orders",
                "sasl_oauthbearer_client_credentials_client_secret": "secret",
                "sasl_oauthbearer_scope": "kafka",
                "sasl_oauthbearer_extensions": "logicalCluster=lkc-1, identityPoolId=pool-2",
            }
            async with Producer(cluster.bootstrap_servers, **flat) as producer:
                await producer.send_and_wait("t", b"v")
        assert [form["scope"] for form in idp.forms] == ["kafka"]
        assert validator.seen[0][1] == dict(confluent_cloud("lkc-1", "pool-2"))


@pytest.mark.parametrize(
    ("given", "error", "names"),
    [
        ({"sasl_oauth_token_provider": None}, ConfigError, "OAUTHBEARER needs a sasl_oauth_token_provider"),
        ({"sasl_oauth_token_provider": "token"}, ConfigTypeError, "sasl_oauth_token_provider must be callable"),
        ({"sasl_oauth_token_provider": ClientCredentials}, ConfigTypeError, "the class ClientCredentials"),
        (
            {"sasl_oauthbearer_scope": "x"},
            ConfigError,
            "sasl_oauthbearer_scope and sasl_oauth_token_provider cannot be combined",
        ),
        ({"sasl_mechanism": "PLAIN"}, ConfigError, "sasl_oauth_token_provider needs sasl_mechanism OAUTHBEARER"),
        ({"sasl_login_refresh_window_factor": 0.4}, ConfigError, "sasl_login_refresh_window_factor"),
        ({"sasl_login_refresh_window_jitter": 0.3}, ConfigError, "sasl_login_refresh_window_jitter"),
        (
            {"sasl_oauth_token_provider": None, "sasl_oauthbearer_token_endpoint_url": "http://idp/token"},
            ConfigError,
            "sasl_oauthbearer_client_credentials_client_id is required",
        ),
    ],
)
def test_mistakes_name_their_option(given: dict[str, Any], error: type[KafkaError], names: str) -> None:
    with pytest.raises(error, match=names):
        Producer("localhost", **(options(coroutine_function) | given))
