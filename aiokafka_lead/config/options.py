"""Options of all clients. Each description ends with the default, and often the KIP, in parentheses."""

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
"""A name, or ``by_duration:`` followed by an ISO 8601 duration. The literal type lets editors complete the names."""
Connect = Callable[[str, int], Awaitable[socket.socket]]
"""Coroutine function that takes a broker's advertised host and port, and returns a connected socket."""
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""Function that takes the serialized key, all partitions and the available partitions, and returns a partition, as in
aiokafka."""


class SharedClient(Protocol):
    """An `aiokafka_lead.Client` whose connections other clients use."""

    _client: Any


class KerberosOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="GSSAPI"``, which needs the extra "gssapi".

    Without a keytab, the client uses tickets from the user's ticket cache. ``kinit`` fills the cache, and the
    environment variable KRB5CCNAME names it.
    """

    sasl_kerberos_service_name: str
    """First part of the brokers' principals (``"kafka"``)."""
    sasl_kerberos_domain_name: str | None
    """Second part of the brokers' principals. None means the host that the broker advertises (None)."""
    sasl_kerberos_principal: str | None
    """Principal of this client. None means the first principal of the keytab, or the principal of the cache (None)."""
    sasl_kerberos_keytab: str | os.PathLike[str] | None
    """File with the key of the principal. With it, tickets are obtained and renewed without ``kinit`` (None)."""


class OAuthOptions(TypedDict, total=False):
    """Options for ``sasl_mechanism="OAUTHBEARER"``, with a provider or a token endpoint (KIP-255, KIP-768)."""

    sasl_oauth_token_provider: TokenProvider | None
    """Source of tokens (see `aiokafka_lead.oidc`): a function that returns a token, or an object with ``token()`` and
    optionally ``extensions()``. It is called in a thread unless it is a coroutine function. All clients with the same
    provider share its token (None)."""
    sasl_oauth_token_timeout_ms: float
    """Time limit for one call of the provider (10000)."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """URL of a token endpoint for client credentials, or ``file:///...`` for a file with a token. Replaces
    ``sasl_oauth_token_provider`` (None)."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint (None)."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint (None)."""
    sasl_oauthbearer_scope: str | None
    """Scope to request from the token endpoint. None requests no scope (None)."""
    sasl_oauthbearer_header_urlencode: bool
    """URL-encode the client id and the secret, as RFC 6749 requires (False, as in Java)."""
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    """SASL extensions that are sent to brokers with these tokens (KIP-342): a mapping, or a str like
    ``"logicalCluster=lkc-1,identityPoolId=p-2"`` (None)."""
    sasl_login_refresh_window_factor: float
    """Fraction of its lifetime after which a token is renewed (0.8)."""
    sasl_login_refresh_window_jitter: float
    """Maximum random addition to ``sasl_login_refresh_window_factor`` (0.05)."""
    sasl_login_refresh_min_period_seconds: float
    """Minimum time in seconds that a token is used. Ignored for a token with a shorter lifetime (60)."""
    sasl_login_refresh_buffer_seconds: float
    """Minimum remaining lifetime in seconds at which a token is renewed. Ignored for a token with a shorter lifetime
    (300)."""
    sasl_login_retry_backoff_ms: float
    """Delay before the first new call of a provider that has failed (100)."""
    sasl_login_retry_backoff_max_ms: float
    """Maximum delay before a new call of a provider that has failed (10000)."""


class SecurityOptions(KerberosOptions, OAuthOptions, total=False):
    """Options of TLS and SASL, common to all clients."""

    security: Security | None
    """TLS, a login, or both, as one value of `aiokafka_lead.security`, for example ``Scram(user, password)``. Replaces
    all options below (None)."""
    security_protocol: SecurityProtocol
    """Protocol for connections to brokers (``"PLAINTEXT"``)."""
    ssl_context: ssl.SSLContext | ContextFactory | None
    """TLS context for SSL and SASL_SSL, or a callable that returns the context for the next connection. A coroutine
    function is awaited; another callable is called in a thread. Replaces the other ``ssl_*`` options (None)."""
    ssl_cafile: str | os.PathLike[str] | None
    """File with the certificate authorities to trust, in PEM, DER or PKCS #12. Without this and ``ssl_cadata``, the
    authorities of the system are trusted. A changed file is read again (None)."""
    ssl_cadata: str | bytes | None
    """Certificate authorities to trust in addition to ``ssl_cafile``: PEM as a str, or DER as bytes (None)."""
    ssl_ca_password: str | None
    """Password of an ``ssl_cafile`` in PKCS #12 (None)."""
    ssl_certfile: str | os.PathLike[str] | None
    """File with the certificate of this client and its chain, in PEM or PKCS #12. The same file may contain the key
    (None)."""
    ssl_certdata: str | None
    """Certificate of this client and its chain, as PEM text (None, KIP-651)."""
    ssl_keyfile: str | os.PathLike[str] | None
    """File with the private key of the certificate, in PEM (None)."""
    ssl_keydata: str | None
    """Private key of the certificate, as PEM text (None, KIP-651)."""
    ssl_password: str | None
    """Password of an encrypted private key, or of an ``ssl_certfile`` in PKCS #12 (None)."""
    ssl_check_hostname: bool
    """Require that the certificate of a broker names the host of the connection (True)."""
    sasl_mechanism: SaslMechanism | None
    """SASL mechanism for SASL_PLAINTEXT and SASL_SSL (``"PLAIN"``)."""
    sasl_plain_username: str | None
    """User name for PLAIN and SCRAM (None)."""
    sasl_plain_password: str | None
    """Password for PLAIN and SCRAM (None)."""
    sasl_delegation_token: bool
    """Log in with a delegation token by SCRAM: the user name is the token's id, and the password is its HMAC in base64
    (False, KIP-48)."""


class ClientOptions(SecurityOptions, total=False):
    """Options that every client has, as keyword arguments. Times are in milliseconds."""

    proxy_url: str | None
    """Proxy for connections to brokers: ``"socks5://user:password@host:port"``, ``"socks4://..."`` or ``"http://..."``
    (CONNECT). The proxy also resolves the names of the brokers, and TLS passes through it. Needs the extra ``proxy``
    (None)."""
    connect: Connect | None
    """Coroutine function that takes a host and a port and returns a connected ``socket.socket``, for example through a
    tunnel (None)."""
    bootstrap_resolve_timeout_ms: float
    """Maximum time that `start` waits for the name of a bootstrap server to resolve. With 0, `start` fails immediately
    (0, KIP-909)."""
    client_id: str
    """Name of this client in brokers' logs and quotas (``"aiokafka-lead"``)."""
    request_timeout_ms: float
    """Time limit for a request, after which its connection is closed. Also the longest throttle time that the client
    accepts from a broker (30000)."""
    retry_backoff_ms: float
    """Delay before the first retry of a request. The delay doubles with each failure, with jitter (100, KIP-580)."""
    retry_backoff_max_ms: float
    """Maximum delay before a retry (1000)."""
    reconnect_backoff_ms: float
    """Delay before the first attempt to reconnect to a broker. It doubles with each failure, with jitter (50, KIP-144).
    """
    reconnect_backoff_max_ms: float
    """Maximum delay before an attempt to reconnect (1000)."""
    socket_connection_setup_timeout_ms: float
    """Time limit for connecting, TLS and authentication. It grows with repeated failures (10000, KIP-601)."""
    socket_connection_setup_timeout_max_ms: float
    """Maximum of ``socket_connection_setup_timeout_ms`` after repeated failures (30000)."""
    connections_max_idle_ms: float
    """Time after which an idle connection is closed. Until then, TCP keepalive probes are sent once a minute, so that
    load balancers keep the connection (540000)."""
    max_in_flight_requests_per_connection: int
    """Maximum number of requests in flight on one connection. Connections to a coordinator allow at least 100 (5)."""
    receive_max_bytes: int
    """Largest response in bytes that the client accepts. The size is checked before memory is allocated (128 MiB)."""
    metadata_max_age_ms: float
    """Age at which metadata is refreshed (300000)."""
    metadata_max_idle_ms: float
    """Time without writes after which a producer no longer refreshes the metadata of a topic (300000, KIP-526)."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """With ``"rebootstrap"``, the client connects to its bootstrap servers again if no known broker can be reached.
    With ``"none"``, it keeps trying the known brokers (``"rebootstrap"``, KIP-899)."""
    metadata_recovery_rebootstrap_trigger_ms: float
    """Time without metadata after which the client bootstraps again (300000, KIP-1102)."""
    metadata_cluster_check_enable: bool
    """Check that connections lead to the intended broker and cluster. Brokers reject misrouted connections since
    Kafka 4.4; older brokers are asked for their cluster id. No effect if ``metadata_recovery_strategy`` is ``"none"``
    (True, KIP-1242)."""
    cluster_id_mismatch: Literal["fail", "warn", "adopt"]
    """Action if every bootstrap server belongs to another cluster than before. ``"fail"`` raises
    `ClusterIdMismatchError`, ``"warn"`` uses the new cluster and logs a warning, and ``"adopt"`` uses it without a
    warning (``"fail"``, KIP-899)."""
    leader_hint_policy: Literal["trust", "known_nodes", "off"]
    """Leaders to accept from errors in Produce and Fetch responses. ``"trust"`` accepts all, ``"known_nodes"`` only
    brokers that the client already knows, and ``"off"`` none (``"trust"``, KIP-951)."""
    close_timeout_ms: float | None
    """Time limit of `stop` at the end of an ``async with`` block. None means the default time limit of `stop` (None).
    """
    enable_metrics_push: bool
    """Push the client's metrics to brokers that request them (True, KIP-714)."""
    allow_auto_create_topics: bool
    """Let brokers create a missing topic that the client uses, if they are configured to create topics (True)."""


class ProducerBaseOptions(ClientOptions, total=False):
    """Options of `Producer` except the serializers. Times are in milliseconds."""

    acks: Acks
    """Number of replicas that must have a record before it is acknowledged: 0 for none, 1 for the leader, ``"all"`` for
    all in-sync replicas (``"all"``)."""
    enable_idempotence: bool
    """Prevent retries from duplicating or reordering records. Needs ``acks="all"`` and at most 5 requests in flight
    (True)."""
    compression_type: CompressionType | None
    """Compression of batches (``"none"``)."""
    compression_level: int | None
    """Compression level. None means the codec's default (None)."""
    batch_size: int
    """Size in bytes at which a batch is sent without lingering (16384)."""
    batch_size_max: int
    """Maximum size in bytes of a batch that waits behind another request to its broker or cannot be sent yet. If only
    ``batch_size`` is given, this option has the same value, so no batch exceeds ``batch_size`` (262144)."""
    linger_ms: float
    """Maximum time that a batch waits for more records (5)."""
    buffer_memory: int
    """Memory limit in bytes for all unacknowledged records (32 MiB)."""
    max_block_ms: float
    """Maximum time that ``send`` waits for metadata and buffer memory. Also the default timeout of transaction calls
    (60000)."""
    max_request_size: int
    """Maximum size of a request in bytes, and therefore of a record (1048576)."""
    delivery_timeout_ms: float
    """Time after ``send`` within which a record must be acknowledged; otherwise it fails (120000)."""
    transactional_id: str | None
    """Name of this producer's transactions, which no other running producer may use. None disables transactions (None,
    KIP-98)."""
    transaction_timeout_ms: int
    """Time after which the coordinator aborts an open transaction. At most the brokers' ``transaction.max.timeout.ms``
    (60000)."""
    retries: int
    """Maximum number of retries for each batch. With the default, ``delivery_timeout_ms`` is the limit in practice
    (2147483647)."""
    partitioner: Partitioner | None
    """Function that chooses the partition of a record that is sent without a partition. None means the built-in
    partitioner (None, KIP-480, KIP-794)."""
    partitioner_adaptive_partitioning_enable: bool
    """Prefer faster brokers for records without a key (True, KIP-794)."""
    partitioner_availability_timeout_ms: float
    """Time after which a broker that accepts no batches gets no more records without a key. 0 disables the check (0,
    KIP-794)."""
    partitioner_ignore_keys: bool
    """Choose the partition independently of the key (False, KIP-794)."""
    partitioner_rack_aware: bool
    """Send records without a key to partitions whose leader is in ``client_rack``, if any of these accepts records
    (False, KIP-1123)."""
    client_rack: str | None
    """Rack of this producer, in the terms of ``broker.rack``. The metric ``bytes_sent_in_rack`` also uses it (None)."""


class ProducerOptions(ProducerBaseOptions, total=False):
    """All options of `Producer`, as keyword arguments."""

    key_serializer: Serializer[Any] | None
    """Function that converts a key other than None to bytes. It may take a `SerializationContext`, and may be a
    coroutine function (None)."""
    value_serializer: Serializer[Any] | None
    """Function that converts a value other than None to bytes. It may take a `SerializationContext`, and may be a
    coroutine function (None)."""


class ConsumerBaseOptions(ClientOptions, total=False):
    """Options of `Consumer` except the deserializers. Times are in milliseconds."""

    group_id: str | None
    """Consumer group to join, or to commit offsets for. None means no group (None)."""
    group_instance_id: str | None
    """Name of the member that stays the same after a restart, for static membership (None, KIP-345)."""
    group_protocol: Literal["classic", "consumer", "auto"]
    """Rebalance protocol: ``"classic"``, ``"consumer"`` (KIP-848), or ``"auto"``, which uses the ``"consumer"``
    protocol if the brokers support it, and otherwise the classic protocol (``"classic"``)."""
    group_remote_assignor: Literal["uniform", "range"] | str | None
    """Assignor of the broker under KIP-848. None lets the broker choose, but under ``"auto"`` it means range if
    ``partition_assignment_strategy`` begins with ``"range"``. Not allowed under ``"classic"`` (None)."""
    partition_assignment_strategy: Sequence[Any] | Any
    """Assignors in order of preference: a name, several names in one str or a list, or objects with the methods of
    `GroupAssignor`. Only names are allowed under ``group_protocol="auto"``. Not allowed under ``"consumer"``, because
    brokers assign the partitions (``"cooperative-sticky,range"``)."""
    session_timeout_ms: float
    """Time without heartbeats after which a member is removed from the group (45000)."""
    heartbeat_interval_ms: float
    """Time between heartbeats to the group's coordinator (3000)."""
    max_poll_interval_ms: float
    """Time without a read after which the consumer leaves its group (300000)."""
    rebalance_timeout_ms: float | None
    """Maximum time that a rebalance waits for the application to handle the records that it holds. None means
    ``max_poll_interval_ms`` (None)."""
    enable_auto_commit: bool
    """Commit the offsets of delivered records periodically (True)."""
    auto_commit_interval_ms: float
    """Time between automatic commits (5000)."""
    auto_offset_reset: OffsetReset
    """Position if there is no committed offset: ``"earliest"``, ``"latest"``, ``"none"`` (raise an error), or a time
    before now such as ``"by_duration:PT1H"`` (``"latest"``, KIP-1106)."""
    on_bad_record: Literal["raise", "skip", "dead_letter"]
    """Action for a record that can never be deserialized. ``"raise"`` raises the error, ``"skip"`` skips the record and
    logs a warning, and ``"dead_letter"`` sends it to ``dead_letter_topic`` and skips it (``"raise"``)."""
    dead_letter_topic: str | None
    """Topic for records that cannot be deserialized, with their original bytes and the cause in headers (see
    `DEAD_LETTER_HEADERS`). Also the default for `Consumer.run` (None)."""
    isolation_level: Literal["read_uncommitted", "read_committed"]
    """``"read_committed"`` returns only committed records. ``"read_uncommitted"`` also returns records of open and
    aborted transactions (``"read_uncommitted"``)."""
    client_rack: str | None
    """Rack of this consumer. The consumer fetches from a replica in the same rack, if there is one (None, KIP-392)."""
    fetch_min_bytes: int
    """Number of bytes that a broker collects before it answers a fetch, unless ``fetch_max_wait_ms`` passes first (1).
    """
    fetch_max_wait_ms: float
    """Maximum time that a broker waits before it answers a fetch (500)."""
    fetch_max_bytes: int
    """Maximum size of a fetch response in bytes. Also the limit for all prefetched data (52428800)."""
    max_partition_fetch_bytes: int
    """Maximum number of bytes per partition in a fetch response (1048576)."""
    max_poll_records: int | None
    """Maximum number of records returned by ``getmany``; None means all that are available. ``batches`` also joins the
    batches of a partition's log up to this number of records; None then means 500 (None)."""
    max_decompressed_batch_bytes: int
    """Maximum decompressed size of a batch in bytes, and maximum size of its record objects. A larger batch raises
    `BatchTooLargeError` (268435456)."""
    max_decompressed_bytes: int
    """Maximum size in bytes of the decompressed data that the application has not read, over all partitions. At least
    one batch is always kept. A batch beyond the limit is decompressed again when it is read (536870912)."""
    check_crcs: bool
    """Verify the checksum of every batch (True)."""
    exclude_internal_topics: bool
    """Exclude Kafka's internal topics from pattern subscriptions (True)."""
    default_api_timeout_ms: float
    """Default timeout of calls to the cluster (60000)."""


class ConsumerOptions(ConsumerBaseOptions, total=False):
    """All options of `Consumer`, as keyword arguments."""

    key_deserializer: Deserializer[Any] | None
    """Function that converts a key from bytes. It may take a `SerializationContext`, and may be a coroutine function
    (None)."""
    value_deserializer: Deserializer[Any] | None
    """Function that converts a value from bytes. It may take a `SerializationContext`, and may be a coroutine function
    (None)."""


class AdminOptions(ClientOptions, total=False):
    """All options of `AdminClient`, as keyword arguments."""

    default_api_timeout_ms: float
    """Default timeout of calls (60000)."""
