"""Options are checked when a client is constructed, and every mistake names its option."""

from __future__ import annotations

import ssl
from typing import Any, get_type_hints

import pytest

from aiokafka_lead import AdminClient, Client, Consumer, Producer, ShareConsumer, config
from aiokafka_lead.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from aiokafka_lead.errors import ConfigError, ConfigTypeError

from .leaks import everything


@pytest.mark.parametrize("kind", ["Client", "Producer", "Consumer", "Admin"])
def test_every_option_has_a_type_for_users_and_a_check(kind: str) -> None:
    typed = set(get_type_hints(getattr(config, f"{kind}Options")))
    checked = set(getattr(config, f"{kind}Config").__dataclass_fields__)
    assert checked - typed == {"bootstrap_servers"}
    assert typed - checked == {"security"}, "stands for flat options"


@pytest.mark.parametrize("config_class", [ClientConfig, ProducerConfig, ConsumerConfig, AdminConfig])
def test_every_default_passes_its_own_check(config_class: type[ClientConfig]) -> None:
    made = config_class.from_options("broker", {})
    for name, field in config_class.__dataclass_fields__.items():
        if name != "bootstrap_servers":
            value = getattr(made, name)
            assert value == field.default
            field.metadata["check"](name, value)


@pytest.mark.parametrize(
    ("given", "servers"),
    [
        ("a:1,b:2", (("a", 1), ("b", 2))),
        (["a:1", "b"], (("a", 1), ("b", 9092))),
        (("a:1, a:1",), (("a", 1),)),
        ("[::1]:9093,[fe80::1%eth0]", (("::1", 9093), ("fe80::1%eth0", 9092))),
    ],
)
def test_bootstrap_servers(given: Any, servers: tuple[tuple[str, int], ...]) -> None:
    assert ClientConfig.from_options(given, {}).bootstrap_servers == servers


@pytest.mark.parametrize(
    "given", ["", ",", "a:b", "a:0", "a:65536", "a:1:2", "::1", "SSL://a:1", [], "a b:1", "a:\u0663"]
)
def test_bootstrap_servers_that_name_no_server(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"^bootstrap_servers "):
        ClientConfig.from_options(given, {})


@pytest.mark.parametrize("client", [Producer, Consumer, ShareConsumer, AdminClient, Client])
def test_a_dict_of_options_as_other_clients_take_it(client: Any) -> None:
    secret = "MARKED"
    with pytest.raises(ConfigTypeError, match=r"keyword arguments: bootstrap_servers=\.\.\., sasl_password") as caught:
        client({"bootstrap.servers": "localhost:9092", "sasl.password": secret})
    assert secret not in everything(caught.value)


def test_servers_and_options_in_the_wrong_place_are_named() -> None:
    with pytest.raises(ConfigTypeError, match="'localhost:9092' was passed as a topic"):
        Consumer("localhost:9092")
    options: dict[str, Any] = {"bootstrap.servers": "localhost:9092", "client.id": "x"}
    with pytest.raises(ConfigTypeError, match=r"keyword arguments: bootstrap_servers=\.\.\., client_id=\.\.\."):
        Producer(**options)


@pytest.mark.parametrize("given", [None, 9092, b"a:1", [b"a:1"], [("a", 1)]])
def test_bootstrap_servers_of_another_type(given: Any) -> None:
    with pytest.raises(ConfigTypeError, match=r"^bootstrap_servers "):
        ClientConfig.from_options(given, {})


@pytest.mark.parametrize(
    ("options", "error", "names"),
    [
        ({"akcs": 1}, TypeError, "akcs .*did you mean acks"),
        ({"acks": 2}, ValueError, "acks"),
        ({"acks": True}, ValueError, "acks"),
        ({"linger_ms": "5"}, TypeError, "linger_ms"),
        ({"linger_ms": -1}, ValueError, "linger_ms"),
        ({"linger_ms": 10**400}, ValueError, "linger_ms"),
        ({"request_timeout_ms": float("inf")}, ValueError, "request_timeout_ms"),
        ({"request_timeout_ms": float("nan")}, ValueError, "request_timeout_ms"),
        ({"batch_size": 1.5}, TypeError, "batch_size"),
        ({"batch_size": 2**31}, ValueError, "batch_size"),
        ({"batch_size": 1000, "batch_size_max": 999}, ValueError, "batch_size"),
        ({"batch_size_max": 1000}, ValueError, "batch_size"),
        ({"client_id": ""}, ValueError, "client_id"),
        ({"compression_type": "brotli"}, ValueError, "compression_type"),
        ({"value_serializer": "json"}, TypeError, "value_serializer"),
        ({"enable_idempotence": 1}, TypeError, "enable_idempotence"),
        ({"enable_idempotence": True, "acks": 1}, ValueError, "acks"),
        ({"enable_idempotence": True, "retries": 0}, ValueError, "retries"),
        ({"max_in_flight_requests_per_connection": 6, "enable_idempotence": True}, ValueError, "max_in_flight"),
        ({"delivery_timeout_ms": 100}, ValueError, "delivery_timeout_ms"),
        ({"retry_backoff_ms": 500, "retry_backoff_max_ms": 100}, ValueError, "retry_backoff_ms"),
        ({"security_protocol": "TLS"}, ValueError, "security_protocol"),
        ({"security_protocol": "SASL_SSL"}, ValueError, "sasl_plain_username"),
        ({"sasl_mechanism": "PLAIN"}, ValueError, "security_protocol"),
        ({"sasl_plain_password": "pw"}, ValueError, "security_protocol"),
        ({"security_protocol": "SSL", "ssl_context": "x"}, TypeError, "ssl_context"),
    ],
)
def test_a_mistake_names_its_option(options: dict[str, Any], error: type[Exception], names: str) -> None:
    with pytest.raises(error, match=f"^{names}"):
        ProducerConfig.from_options("a", options)


