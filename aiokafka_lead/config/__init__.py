"""Options of the clients: public types (`options`), defaults, checks, and frozen configurations.

Options have aiokafka's names. Options that aiokafka lacks have the Java client's names, in snake case. Defaults are the
same as in the Java client (4.x). The values are checked when a client is created, so mistakes are reported before the
client connects.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

from .._options.arguments import topic_name
from .._options.checks import (
    INT32_MAX,
    Secret,
    boolean,
    build,
    function,
    hide_secrets,
    integer,
    milliseconds,
    one_of,
    option,
    optional,
    proxy_url,
    short_text,
    text,
)
from .._options.checks import servers as server_list
from .._options.serialization import AsyncDeserializer, Deserializer, Serializer, application_function
from ..errors import ConfigError, ConfigTypeError
from ..security import SecurityConfig, flat_security
from ..types import CompressionType

if TYPE_CHECKING:
    from .options import (
        AdminOptions,
        BootstrapServers,
        ClientOptions,
        Connect,
        ConsumerBaseOptions,
        ConsumerOptions,
        Partitioner,
        ProducerBaseOptions,
        ProducerOptions,
        SharedClient,
    )

__all__ = [
    "AdminConfig",
    "AdminOptions",
    "AsyncDeserializer",
    "ClientConfig",
    "ClientOptions",
    "ConsumerBaseOptions",
    "ConsumerConfig",
    "ConsumerOptions",
    "Deserializer",
    "ProducerBaseOptions",
    "ProducerConfig",
    "ProducerOptions",
    "Serializer",
    "SharedClient",
]


def __getattr__(name: str) -> Any:
    """Import an option type when it is first used, because most programs need none at run time."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".options", __name__), name)


ASSIGNOR_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Names of the built-in assignors."""


def _assignors(name: str, value: Any) -> tuple[Any, ...]:
    if value is None or isinstance(value, (bytes, int, float)):
        raise ConfigTypeError(f"{name} must be names or assignors, not {type(value).__name__}")
    if isinstance(value, str):
        items: tuple[Any, ...] = tuple(part.strip() for part in value.split(",") if part.strip())
    else:
        items = tuple(value) if isinstance(value, Iterable) else (value,)
    if not items:
        raise ConfigError(f"{name} must not be empty")
    names: set[str] = set()
    for item in items:
        own = one_of(*ASSIGNOR_NAMES)(name, item) if isinstance(item, str) else _assignor_name(name, item)
        if own in names:
            raise ConfigError(f"{name} contains {own!r} twice")
        names.add(own)
    return items


def _assignor_name(option_name: str, assignor: Any) -> str:
    """Check a custom assignor (`GroupAssignor`) and return its name."""
    methods = (getattr(assignor, method, None) for method in ("assign", "user_data"))
    if isinstance(assignor, type) or not hasattr(assignor, "cooperative") or not all(map(callable, methods)):
        raise ConfigTypeError(f"{option_name} must contain names or assignors (GroupAssignor), not {assignor!r}")
    return short_text(f"{option_name}: an assignor's name", getattr(assignor, "name", None))


def _compression(name: str, value: Any) -> str:
    return str(one_of(*get_args(CompressionType))(name, "none" if value is None else value))


def _acks(name: str, value: Any) -> int:
    choice = one_of(0, 1, -1, "all")(name, value)
    return -1 if choice == "all" else int(choice)


def _bytes(low: int = 0) -> Callable[[str, Any], Any]:
    return integer(low, INT32_MAX)


_OF_EACH_CLIENT = ("client_id", "close_timeout_ms")
"""Options of `ClientOptions` that may differ between clients on shared connections."""


class ClientConfig(SecurityConfig):
    """Checked values of the options that `ClientOptions` describes."""

    bootstrap_servers: tuple[tuple[str, int], ...] = dataclasses.field(kw_only=True, metadata={"check": server_list})
    proxy_url: Secret | None = option(None, optional(proxy_url), secret=True)
    connect: Connect | None = option(None, optional(function))
    bootstrap_resolve_timeout_ms: float = option(0, milliseconds())
    client_id: str = option("aiokafka-lead", short_text)
    request_timeout_ms: float = option(30_000, milliseconds(1, INT32_MAX))
    retry_backoff_ms: float = option(100, milliseconds())
    retry_backoff_max_ms: float = option(1_000, milliseconds())
    reconnect_backoff_ms: float = option(50, milliseconds())
    reconnect_backoff_max_ms: float = option(1_000, milliseconds())
    socket_connection_setup_timeout_ms: float = option(10_000, milliseconds(1))
    socket_connection_setup_timeout_max_ms: float = option(30_000, milliseconds(1))
    connections_max_idle_ms: float = option(540_000, milliseconds(1))
    max_in_flight_requests_per_connection: int = option(5, integer(1, 1_000_000))
    receive_max_bytes: int = option(128 * 1024 * 1024, _bytes(1024))
    metadata_max_age_ms: float = option(300_000, milliseconds(1))
    metadata_max_idle_ms: float = option(300_000, milliseconds(5_000))
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = option("rebootstrap", one_of("rebootstrap", "none"))
    metadata_recovery_rebootstrap_trigger_ms: float = option(300_000, milliseconds())
    metadata_cluster_check_enable: bool = option(True, boolean)
    cluster_id_mismatch: Literal["fail", "warn", "adopt"] = option("fail", one_of("fail", "warn", "adopt"))
    leader_hint_policy: Literal["trust", "known_nodes", "off"] = option("trust", one_of("trust", "known_nodes", "off"))
    close_timeout_ms: float | None = option(None, optional(milliseconds()))
    enable_metrics_push: bool = option(True, boolean)
    allow_auto_create_topics: bool = option(True, boolean)

    @classmethod
    def from_options(cls, bootstrap_servers: BootstrapServers, options: Mapping[str, Any], **more: Any) -> Self:
        """Check the given options, and return a configuration with the defaults added.

        Afterwards, the ``repr`` of ``options`` hides secrets. Raises `ConfigError` (a ValueError) or `ConfigTypeError`
        (a TypeError), whose message names the option.
        """
        hide_secrets(cls, options)
        config = build(cls, cls._settle({"bootstrap_servers": bootstrap_servers, **options, **more}))
        config._check_files()
        return config

    @classmethod
    def on_connections_of(cls, parent: ClientConfig, options: Mapping[str, Any], **more: Any) -> Self:
        """Check the options of a client that uses another client's connections, and return its configuration.

        ``parent`` is the configuration of the client with the connections. Raises the errors of `from_options`, and
        `ConfigError` for an option of the connections whose value differs from the parent's.
        """
        hide_secrets(cls, options)
        options = flat_security(options)
        servers, shared = parent.shared()
        own = {"client_id": parent.client_id, **{name: options[name] for name in _OF_EACH_CLIENT if name in options}}
        for name in _OF_EACH_CLIENT:
            del shared[name]
        for name, value in options.items():
            field = cls.__dataclass_fields__.get(name)
            if name in shared and field is not None and field.metadata["check"](name, value) != shared[name]:
                raise ConfigError(f"{name} differs from the value of the shared Client: set it there")
        return cls._with_checked_files({"bootstrap_servers": servers, **options, **shared, **own, **more})

    @classmethod
    def beside(cls, other: ClientConfig, options: Mapping[str, Any]) -> Self:
        """Check the options of a client that has the connection options, but not the connections, of ``other``."""
        servers, shared = other.shared()
        return cls._with_checked_files({"bootstrap_servers": servers, **shared, **options})

    @classmethod
    def _with_checked_files(cls, given: dict[str, Any]) -> Self:
        """Check options whose certificate files have already been checked for another client.

        The files are not read again, because another program may be replacing them.
        """
        hide_secrets(cls, given)
        return build(cls, cls._settle(given))

    @classmethod
    def _settle(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Add values that follow from other options, before each value is checked."""
        given = cls._settle_security(given)
        for first, longest in (
            ("retry_backoff_ms", "retry_backoff_max_ms"),
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
            ("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"),
        ):
            # As in Java: if the first delay exceeds the default maximum, every delay equals the first.
            if longest not in given and isinstance(given.get(first), (int, float)):
                given[longest] = max(given[first], cls.__dataclass_fields__[longest].default)
        return given

    @property
    def refused_login_ms(self) -> float:
        """Time in milliseconds for which a broker may refuse what has worked before, for example a login.

        After this time, the error is final.
        """
        return self.request_timeout_ms

    def shared(self) -> tuple[list[str], dict[str, Any]]:
        """Return the bootstrap servers and the options that another client needs to reach the same cluster."""
        servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap_servers]
        names = {field.name for field in dataclasses.fields(ClientConfig)} - {"bootstrap_servers"}
        return servers, {name: getattr(self, name) for name in names}

    def _check(self) -> None:
        """Check the combinations of options."""
        self._first_at_most_longest("retry_backoff_ms", "retry_backoff_max_ms")
        self._first_at_most_longest("reconnect_backoff_ms", "reconnect_backoff_max_ms")
        self._first_at_most_longest("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms")
        self._check_security()
        if self.proxy_url is not None and self.connect is not None:
            raise ConfigError("proxy_url and connect cannot be combined")
        self._first_at_most_longest("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms")
        if self.sasl_mechanism == "OAUTHBEARER":
            from ..oidc.endpoint import settle_provider

            settle_provider(self)

    def _first_at_most_longest(self, first: str, longest: str) -> None:
        if getattr(self, first) > getattr(self, longest):
            raise ConfigError(f"{first} must not be more than {longest} ({getattr(self, longest)})")


class ProducerConfig(ClientConfig):
    """Checked values of the options that `ProducerOptions` describes. ``acks`` is -1 for "all"."""

    acks: int = option(-1, _acks)
    enable_idempotence: bool = option(True, boolean)
    compression_type: CompressionType = option("none", _compression)
    compression_level: int | None = option(None, optional(integer(-131_072, 22)))
    batch_size: int = option(16_384, _bytes())
    batch_size_max: int = option(262_144, _bytes())
    linger_ms: float = option(5, milliseconds())
    buffer_memory: int = option(32 * 1024 * 1024, integer(1, 2**63 - 1))
    max_block_ms: float = option(60_000, milliseconds())
    max_request_size: int = option(1024 * 1024, _bytes(1))
    delivery_timeout_ms: float = option(120_000, milliseconds())
    transactional_id: str | None = option(None, optional(short_text))
    transaction_timeout_ms: int = option(60_000, integer(1, INT32_MAX))
    retries: int = option(INT32_MAX, integer(0))
    partitioner: Partitioner | None = option(None, optional(function))
    partitioner_adaptive_partitioning_enable: bool = option(True, boolean)
    partitioner_availability_timeout_ms: float = option(0, milliseconds())
    partitioner_ignore_keys: bool = option(False, boolean)
    partitioner_rack_aware: bool = option(False, boolean)
    client_rack: str | None = option(None, optional(short_text))
    key_serializer: Serializer[Any] | None = option(None, optional(application_function))
    value_serializer: Serializer[Any] | None = option(None, optional(application_function))

    @classmethod
    def _settle(cls, given: dict[str, Any]) -> dict[str, Any]:
        given = super()._settle(given)
        # As in Java: idempotence is switched off if it was not requested and other options exclude it.
        weaker = given.get("acks", "all") in (0, 1) or given.get("retries", 1) == 0
        many = given.get("max_in_flight_requests_per_connection", 1)
        transactional = given.get("transactional_id") is not None
        if "enable_idempotence" not in given and not transactional and (weaker or (isinstance(many, int) and many > 5)):
            given["enable_idempotence"] = False
        if isinstance(given.get("batch_size"), int):
            given.setdefault("batch_size_max", given["batch_size"])
        # As in Java: the default delivery timeout is raised to the sum of its parts.
        parts = [
            given.get(name, cls.__dataclass_fields__[name].default) for name in ("linger_ms", "request_timeout_ms")
        ]
        if "delivery_timeout_ms" not in given and all(isinstance(part, (int, float)) for part in parts):
            given["delivery_timeout_ms"] = max(cls.__dataclass_fields__["delivery_timeout_ms"].default, sum(parts))
        return given

    def _check(self) -> None:
        super()._check()
        self._first_at_most_longest("batch_size", "batch_size_max")
        if self.enable_idempotence:
            if self.acks != -1:
                raise ConfigError('acks must be "all" with enable_idempotence')
            if self.retries == 0:
                raise ConfigError("retries must not be 0 with enable_idempotence")
            if self.max_in_flight_requests_per_connection > 5:
                raise ConfigError("max_in_flight_requests_per_connection must be at most 5 with enable_idempotence")
        elif self.transactional_id is not None:
            raise ConfigError("enable_idempotence must not be False with transactional_id")
        if self.partitioner_rack_aware and not self.client_rack:
            raise ConfigError("partitioner_rack_aware needs client_rack, the rack of this producer")
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")

    @property
    def refused_login_ms(self) -> float:
        """Unlimited, because records and calls have deadlines."""
        return math.inf


