"""The options of the clients: what may be given, its defaults, and the frozen result that the engine reads.

Names are aiokafka's where it has the option, else the Java client's in snake case. Defaults are the Java client's
(4.x). Values are checked when the client is constructed, so a mistake shows before anything is connected.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from ._options.checks import (
    INT32_MAX,
    boolean,
    build,
    function,
    hide_secrets,
    integer,
    milliseconds,
    one_of,
    option,
    optional,
    short_text,
    text,
)
from ._options.checks import servers as server_list
from ._options.security import SecurityConfig, SecurityOptions
from ._options.serialization import AsyncDeserializer, Deserializer, Serializer, application_function
from .errors import ConfigError, ConfigTypeError

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
]

BootstrapServers = str | Iterable[str]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal[0, 1, -1, "all"]
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""From the serialized key, all partitions and the available ones to the partition chosen, as in aiokafka."""


class ClientOptions(SecurityOptions, total=False):
    """Options that every client takes."""

    client_id: str
    """What brokers' logs and quotas call this client (``"aiokafka-lead"``)."""
    request_timeout_ms: float
    """How long one request may take until its connection is given up (30000)."""
    retry_backoff_ms: float
    """The first wait before a failed request is sent again; doubles at each failure, with jitter (100, KIP-580)."""
    retry_backoff_max_ms: float
    """The longest such wait (1000)."""
    reconnect_backoff_ms: float
    """The first wait before a broker is connected to again (50, KIP-144)."""
    reconnect_backoff_max_ms: float
    """The longest such wait (1000)."""
    socket_connection_setup_timeout_ms: float
    """How long connecting, TLS and authentication may take, at first (10000, KIP-601)."""
    socket_connection_setup_timeout_max_ms: float
    """The same after repeated failures (30000)."""
    connections_max_idle_ms: float
    """A connection without traffic closes after this (540000)."""
    max_in_flight_requests_per_connection: int
    """Requests on their way on one connection (5)."""
    receive_max_bytes: int
    """The largest frame accepted from a broker, checked before memory is taken (128 MiB)."""
    metadata_max_age_ms: float
    """Metadata is refreshed at least this often (300000)."""
    metadata_max_idle_ms: float
    """A producer forgets a topic that it has not written to for this long (300000, KIP-526)."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """What to do when no known broker can be reached (``"rebootstrap"``, KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: float
    """Bootstrap anew when no metadata could be had for this long (300000, KIP-1102)."""
    cluster_id_mismatch: Literal["fail", "warn", "adopt"]
    """What to do when bootstrapping anew leads to another cluster (``"fail"``, KIP-899)."""
    leader_hint_policy: Literal["trust", "known_nodes", "off"]
    """Which leader hints of Produce and Fetch answers are followed (``"trust"``, KIP-951)."""
    allow_auto_create_topics: bool
    """Let brokers create topics that are asked for and do not exist, where they are set up so (True)."""


class ProducerBaseOptions(ClientOptions, total=False):
    """Options of `Producer` that do not affect the types of keys and values."""

    acks: Acks
    """Which replicas have a record before it counts: 0 none, 1 the leader, ``"all"`` every in-sync one (``"all"``)."""
    enable_idempotence: bool
    """Retries neither duplicate nor reorder (True; needs acks "all" and at most 5 requests in flight)."""
    compression_type: CompressionType | None
    """How batches are compressed (``"none"``)."""
    compression_level: int | None
    """The codec's own level; None is the codec's default."""
    batch_size: int
    """Bytes that make a batch ready to be sent, though it could linger (16384)."""
    batch_size_max: int
    """Bytes that a batch may grow to as long as it lingers behind another request to its broker, or has to wait
    (262144; ``batch_size``, so that no batch is ever larger, where only that is given)."""
    linger_ms: float
    """How long a batch may wait for more records (5)."""
    buffer_memory: int
    """Bytes that all records not yet acknowledged may take (32 MiB)."""
    max_block_ms: float
    """How long ``send`` may wait for metadata and buffer (60000)."""
    max_request_size: int
    """Bytes that one request, and so one record, may hold (1048576)."""
    delivery_timeout_ms: float
    """How long after ``send`` a record is acknowledged or failed (120000)."""
    transactional_id: str | None
    """The name of this producer's transactions, which no other may use at the same time; None is for a producer without
    any (None, KIP-98)."""
    transaction_timeout_ms: int
    """The coordinator aborts a transaction that is open for this long; at most its ``transaction.max.timeout.ms``
    (60000)."""
    retries: int
    """Upper bound of the tries again of one batch (2147483647: ``delivery_timeout_ms`` is the bound that counts)."""
    partitioner: Partitioner | None
    """Chooses the partition of records that name none; None is the built-in one (KIP-480, KIP-794)."""
    partitioner_adaptive_partitioning_enable: bool
    """Records without key go rather to faster brokers (True, KIP-794)."""
    partitioner_availability_timeout_ms: float
    """A broker that takes no batch for this long gets no records without key; 0 turns this off (0, KIP-794)."""
    partitioner_ignore_keys: bool
    """The partition does not depend on the key (False, KIP-794)."""


class ProducerOptions(ProducerBaseOptions, total=False):
    """Options of `Producer`."""

    key_serializer: Serializer[Any] | None
    """Turns a key that is not None into bytes; may take a `SerializationContext`, and may be awaited."""
    value_serializer: Serializer[Any] | None
    """Turns a value that is not None into bytes; may take a `SerializationContext`, and may be awaited."""


class ConsumerBaseOptions(ClientOptions, total=False):
    """Options of `Consumer` that do not affect the types of keys and values."""

    group_id: str | None
    """The consumer group to join, or to keep offsets for; None keeps none (None)."""
    group_instance_id: str | None
    """A name that survives restarts: static membership (None, KIP-345)."""
    group_protocol: Literal["classic", "consumer"]
    """The rebalance protocol (``"classic"``; ``"consumer"`` is KIP-848)."""
    group_remote_assignor: str | None
    """The broker's assignor under ``group_protocol="consumer"``; None lets the broker choose."""
    partition_assignment_strategy: Sequence[Any] | Any
    """Assignors by preference: a name or object, several, or ``"range,sticky"`` (cooperative-sticky, then range)."""
    session_timeout_ms: float
    """Without a heartbeat for this long a member is out (45000)."""
    heartbeat_interval_ms: float
    """How often heartbeats go out (3000)."""
    max_poll_interval_ms: float
    """How long the application may take between two reads before it leaves the group (300000)."""
    rebalance_timeout_ms: float | None
    """How long a rebalance waits for the work in hand; None is ``max_poll_interval_ms``."""
    enable_auto_commit: bool
    """Commit what the application was given, now and then (True)."""
    auto_commit_interval_ms: float
    """How often that is (5000)."""
    auto_offset_reset: str
    """Where to start without a position: "earliest", "latest", "none" or "by_duration:PT1H" (``"latest"``,
    KIP-1106)."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """Whether records of open and aborted transactions are seen (``"read_uncommitted"``)."""
    client_rack: str | None
    """Where this client is: fetches go to a replica in the same rack (None, KIP-392)."""
    fetch_min_bytes: int
    """A broker waits until it has this many bytes before it answers a fetch (1)."""
    fetch_max_wait_ms: float
    """A broker waits no longer than this before it answers a fetch (500)."""
    fetch_max_bytes: int
    """Bytes of one fetch answer, also the bound of what is read ahead (52428800)."""
    max_partition_fetch_bytes: int
    """Bytes of one partition in a fetch answer (1048576)."""
    max_poll_records: int | None
    """Records that ``getmany`` returns at most, None is no bound but what is there; and up to which ``batches`` joins
    batches of a partition's log, None is 500 (None)."""
    max_decompressed_batch_bytes: int
    """How large one batch of a partition's log may become when it is decompressed (268435456), its records' objects not
    counted, but bounded likewise; a larger one raises `BatchTooLargeError`."""
    max_decompressed_bytes: int
    """How much a consumer may have decompressed and not handed out, of all partitions (536870912), at least one batch;
    beyond it what waits is decompressed again in its turn."""
    check_crcs: bool
    """Verify the checksum of every batch (True)."""
    exclude_internal_topics: bool
    """A pattern does not match Kafka's own topics (True)."""
    default_api_timeout_ms: float
    """The bound of calls that have none of their own (60000)."""


class ConsumerOptions(ConsumerBaseOptions, total=False):
    """Options of `Consumer`."""

    key_deserializer: Deserializer[Any] | None
    """Turns a key's bytes into what the application gets; may take a `SerializationContext`, and may be awaited."""
    value_deserializer: Deserializer[Any] | None
    """Turns a value's bytes into what the application gets; may take a `SerializationContext`, and may be awaited."""


class AdminOptions(ClientOptions, total=False):
    """Options of `AdminClient`."""

    default_api_timeout_ms: float
    """The bound of calls that have none of their own (60000)."""


ASSIGNOR_NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")
"""Those of the built-in assignors."""


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
            raise ConfigError(f"{name} holds {own!r} twice")
        names.add(own)
    return items


def _assignor_name(option_name: str, assignor: Any) -> str:
    """That of an assignor of the application's own (`GroupAssignor`)."""
    methods = (getattr(assignor, method, None) for method in ("assign", "user_data"))
    if isinstance(assignor, type) or not hasattr(assignor, "cooperative") or not all(map(callable, methods)):
        raise ConfigTypeError(f"{option_name} must hold names or assignors (GroupAssignor), not {assignor!r}")
    return short_text(f"{option_name}: an assignor's name", getattr(assignor, "name", None))


def _compression(name: str, value: Any) -> str:
    return str(one_of("none", "gzip", "snappy", "lz4", "zstd")(name, "none" if value is None else value))


def _acks(name: str, value: Any) -> int:
    choice = one_of(0, 1, -1, "all")(name, value)
    return -1 if choice == "all" else int(choice)


def _bytes(low: int = 0) -> Callable[[str, Any], Any]:
    return integer(low, INT32_MAX)


@dataclass(init=False, repr=False, eq=False)
class ClientConfig(SecurityConfig):
    """The options of `ClientOptions`, checked; see there for each one's meaning."""

    bootstrap_servers: tuple[tuple[str, int], ...] = dataclasses.field(kw_only=True, metadata={"check": server_list})
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
    cluster_id_mismatch: Literal["fail", "warn", "adopt"] = option("fail", one_of("fail", "warn", "adopt"))
    leader_hint_policy: Literal["trust", "known_nodes", "off"] = option("trust", one_of("trust", "known_nodes", "off"))
    allow_auto_create_topics: bool = option(True, boolean)

    @classmethod
    def from_options(cls, bootstrap_servers: BootstrapServers, options: Mapping[str, Any]) -> Self:
        """Check everything given and fill in the rest. Secrets in ``options`` do not show in its ``repr`` afterwards.

        Raises `ConfigError` (a ValueError) or `ConfigTypeError` (a TypeError) that names the option.
        """
        hide_secrets(cls, options)
        given = {"bootstrap_servers": bootstrap_servers, **options}
        return build(cls, cls._settle(given))

    @classmethod
    def _settle(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Fill in what follows from other options, before each one is checked on its own."""
        given = cls._settle_security(given)
        for first, longest in (
            ("retry_backoff_ms", "retry_backoff_max_ms"),
            ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
            ("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms"),
        ):
            # Java: a first wait beyond the default longest one makes every wait the same.
            if longest not in given and isinstance(given.get(first), (int, float)):
                given[longest] = max(given[first], cls.__dataclass_fields__[longest].default)
        return given

    def shared(self) -> tuple[list[str], dict[str, Any]]:
        """The bootstrap servers and the options with which another client reaches the same cluster in the same way."""
        servers = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.bootstrap_servers]
        names = {field.name for field in dataclasses.fields(ClientConfig)} - {"bootstrap_servers"}
        return servers, {name: getattr(self, name) for name in names}

    def _check(self) -> None:
        """Check what two options say together."""
        self._first_at_most_longest("retry_backoff_ms", "retry_backoff_max_ms")
        self._first_at_most_longest("reconnect_backoff_ms", "reconnect_backoff_max_ms")
        self._first_at_most_longest("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms")
        self._check_security()
        self._first_at_most_longest("sasl_login_retry_backoff_ms", "sasl_login_retry_backoff_max_ms")
        if self.sasl_mechanism == "OAUTHBEARER":
            from .oidc.flat import settle_provider

            settle_provider(self)

    def _first_at_most_longest(self, first: str, longest: str) -> None:
        if getattr(self, first) > getattr(self, longest):
            raise ConfigError(f"{first} must not be more than {longest} ({getattr(self, longest)})")


@dataclass(init=False, repr=False, eq=False)
class ProducerConfig(ClientConfig):
    """The options of `ProducerOptions`, checked. ``acks`` is -1 for "all"."""

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
    key_serializer: Serializer[Any] | None = option(None, optional(application_function))
    value_serializer: Serializer[Any] | None = option(None, optional(application_function))

    @classmethod
    def _settle(cls, given: dict[str, Any]) -> dict[str, Any]:
        given = super()._settle(given)
        # Java: idempotence that was not asked for gives way to options that exclude it.
        weaker = given.get("acks", "all") in (0, 1) or given.get("retries", 1) == 0
        many = given.get("max_in_flight_requests_per_connection", 1)
        transactional = given.get("transactional_id") is not None
        if "enable_idempotence" not in given and not transactional and (weaker or (isinstance(many, int) and many > 5)):
            given["enable_idempotence"] = False
        if isinstance(given.get("batch_size"), int):
            given.setdefault("batch_size_max", given["batch_size"])
        # Java: the default bound of a delivery grows with what is given explicitly for its parts.
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
        if self.delivery_timeout_ms < self.linger_ms + self.request_timeout_ms:
            raise ConfigError("delivery_timeout_ms must be at least linger_ms + request_timeout_ms")


@dataclass(init=False, repr=False, eq=False)
class ConsumerConfig(ClientConfig):
    """The options of `ConsumerOptions`, checked."""

    group_id: str | None = option(None, optional(short_text))
    group_instance_id: str | None = option(None, optional(short_text))
    group_protocol: Literal["classic", "consumer"] = option("classic", one_of("classic", "consumer"))
    group_remote_assignor: str | None = option(None, optional(short_text))
    partition_assignment_strategy: tuple[Any, ...] = option(("cooperative-sticky", "range"), _assignors)
    session_timeout_ms: float = option(45_000, milliseconds(1, INT32_MAX))
    heartbeat_interval_ms: float = option(3_000, milliseconds(1))
    max_poll_interval_ms: float = option(300_000, milliseconds(1, INT32_MAX))
    rebalance_timeout_ms: float | None = option(None, optional(milliseconds(1, INT32_MAX)))
    enable_auto_commit: bool = option(True, boolean)
    auto_commit_interval_ms: float = option(5_000, milliseconds(1))
    auto_offset_reset: str = option("latest", text)
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

    def _check(self) -> None:
        super()._check()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigError("heartbeat_interval_ms must be less than session_timeout_ms")
        if self.group_instance_id is not None and self.group_id is None:
            raise ConfigError("group_instance_id needs a group_id")
        if self.fetch_max_wait_ms >= self.request_timeout_ms:
            raise ConfigError("fetch_max_wait_ms must be less than request_timeout_ms")


@dataclass(init=False, repr=False, eq=False)
class AdminConfig(ClientConfig):
    """The options of `AdminOptions`, checked."""

    default_api_timeout_ms: float = option(60_000, milliseconds())
