"""A value for ``security`` replaces flat options, and cannot be combined with them."""

from __future__ import annotations

import inspect
from typing import Any, get_type_hints

import pytest

from aiokafka_lead import Client, Consumer, Producer, ShareConsumer
from aiokafka_lead.config import AdminConfig, ClientConfig
from aiokafka_lead.config.options import SecurityOptions
from aiokafka_lead.errors import ConfigError, ConfigTypeError
from aiokafka_lead.security import Kerberos, OAuth, Plain, Scram, Security, Tls
from aiokafka_lead.testing import EmbeddedCluster

from .leaks import everything

LOGIN = {"sasl_plain_username": "alice", "sasl_plain_password": "MARKED"}


def token() -> str:
    return "t"


@pytest.mark.parametrize(
    ("value", "flat"),
    [
        (Tls(), {"security_protocol": "SSL"}),
        (Tls(check_hostname=False), {"security_protocol": "SSL", "ssl_check_hostname": False}),
        (Plain("alice", "MARKED"), {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", **LOGIN}),
        (Plain("alice", "MARKED", tls=None), {"security_protocol": "SASL_PLAINTEXT", **LOGIN}),
        (
            Scram("alice", "MARKED", tls=Tls(check_hostname=False)),
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "SCRAM-SHA-512",
                "ssl_check_hostname": False,
                **LOGIN,
            },
        ),
        (
            Scram("alice", "MARKED", mechanism="SCRAM-SHA-256", delegation_token=True, tls=None),
            {
                "security_protocol": "SASL_PLAINTEXT",
                "sasl_mechanism": "SCRAM-SHA-256",
                "sasl_delegation_token": True,
                **LOGIN,
            },
        ),
        (
            OAuth(token, token_timeout_ms=5, refresh_buffer_seconds=7, retry_backoff_ms=3),
            {
                "security_protocol": "SASL_SSL",
                "sasl_mechanism": "OAUTHBEARER",
                "sasl_oauth_token_provider": token,
                "sasl_oauth_token_timeout_ms": 5,
                "sasl_login_refresh_buffer_seconds": 7,
                "sasl_login_retry_backoff_ms": 3,
            },
        ),
        (None, {}),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_value_is_flat_options(value: Security | None, flat: dict[str, Any]) -> None:
    assert ClientConfig.from_options("a", {"security": value}) == ClientConfig.from_options("a", flat)


def test_kerberos_is_flat_options() -> None:
    names = ("service_name", "domain_name", "principal", "keytab")
    assert [*inspect.signature(Kerberos).parameters] == [*names, "tls"]
    options = Kerberos("k", domain_name="d", principal="p", keytab="f", tls=None)._options()
    assert {f"sasl_kerberos_{name}" for name in names} <= options.keys() & get_type_hints(SecurityOptions).keys()


def test_every_part_of_tls_is_a_flat_option() -> None:
    flat = {name for name in get_type_hints(SecurityOptions) if name.startswith("ssl_")}
    assert {f"ssl_{name}" for name in inspect.signature(Tls).parameters} == flat


@pytest.mark.parametrize(
    "beside",
    [
        {"sasl_plain_username": "bob"},
        {"security_protocol": "SASL_SSL"},
        {"ssl_cafile": "ca.pem"},
        {"sasl_kerberos_principal": "bob"},
        {"sasl_oauthbearer_scope": "kafka"},
    ],
)
def test_a_flat_option_beside_a_value_is_refused(beside: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^security=Scram\(\.\.\.\) and {next(iter(beside))} ") as caught:
        Producer("a", security=Scram("alice", "MARKED"), **beside)
    assert "MARKED" not in everything(caught.value)


def test_a_flat_option_that_is_none_is_not_given() -> None:
    config = AdminConfig.from_options("a", {"security": Tls(), "sasl_mechanism": None, "ssl_cafile": None})
    assert config.security_protocol == "SSL"


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("SASL_SSL", "security must be a Plain, Scram, OAuth, Kerberos or Tls, not str"),
        (Tls, "security must be .* not type"),
        (Plain("a", "b", tls=True), "security.tls must be a Tls or None, not bool"),  # type: ignore[arg-type]
        (Plain("alice", 7), "sasl_plain_password must be a str"),  # type: ignore[arg-type]
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_value_is_refused(value: Any, says: str) -> None:
    with pytest.raises(ConfigTypeError, match=says):
        ClientConfig.from_options("a", {"security": value})


def test_a_scram_of_another_mechanism_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"security\.mechanism must be one of"):
        Producer("a", security=Scram("alice", "b", mechanism="PLAIN"))  # type: ignore[arg-type]


def test_a_client_that_shares_connections_may_say_the_same() -> None:
    parent = Client("a", security=Scram("alice", "MARKED"))
    parent.producer(security=Scram("alice", "MARKED"))
    parent.consumer("t", sasl_plain_username="alice")
    with pytest.raises(ConfigError, match="sasl_plain_password differs from the value of the shared Client") as caught:
        parent.admin(security=Scram("alice", "MARKED too"))
    assert "MARKED" not in everything(caught.value)


@pytest.mark.anyio
async def test_every_client_logs_in() -> None:
    login = Scram("alice", "secret", tls=None)
    async with EmbeddedCluster(sasl_users={"alice": "secret"}) as cluster:
        servers = cluster.bootstrap_servers
        cluster.create_topic("t")
        async with Producer(servers, security=login) as producer, Client(servers, security=login) as client:
            await producer.send_and_wait("t", b"v")
            async with client.admin() as admin:
                assert "t" in await admin.list_topics()
            async with Consumer("t", bootstrap_servers=servers, security=login, auto_offset_reset="earliest") as one:
                assert (await one.getone()).value == b"v"
            async with ShareConsumer("t", bootstrap_servers=servers, security=login, group_id="g"):
                pass