class ConsumerConfig(ClientConfig):
    """Checked values of the options that `ConsumerOptions` describes."""

    group_id: str | None = option(None, optional(short_text))
    group_instance_id: str | None = option(None, optional(short_text))
    group_protocol: Literal["classic", "consumer", "auto"] = option("classic", one_of("classic", "consumer", "auto"))
    group_remote_assignor: str | None = option(None, optional(short_text))
    partition_assignment_strategy: tuple[Any, ...] = option(("cooperative-sticky", "range"), _assignors)
    session_timeout_ms: float = option(45_000, milliseconds(1, INT32_MAX))
    heartbeat_interval_ms: float = option(3_000, milliseconds(1))
    max_poll_interval_ms: float = option(300_000, milliseconds(1, INT32_MAX))
    rebalance_timeout_ms: float | None = option(None, optional(milliseconds(1, INT32_MAX)))
    enable_auto_commit: bool = option(True, boolean)
    auto_commit_interval_ms: float = option(5_000, milliseconds(1))
    auto_offset_reset: str = option("latest", text)
    on_bad_record: Literal["raise", "skip", "dead_letter"] = option("raise", one_of("raise", "skip", "dead_letter"))
    dead_letter_topic: str | None = option(None, optional(topic_name))
    isolation_level: Literal["read_uncommitted", "read_committed"] = option(
        "read_uncommitted", one_of("read_uncommitted", "read_committed")
    )
    client_rack: str | None = option(None, optional(short_text))
    fetch_min_bytes: int = option(1, _bytes())
    fetch_max_wait_ms: float = option(500, milliseconds(0, INT32_MAX))
    fetch_max_bytes: int = option(50 * 1024 * 1024, _bytes(1))
    max_partition_fetch_bytes: int = option(1024 * 1024, _bytes(1))
    max_poll_records: int | None = option(None, optional(integer(1)))
    max_decompressed_batch_bytes: int = option(256 * 1024 * 1024, _bytes(1))
    max_decompressed_bytes: int = option(512 * 1024 * 1024, integer(1))
    check_crcs: bool = option(True, boolean)
    exclude_internal_topics: bool = option(True, boolean)
    default_api_timeout_ms: float = option(60_000, milliseconds())
    key_deserializer: Deserializer[Any] | None = option(None, optional(application_function))
    value_deserializer: Deserializer[Any] | None = option(None, optional(application_function))

    @classmethod
    def _settle(cls, given: dict[str, Any]) -> dict[str, Any]:
        given = super()._settle(given)
        # Java ignores an option of the other protocol. Here it is an error, because the user expects an effect.
        if given.get("group_protocol") == "consumer" and "partition_assignment_strategy" in given:
            raise ConfigError(
                'partition_assignment_strategy has no effect with group_protocol="consumer": use group_remote_assignor'
            )
        return given

    def _check(self) -> None:
        super()._check()
        if self.group_protocol == "classic" and self.group_remote_assignor is not None:
            raise ConfigError('group_remote_assignor has no effect with group_protocol="classic"')
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat_interval_ms must be less than session_timeout_ms")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id needs a group_id")
        if self.on_bad_record == "dead_letter" and self.dead_letter_topic is None:
            raise ConfigError('on_bad_record="dead_letter" needs a dead_letter_topic')
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError("fetch_max_wait_ms must be less than request_timeout_ms")
        if self.group_protocol == "auto":
            self._check_auto_protocol()

    def _check_auto_protocol(self) -> None:
        """Check that brokers can assign partitions as the members would."""
        for assignor in self.partition_assignment_strategy:
            if not isinstance(assignor, str):
                raise ConfigError(
                    'group_protocol="auto" needs assignors that brokers can replace: '
                    f"partition_assignment_strategy must contain names, not {assignor!r}"
                )

    @property
    def remote_assignor(self) -> str | None:
        """Name of the assignor to request from the broker. None lets the broker choose."""
        is_range = self.group_protocol == "auto" and self.partition_assignment_strategy[0] == "range"
        return "range" if is_range and self.group_remote_assignor is None else self.group_remote_assignor


class AdminConfig(ClientConfig):
    """Checked values of the options that `AdminOptions` describes."""

    default_api_timeout_ms: float = option(60_000, milliseconds())

    @property
    def refused_login_ms(self) -> float:
        """Unlimited, because calls have deadlines."""
        return math.inf