def test_an_ssl_context_that_would_not_be_used_is_refused() -> None:
    with pytest.raises(ConfigError, match="ssl_context"):
        ClientConfig.from_options("a", {"ssl_context": ssl.create_default_context()})


@pytest.mark.parametrize(
    "options", [{"acks": 1}, {"acks": 0}, {"retries": 0}, {"max_in_flight_requests_per_connection": 6}]
)
def test_idempotence_gives_way_where_it_was_not_asked_for(options: dict[str, Any]) -> None:
    assert not ProducerConfig.from_options("a", options).enable_idempotence


@pytest.mark.parametrize(
    ("options", "size", "most"),
    [
        ({}, 16_384, 262_144),
        ({"batch_size": 1000}, 1000, 1000),
        ({"batch_size": 1_000_000}, 1_000_000, 1_000_000),
        ({"batch_size": 1000, "batch_size_max": 5000}, 1000, 5000),
        ({"batch_size_max": 500_000}, 16_384, 500_000),
    ],
)
def test_batches_grow_beyond_a_given_size_only_where_that_is_wanted(
    options: dict[str, Any], size: int, most: int
) -> None:
    config = ProducerConfig.from_options("a", options)
    assert (config.batch_size, config.batch_size_max) == (size, most)


def test_secrets_stay_out_of_repr() -> None:
    made = ClientConfig.from_options(
        "a",
        {"security_protocol": "SASL_PLAINTEXT", "sasl_plain_username": "alice", "sasl_plain_password": "wonderland"},
    )
    assert made.sasl_mechanism == "PLAIN"
    assert "wonderland" not in repr(made)


class OwnAssignor:
    """An assignor of the application, which is never called here."""

    cooperative = False

    def __init__(self, name: Any = "own") -> None:
        self.name = name

    def user_data(self, *args: Any) -> None:
        """Return no user data."""

    def assign(self, *args: Any) -> dict[str, Any]:
        """Return no assignment."""
        return {}


@pytest.mark.parametrize("given", ["sticky, range", ["sticky", "range"], ("sticky", "range")])
def test_assignors_as_other_clients_take_them(given: Any) -> None:
    assert ConsumerConfig.from_options("a", {"partition_assignment_strategy": given}).partition_assignment_strategy == (
        "sticky",
        "range",
    )
    own = OwnAssignor()
    assert ConsumerConfig.from_options("a", {"partition_assignment_strategy": own}).partition_assignment_strategy == (
        own,
    )


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_interval_ms": 50_000},
        {"group_instance_id": "one"},
        {"fetch_max_wait_ms": 30_000},
        {"partition_assignment_strategy": []},
        {"partition_assignment_strategy": " , "},
        {"partition_assignment_strategy": "rnage"},
        {"partition_assignment_strategy": ["range", "best"]},
        {"partition_assignment_strategy": ["range", "range"]},
        {"partition_assignment_strategy": [OwnAssignor("range"), "range"]},
        {"partition_assignment_strategy": [OwnAssignor("")]},
        {"partition_assignment_strategy": "range", "group_protocol": "consumer"},
        {"group_remote_assignor": "range"},
        {"isolation_level": "serializable"},
    ],
)
def test_consumer_options_that_contradict_each_other(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=f"^{next(iter(options))}"):
        ConsumerConfig.from_options("a", options)


@pytest.mark.parametrize("assignor", [object(), OwnAssignor, 7, b"range", OwnAssignor(7)])
def test_what_is_no_assignor_is_refused_with_and_without_a_group(assignor: Any) -> None:
    for group in ({}, {"group_id": "g"}):
        options = {"partition_assignment_strategy": [assignor], **group}
        with pytest.raises(ConfigTypeError, match=r"^partition_assignment_strategy"):
            ConsumerConfig.from_options("a", options)


IDS = ["client_id", "group_id", "group_instance_id", "group_remote_assignor", "client_rack"]


@pytest.mark.parametrize("name", IDS)
def test_ids_fit_the_protocols_strings(name: str) -> None:
    """Ids are limited to the length that an int16 can give, in UTF-8."""
    options = {"group_id": "g", "group_protocol": "consumer", name: "\u00fc" * 16383}
    assert getattr(ConsumerConfig.from_options("a", options), name) == "\u00fc" * 16383
    with pytest.raises(ConfigError, match=rf"^{name} must be at most 32767 bytes in UTF-8, not 32768"):
        ConsumerConfig.from_options("a", {**options, name: "\u00fc" * 16384})
    with pytest.raises(ConfigError, match=rf"^{name} must be text that UTF-8 can encode"):
        ConsumerConfig.from_options("a", {**options, name: "\ud800"})


@pytest.mark.parametrize("config_class", [ProducerConfig, AdminConfig])
def test_every_clients_id_is_checked(config_class: type[ClientConfig]) -> None:
    with pytest.raises(ConfigError, match=r"^client_id must be at most"):
        config_class.from_options("a", {"client_id": "x" * 40_000})
