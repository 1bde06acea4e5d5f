"""What may be given to the clients: each option's meaning, its default, and the KIP that it comes from."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Literal

from .._options.security import SecurityOptions
from .._options.serialization import Deserializer, Serializer

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
]

BootstrapServers = str | Iterable[str]
CompressionType = Literal["none", "gzip", "snappy", "lz4", "zstd"]
Acks = Literal[0, 1, -1, "all"]
Connect = Callable[[str, int], Awaitable[socket.socket]]
"""From a broker's host and port, as the cluster names them, to a connected socket."""
Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""From the serialized key, all partitions and the available ones to the partition chosen, as in aiokafka."""


class ClientOptions(SecurityOptions, total=False):
    """Options that every client takes."""

    proxy_url: str | None
    """``"socks5://user:password@host:port"``, ``"socks4://..."`` or ``"http://..."`` (CONNECT): the proxy through which
    brokers are reached, and which resolves their names (None). TLS goes through it. Needs the extra ``proxy``."""
    connect: Connect | None
    """An async function of host and port that returns a connected ``socket.socket``: the application's own way to
    brokers (None)."""
    bootstrap_resolve_timeout_ms: float
    """How long `start` waits for the name of a bootstrap server to resolve; 0 fails at once (0, KIP-909)."""
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
    """Requests on their way on one connection (5); on that to a coordinator at least 100."""
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
    metadata_cluster_check_enable: bool
    """Have brokers from Kafka 4.4 on refuse a connection that was meant for another broker or cluster (True, KIP-1242);
    not with a ``metadata_recovery_strategy`` of ``"none"``."""
    cluster_id_mismatch: Literal["fail", "warn", "adopt"]
    """What to do when bootstrapping anew leads to another cluster (``"fail"``, KIP-899)."""
    leader_hint_policy: Literal["trust", "known_nodes", "off"]
    """Which leader hints of Produce and Fetch answers are followed (``"trust"``, KIP-951)."""
    close_timeout_ms: float | None
    """What leaving ``async with`` gives to `stop` as its ``timeout_ms`` (None)."""
    enable_metrics_push: bool
    """Push the client's metrics to brokers that want them (True, KIP-714)."""
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
    partitioner_rack_aware: bool
    """Records without key go to partitions that are led in ``client_rack``, if one of them takes records (False,
    KIP-1123)."""
    client_rack: str | None
    """Where this producer is, in the names that ``broker.rack`` has (None). ``bytes_sent_in_rack`` counts by it."""


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
    group_protocol: Literal["classic", "consumer", "auto"]
    """The rebalance protocol (``"classic"``; ``"consumer"`` is KIP-848; ``"auto"`` is that where the brokers serve it,
    and the classic one elsewhere)."""
    group_remote_assignor: str | None
    """The broker's assignor where the protocol is KIP-848; None lets the broker choose, under ``"auto"`` unless
    ``partition_assignment_strategy`` begins with ``"range"``, which is then the broker's, too. An error under
    ``"classic"``."""
    partition_assignment_strategy: Sequence[Any] | Any
    """Assignors by preference: a name or object, several, or ``"range,sticky"`` (cooperative-sticky, then range). Only
    names under ``group_protocol="auto"``, and an error under ``"consumer"``, where brokers assign."""
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
    on_bad_record: Literal["raise", "skip", "dead_letter"]
    """What becomes of a record that cannot be deserialized, and never will: it is raised; left out, with a warning in
    the log; or sent to ``dead_letter_topic`` before. Of batches it is raised in any case (``"raise"``)."""
    dead_letter_topic: str | None
    """Where such records go, with their bytes as they were and the cause in headers (see `DEAD_LETTER_HEADERS`); also
    the default of `Consumer.run`'s (None)."""
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
