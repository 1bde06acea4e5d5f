"""Options of the clients, each with its meaning, default, and the KIP that introduced it."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypedDict

from .._options.oauth import TokenProvider
from .._options.serialization import Deserializer, Serializer
from ..security import ContextFactory, SaslMechanism, Security, SecurityProtocol
from ..types import CompressionType

__all__ = [
    "Acks",
    "AdminOptions",
    "BootstrapServers",
    "ClientOptions",
    "CompressionType",
    "Connect",
    "ConsumerBaseOptions",
    "ConsumerOptions",
    "Partitioner",
    "ProducerBaseOptions",
    "ProducerOptions",
    "SecurityOptions",
    "SharedClient",
]

BootstrapServers = str | Iterable[str]
Acks = Literal[0, 1, -1, "all"]
OffsetReset = Literal["earliest", "latest", "none"] | str
"""A name, or ``by_duration:`` with an ISO 8601 duration. The literal type lets editors complete the names."""
Connect = Callable[[str, int], Awaitable[socket.socket]]
"""Takes a broker's advertised host and port, and returns a connected socket."""
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""Takes the serialized key, all partitions and the available partitions, and returns a partition, as in aiokafka."""


class SharedClient(Protocol):
    """An `aiokafka_lead.Client` whose connections other clients use."""

    _client: Any


class KerberosOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="GSSAPI"``, which needs the extra "gssapi".

    Tickets come from the user's cache (``kinit``, the variable KRB5CCNAME) unless a keytab is given.
    """

    sasl_kerberos_service_name: str
    """First part of the brokers' principals (``"kafka"``)."""
    sasl_kerberos_domain_name: str | None
    """Second part of the brokers' principals; None is the host that the broker advertises (None)."""
    sasl_kerberos_principal: str | None
    """Principal of this client; None is the first principal of the keytab, or the principal of the cache (None)."""
    sasl_kerberos_keytab: str | os.PathLike[str] | None
    """File with the principal's key, with which tickets are obtained and renewed without ``kinit`` (None)."""


class OAuthOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="OAUTHBEARER"`` (KIP-255, KIP-768)."""

    sasl_oauth_token_provider: TokenProvider | None
    """Source of tokens (`aiokafka_lead.oidc`): a function, or an object with ``token()`` and optionally
    ``extensions()``. It is called in a thread unless it is a coroutine function. All clients with the same provider
    share its token."""
    sasl_oauth_token_timeout_ms: float
    """Time limit for a call of the provider (10000)."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """Instead of a provider: URL of a token endpoint for client credentials, or ``file:///...`` for a file with a
    token."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint."""
    sasl_oauthbearer_scope: str | None
    """Scope to request; None requests no scope."""
    sasl_oauthbearer_header_urlencode: bool
    """URL-encode client id and secret, as RFC 6749 requires (False, as in Java)."""
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    """Extensions sent to brokers with these tokens (KIP-342): a mapping or
    ``"logicalCluster=lkc-1,identityPoolId=p-2"``."""
    sasl_login_refresh_window_factor: float
    """Fraction of its lifetime after which a token is renewed (0.8)."""
    sasl_login_refresh_window_jitter: float
    """Maximum random addition to ``sasl_login_refresh_window_factor`` (0.05)."""
    sasl_login_refresh_min_period_seconds: float
    """Minimum time that a token is used; ignored for a token with a shorter lifetime (60)."""
    sasl_login_refresh_buffer_seconds: float
    """Minimum remaining lifetime at renewal; ignored for a token with a shorter lifetime (300)."""
    sasl_login_retry_backoff_ms: float
    """First delay before a failed provider is called again (100)."""
    sasl_login_retry_backoff_max_ms: float
    """Maximum delay before a failed provider is called again (10000)."""


class SecurityOptions(KerberosOptions, OAuthOptions, total=False):
    """Options of TLS and SASL, common to all clients."""

    security: Security | None
    """TLS, a login or both as one value of `aiokafka_lead.security`, for example ``Scram(user, password)``. Replaces
    all options below (None)."""
    security_protocol: SecurityProtocol
    """Protocol for connections to brokers (``"PLAINTEXT"``)."""
    ssl_context: ssl.SSLContext | ContextFactory | None
    """Replaces the other ``ssl_*`` options for SSL and SASL_SSL: a context, or a callable that returns the context for
    the next connection. A coroutine function is awaited; other callables are called in a thread."""
    ssl_cafile: str | os.PathLike[str] | None
    """Authorities to trust, in PEM, DER or PKCS #12; the system's if neither this nor ``ssl_cadata`` is given. A
    changed file is read again."""
    ssl_cadata: str | bytes | None
    """Authorities to trust, in addition to ``ssl_cafile``: PEM as a str, DER as bytes."""
    ssl_ca_password: str | None
    """Password of an ``ssl_cafile`` in PKCS #12."""
    ssl_certfile: str | os.PathLike[str] | None
    """Certificate of this client with its chain, in PEM (the key may be in the same file) or PKCS #12."""
    ssl_certdata: str | None
    """Certificate of this client with its chain, as PEM text (KIP-651)."""
    ssl_keyfile: str | os.PathLike[str] | None
    """Private key of the certificate, in PEM."""
    ssl_keydata: str | None
    """Private key of the certificate, as PEM text (KIP-651)."""
    ssl_password: str | None
    """Password of an encrypted private key, or of an ``ssl_certfile`` in PKCS #12."""
    ssl_check_hostname: bool
    """Require that the broker's certificate names the host of the connection (True)."""
    sasl_mechanism: SaslMechanism | None
    """SASL mechanism for SASL_PLAINTEXT and SASL_SSL (``"PLAIN"``)."""
    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM."""
    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM."""
    sasl_delegation_token: bool
    """Use user name and password as the id and HMAC (in base64) of a delegation token, with SCRAM (False, KIP-48)."""


class ClientOptions(SecurityOptions, total=False):
    """Options of every client."""

    proxy_url: str | None
    """Proxy for connections to brokers: ``"socks5://user:password@host:port"``, ``"socks4://..."`` or ``"http://..."``
    (CONNECT). It also resolves the brokers' names, and TLS goes through it. Needs the extra ``proxy`` (None)."""
    connect: Connect | None
    """Async function that takes a host and a port and returns a connected ``socket.socket``, for example through a
    tunnel (None)."""
    bootstrap_resolve_timeout_ms: float
    """Time for which `start` waits for a bootstrap server's name to resolve; 0 fails immediately (0, KIP-909)."""
    client_id: str
    """Name of this client in brokers' logs and quotas (``"aiokafka-lead"``)."""
    request_timeout_ms: float
    """Time limit for a request, after which its connection is closed. Also the longest throttle time accepted from a
    broker (30000)."""
    retry_backoff_ms: float
    """Delay before the first retry of a request; doubles with each failure, with jitter (100, KIP-580)."""
    retry_backoff_max_ms: float
    """Maximum delay before a retry (1000)."""
    reconnect_backoff_ms: float
    """First delay before reconnecting to a broker (50, KIP-144)."""
    reconnect_backoff_max_ms: float
    """Maximum delay before reconnecting (1000)."""
    socket_connection_setup_timeout_ms: float
    """Initial time limit for connecting, TLS and authentication (10000, KIP-601)."""
    socket_connection_setup_timeout_max_ms: float
    """Maximum of ``socket_connection_setup_timeout_ms``, which grows with repeated failures (30000)."""
    connections_max_idle_ms: float
    """Time after which an idle connection is closed (540000). Until then TCP keepalive probes it once a minute, so that
    load balancers do not drop it earlier."""
    max_in_flight_requests_per_connection: int
    """Maximum number of requests in flight on one connection (5); at least 100 on connections to a coordinator."""
    receive_max_bytes: int
    """Largest frame accepted from a broker, checked before memory is allocated (128 MiB)."""
    metadata_max_age_ms: float
    """Age at which metadata is refreshed (300000)."""
    metadata_max_idle_ms: float
    """Time without writes after which a producer forgets a topic (300000, KIP-526)."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """Action if no known broker can be reached (``"rebootstrap"``, KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: float
    """Bootstrap again after this time without metadata (300000, KIP-1102)."""
    metadata_cluster_check_enable: bool
    """Check that connections lead to the intended broker and cluster (True, KIP-1242). From Kafka 4.4 on, brokers
    refuse misrouted connections; older brokers are asked for their cluster id. No effect if
    ``metadata_recovery_strategy`` is ``"none"``.
    """
    cluster_id_mismatch: Literal["fail", "warn", "adopt"]
    """Action if every bootstrap server belongs to another cluster than before (``"fail"``, KIP-899)."""
    leader_hint_policy: Literal["trust", "known_nodes", "off"]
    """Leader hints to follow from Produce and Fetch responses: all, only hints to known brokers, or none (``"trust"``,
    KIP-951)."""
    close_timeout_ms: float | None
    """``timeout_ms`` of the `stop` at the end of an ``async with`` block (None)."""
    enable_metrics_push: bool
    """Push the client's metrics to brokers that request them (True, KIP-714)."""
    allow_auto_create_topics: bool
    """Let brokers create missing topics on request, if they are configured to (True)."""


class ProducerBaseOptions(ClientOptions, total=False):
    """Options of `Producer` that do not affect the types of keys and values."""

    acks: Acks
    """Replicas that must have a record before it is acknowledged: 0 for none, 1 for the leader, ``"all"`` for all
    in-sync replicas (``"all"``)."""
    enable_idempotence: bool
    """Prevent retries from duplicating or reordering records (True; needs ``acks="all"`` and at most 5 requests in
    flight)."""
    compression_type: CompressionType | None
    """Compression of batches (``"none"``)."""
    compression_level: int | None
    """Level of the codec; None is the codec's default (None)."""
    batch_size: int
    """Size in bytes at which a batch is sent without lingering (16384)."""
    batch_size_max: int
    """Maximum size in bytes of a batch that waits behind another request to its broker or cannot be sent yet (262144).
    If only ``batch_size`` is given, equal to it, so no batch exceeds ``batch_size``."""
    linger_ms: float
    """Time for which a batch waits for more records (5)."""
    buffer_memory: int
    """Memory limit in bytes for all unacknowledged records (32 MiB)."""
    max_block_ms: float
    """Time for which ``send`` may wait for metadata and buffer memory (60000)."""
    max_request_size: int
    """Maximum size of a request in bytes, and so of a record (1048576)."""
    delivery_timeout_ms: float
    """Time after ``send`` at which a record fails unless it is acknowledged (120000)."""
    transactional_id: str | None
    """Name of this producer's transactions, unique among running producers; None disables transactions (None, KIP-98).
    """
    transaction_timeout_ms: int
    """Time after which an open transaction is aborted; at most the broker's ``transaction.max.timeout.ms`` (60000)."""
    retries: int
    """Maximum number of retries per batch (2147483647: in practice ``delivery_timeout_ms`` is the limit)."""
    partitioner: Partitioner | None
    """Chooses the partition of records sent without a partition; None is the built-in partitioner (None, KIP-480,
    KIP-794)."""
    partitioner_adaptive_partitioning_enable: bool
    """Prefer faster brokers for records without a key (True, KIP-794)."""
    partitioner_availability_timeout_ms: float
    """Time without accepting a batch after which a broker gets no records without a key; 0 disables the check (0,
    KIP-794)."""
    partitioner_ignore_keys: bool
    """Choose the partition without regard to the key (False, KIP-794)."""
    partitioner_rack_aware: bool
    """Prefer partitions with a leader in ``client_rack`` for records without a key, if any accepts records (False,
    KIP-1123)."""
    client_rack: str | None
    """Rack of this producer, as in ``broker.rack``; also used by the metric ``bytes_sent_in_rack`` (None)."""


class ProducerOptions(ProducerBaseOptions, total=False):
    """Options of `Producer`."""

    key_serializer: Serializer[Any] | None
    """Converts a key other than None to bytes. May take a `SerializationContext`, and may be a coroutine function."""
    value_serializer: Serializer[Any] | None
    """Converts a value other than None to bytes. May take a `SerializationContext`, and may be a coroutine function."""


class ConsumerBaseOptions(ClientOptions, total=False):
    """Options of `Consumer` that do not affect the types of keys and values."""

    group_id: str | None
    """Consumer group to join, or to commit offsets for; None for no group (None)."""
    group_instance_id: str | None
    """Member name that survives restarts, for static membership (None, KIP-345)."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """Rebalance protocol: ``"classic"``, ``"consumer"`` (KIP-848), or ``"auto"`` for the latter if the brokers support
    it, else the classic protocol (``"classic"``)."""
    group_remote_assignor: Literal["uniform", "range"] | str | None
    """Assignor of the broker under KIP-848; None lets the broker choose (None). But under ``"auto"``, None is range if
    ``partition_assignment_strategy`` begins with ``"range"``. An error under ``"classic"``."""
    partition_assignment_strategy: Sequence[Any] | Any
    """Assignors in order of preference: a name, an object, several, or ``"range,sticky"`` (cooperative-sticky, then
    range). Only names under ``group_protocol="auto"``; an error under ``"consumer"``, because brokers assign."""
    session_timeout_ms: float
    """Time without heartbeats after which a member is removed from the group (45000)."""
    heartbeat_interval_ms: float
    """Interval of heartbeats (3000)."""
    max_poll_interval_ms: float
    """Time without a read after which the consumer leaves the group (300000)."""
    rebalance_timeout_ms: float | None
    """Time for which a rebalance waits for records in progress; None is ``max_poll_interval_ms`` (None)."""
    enable_auto_commit: bool
    """Commit delivered records periodically (True)."""
    auto_commit_interval_ms: float
    """Interval of automatic commits (5000)."""
    auto_offset_reset: OffsetReset
    """Position if there is no committed offset: "earliest", "latest", "none" (an error) or "by_duration:PT1H"
    (``"latest"``, KIP-1106)."""
    on_bad_record: Literal["raise", "skip", "dead_letter"]
    """Action for a record that can never be deserialized: raise the error; skip the record with a warning in the log;
    or send it to ``dead_letter_topic`` and then skip it (``"raise"``)."""
    dead_letter_topic: str | None
    """Topic for records that cannot be deserialized, with their original bytes and the cause in headers (see
    `DEAD_LETTER_HEADERS`). Also the default for `Consumer.run` (None)."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """Read all records, including records of open and aborted transactions, or only committed records
    (``"read_uncommitted"``)."""
    client_rack: str | None
    """Rack of this consumer: it fetches from a replica in the same rack (None, KIP-392)."""
    fetch_min_bytes: int
    """Number of bytes for which a broker waits before it answers a fetch (1)."""
    fetch_max_wait_ms: float
    """Maximum time that a broker waits before it answers a fetch (500)."""
    fetch_max_bytes: int
    """Maximum size of a fetch response in bytes; also the limit of prefetched data (52428800)."""
    max_partition_fetch_bytes: int
    """Maximum number of bytes per partition in a fetch response (1048576)."""
    max_poll_records: int | None
    """Maximum number of records per ``getmany``; None for all that are available. Also the number up to which
    ``batches`` joins batches of a partition's log; None for 500 (None)."""
    max_decompressed_batch_bytes: int
    """Maximum decompressed size of a batch in bytes (268435456). The same limit applies to its record objects. A larger
    batch raises `BatchTooLargeError`."""
    max_decompressed_bytes: int
    """Maximum size in bytes of decompressed, unread data in all partitions (536870912), but at least one batch. Batches
    that exceed it are decompressed again when they are read."""
    check_crcs: bool
    """Verify the checksum of every batch (True)."""
    exclude_internal_topics: bool
    """Exclude Kafka's internal topics from pattern subscriptions (True)."""
    default_api_timeout_ms: float
    """Default timeout of calls (60000)."""


class ConsumerOptions(ConsumerBaseOptions, total=False):
    """Options of `Consumer`."""

    key_deserializer: Deserializer[Any] | None
    """Converts a key from bytes. May take a `SerializationContext`, and may be a coroutine function."""
    value_deserializer: Deserializer[Any] | None
    """Converts a value from bytes. May take a `SerializationContext`, and may be a coroutine function."""


class AdminOptions(ClientOptions, total=False):
    """Options of `AdminClient`."""

    default_api_timeout_ms: float
    """Default timeout of calls (60000)."""
