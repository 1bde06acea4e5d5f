"""Snapshots of the state of each kind of client, for probes and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ._values import Frozen, NamedTuple
from .errors import KafkaError
from .types import TopicPartition

__all__ = ["ClientHealth", "ConsumerHealth", "ConsumerLag", "ProducerHealth", "TransactionHealth"]


class ProducerHealth(Frozen):
    """Snapshot of a producer's state. Times are in milliseconds, and None before the first such event."""

    problems: tuple[str, ...]
    """Reasons why the producer is unhealthy, as text."""
    connected: bool
    """True if the cluster has ever been reached; False after ``start(wait=False)`` while Kafka is down."""
    pending_ms: float | None
    """Age of the oldest record that is neither acknowledged nor given up; None if there is none."""
    since_ack_ms: float | None
    """Time since a broker last acknowledged records."""
    buffer_used: float
    """Fraction of ``buffer_memory`` in use."""
    sends_waiting: int
    """Number of calls waiting for ``buffer_memory``."""
    own_problems: tuple[str, ...] = ()
    """Problems that a restart may solve: all ``problems`` except unacknowledged records while no broker can be reached.
    A restarted process could not reach a broker either, and would lose its pending records."""
    reachable: bool = True
    """True if a broker can be reached."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart it if this stays False."""
        return not self.own_problems


class TransactionHealth(NamedTuple):
    """State of a transactional producer; see `Producer.transaction_health`."""

    transactional_id: str
    phase: str
    """"new", "starting", "ready", "open", "failed" (can only be aborted), "stored" (committed after earlier
    transactions), "committing", "aborting", "renewing" (of the producer epoch), "handed over" (to another process) or
    "fenced"."""
    producer_id: int
    """-1 before the first one is assigned."""
    producer_epoch: int
    version: int
    """2 if the latest transaction uses KIP-890, else 1."""
    age_ms: float | None
    """Age of the open transaction; None if no transaction is open."""
    timeout_ms: float
    """Age at which the coordinator aborts the transaction."""
    error: KafkaError | None
    """Reason why the transaction can only be aborted, or why the producer ended."""

    @property
    def late(self) -> bool:
        """True if the open transaction is older than half of ``timeout_ms``."""
        return self.age_ms is not None and self.age_ms > self.timeout_ms / 2


class ConsumerLag(Frozen):
    """Number of offsets that a consumer is behind, as of the last fetch of each partition."""

    partitions: Mapping[TopicPartition, int | None]
    """For each assigned partition, the number of offsets between the last finished record and the end that this
    consumer may read to: the high watermark, or with "read_committed" the last stable offset. None before the first
    fetch response."""
    total: int | None
    """Sum over all partitions; None while any partition is None."""


class ConsumerHealth(Frozen):
    """Snapshot of a consumer's state. Times are in milliseconds, and None before the first such event."""

    problems: tuple[str, ...]
    """Reasons why the consumer is unhealthy, as text."""
    since_fetch_ms: float | None
    """Time since a broker last answered a fetch."""
    since_heartbeat_ms: float | None
    """Time since the group's coordinator last acknowledged a heartbeat."""
    joined: bool | None
    """True if the consumer is a member of its group; None if no group assigns its partitions."""
    kept_out: str | None
    """Reason why the group does not admit the consumer yet; None otherwise. The consumer keeps trying. After the
    session timeout this is one of the ``problems``."""
    coordinator: int | None
    """Node id of the group coordinator, if known."""
    handler_ms: float | None
    """Time since the application last requested records; within `run`, the age of the oldest running handler. None
    while the application waits for records."""
    blocked_ms: float
    """Duration of the last block of the event loop that lasted seconds; 0 if there was none."""
    since_blocked_ms: float | None
    """Time since the end of that block."""
    absent: tuple[str, ...] = ()
    """Topics and partitions to read that do not exist in the cluster. A restart does not solve this problem."""
    own_problems: tuple[str, ...] = ()
    """Problems that a restart of the process may solve: all ``problems`` except unanswered requests while no broker can
    be reached, temporary refusals by brokers, ``stuck`` partitions, and ``coordinator_doubted_ms``."""
    reachable: bool = True
    """True if a broker can be reached."""
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that have not advanced for ``request_timeout_ms`` although the application reads, and there are
    records or their broker has a problem. Each has a reason, which is also in ``problems``. They are not in
    ``own_problems``, because a restarted process would use the same brokers."""

    coordinator_doubted_ms: float | None = None
    """Time since a broker last acted as the group's coordinator; None while a broker does, or may soon. Beyond
    ``request_timeout_ms`` this is one of the ``problems``, with the response of each broker that was asked. It is never
    one of the ``own_problems``."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart it if this stays False."""
        return not self.own_problems


class ClientHealth(Frozen):
    """Snapshot of a shared client's state."""

    connected: bool
    """True if a broker has returned metadata since the start."""
    problems: tuple[str, ...]
    """Reasons why the client, or another client on its connections, is permanently unusable. Unreachable brokers are
    not a problem here."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems
