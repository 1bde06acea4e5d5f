"""Snapshots of the state of each kind of client, for liveness probes and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ._values import Frozen, NamedTuple
from .errors import KafkaError
from .types import TopicPartition

__all__ = ["ClientHealth", "ConsumerHealth", "ConsumerLag", "ProducerHealth", "TransactionHealth"]


class ProducerHealth(Frozen):
    """Snapshot of a producer's state.

    Times are in milliseconds. The time since an event is None before the first such event.
    """

    problems: tuple[str, ...]
    """Reasons why the producer is unhealthy, as text."""
    connected: bool
    """True if the cluster has been reached since the start. False after ``start(wait=False)`` while Kafka is down."""
    pending_ms: float | None
    """Age of the oldest record that is neither acknowledged nor failed. None if there is none."""
    since_ack_ms: float | None
    """Time since a broker last acknowledged records."""
    buffer_used: float
    """Fraction of ``buffer_memory`` in use."""
    sends_waiting: int
    """Number of calls that wait for space in ``buffer_memory``."""
    own_problems: tuple[str, ...] = ()
    """The ``problems`` that a restart of the process may solve. They do not include unacknowledged records while no
    broker can be reached, because a restarted process could not reach a broker either, and would lose the records."""
    reachable: bool = True
    """True if a broker can be reached."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart the process if this stays False."""
        return not self.own_problems


class TransactionHealth(NamedTuple):
    """State of a producer's transactions, as returned by `Producer.transaction_health`."""

    transactional_id: str
    phase: str
    """"new", "starting", "ready", "open", "failed" (can only be aborted), "stored" (committed after earlier
    transactions), "committing", "aborting", "renewing" (of the producer epoch), "handed over" (to another process) or
    "fenced"."""
    producer_id: int
    """Producer id, or -1 before the first one is assigned."""
    producer_epoch: int
    version: int
    """Version of the transaction protocol: 2 if the latest transaction uses KIP-890, otherwise 1."""
    age_ms: float | None
    """Age of the open transaction in milliseconds. None if no transaction is open."""
    timeout_ms: float
    """Age in milliseconds at which the coordinator aborts the transaction."""
    error: KafkaError | None
    """Reason why the transaction can only be aborted, or why the producer has failed."""

    @property
    def late(self) -> bool:
        """True if the open transaction is older than half of ``timeout_ms``."""
        return self.age_ms is not None and self.age_ms > self.timeout_ms / 2


class ConsumerLag(Frozen):
    """Number of offsets that a consumer is behind, as of the last fetch of each partition."""

    partitions: Mapping[TopicPartition, int | None]
    """Lag of each assigned partition: the number of offsets from the position (in `Consumer.run`, from the first
    unfinished record) to the end that this consumer may read to. The end is the high watermark, or with
    "read_committed" the last stable offset. None before the first fetch response."""
    total: int | None
    """Sum over all partitions. None if the lag of any partition is None."""


class ConsumerHealth(Frozen):
    """Snapshot of a consumer's state.

    Times are in milliseconds. The time since an event is None before the first such event.
    """

    problems: tuple[str, ...]
    """Reasons why the consumer is unhealthy, as text."""
    since_fetch_ms: float | None
    """Time since a broker last answered a fetch."""
    since_heartbeat_ms: float | None
    """Time since the group's coordinator last acknowledged a heartbeat."""
    joined: bool | None
    """True if the consumer is a member of its group. None if no group assigns its partitions."""
    kept_out: str | None
    """Reason why the group does not admit the consumer yet, or None. The consumer keeps trying. After the session
    timeout, the reason is one of the ``problems``."""
    coordinator: int | None
    """Node id of the group coordinator, if known."""
    handler_ms: float | None
    """Time since the application last requested records; within `run`, the age of the oldest running handler. None
    while the application waits for records."""
    blocked_ms: float
    """Duration of the last stall of the event loop that lasted for seconds. 0 if there was none."""
    since_blocked_ms: float | None
    """Time since the end of the stall in ``blocked_ms``."""
    absent: tuple[str, ...] = ()
    """Topics and partitions to read that do not exist in the cluster. A restart does not solve this problem."""
    own_problems: tuple[str, ...] = ()
    """The ``problems`` that a restart of the process may solve. They do not include unanswered requests while no
    broker can be reached, temporary refusals by brokers, ``stuck`` partitions, and ``coordinator_doubted_ms``."""
    reachable: bool = True
    """True if a broker can be reached."""
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that have not advanced for ``request_timeout_ms``, with the reason for each. A partition counts only
    if the application reads it, and if it has records or its broker has a problem. The reasons are also in
    ``problems``, but not in ``own_problems``, because a restarted process would use the same brokers."""

    coordinator_doubted_ms: float | None = None
    """Time since a broker last acted as the group's coordinator. None while a broker does so, or may do so soon. If the
    time exceeds ``request_timeout_ms``, one of the ``problems`` reports it, with the response of each broker that was
    asked. This problem is never one of the ``own_problems``."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart the process if this stays False."""
        return not self.own_problems


class ClientHealth(Frozen):
    """Snapshot of the state of a shared `Client`."""

    connected: bool
    """True if a broker has returned metadata since the start."""
    problems: tuple[str, ...]
    """Reasons why the client, or another client on its connections, is permanently unusable. Unreachable brokers are
    not among them."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems
