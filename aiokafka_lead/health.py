"""State of each kind of client at one moment, for probes and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ._values import Frozen, NamedTuple
from .errors import KafkaError
from .types import TopicPartition

__all__ = ["ClientHealth", "ConsumerHealth", "ConsumerLag", "ProducerHealth", "TransactionHealth"]


class ProducerHealth(Frozen):
    """State of a producer at one moment. Times are in milliseconds; None if there was no such event yet."""

    problems: tuple[str, ...]
    """Reasons why it is unhealthy, in words."""
    connected: bool
    """True if the cluster was ever reached: False after ``start(wait=False)`` while Kafka is down."""
    pending_ms: float | None
    """Age of the oldest record that is neither acknowledged nor given up; None if there is none."""
    since_ack_ms: float | None
    """Time since a broker last acknowledged records."""
    buffer_used: float
    """Fraction of ``buffer_memory`` in use."""
    sends_waiting: int
    """Number of calls that wait for ``buffer_memory``."""
    own_problems: tuple[str, ...] = ()
    """Problems of this process itself: all, except records unanswered while no broker can be reached, because a
    restarted process would not reach one either, and would lose its pending records."""
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
    """"new", "starting", "ready", "open", "failed" (it can only be aborted), "stored" (it is committed after others),
    "committing", "aborting", "renewing" (of its epoch), "handed over" (to another process) or "fenced"."""
    producer_id: int
    """-1 before the first."""
    producer_epoch: int
    version: int
    """2 if the latest transaction is one of KIP-890, else 1."""
    age_ms: float | None
    """Age of the open transaction; None if there is none."""
    timeout_ms: float
    """Age at which the coordinator aborts it."""
    error: KafkaError | None
    """Reason why the transaction can only be aborted, or why the producer ended."""

    @property
    def late(self) -> bool:
        """True if more than half of the open transaction's time is used up."""
        return self.age_ms is not None and self.age_ms > self.timeout_ms / 2


class ConsumerLag(Frozen):
    """Number of offsets that a consumer is behind, as of the last fetch of each partition."""

    partitions: Mapping[TopicPartition, int | None]
    """For each assigned partition, the offsets between the records already done and the end that this consumer may read
    to: the high watermark, or the last stable offset with "read_committed". None before the first answer."""
    total: int | None
    """Sum over all partitions; None while one of them is None."""


class ConsumerHealth(Frozen):
    """Snapshot of a consumer's state. Times are in milliseconds, and None before the first such event."""

    problems: tuple[str, ...]
    """Reasons why it is unhealthy, in words."""
    since_fetch_ms: float | None
    """Time since a broker last answered a fetch."""
    since_heartbeat_ms: float | None
    """Time since the group's coordinator last acknowledged a heartbeat."""
    joined: bool | None
    """True if it is a member of its group; None if the group does not assign its partitions."""
    kept_out: str | None
    """Reason why the group does not admit it yet, while it keeps trying: a problem after the session timeout."""
    coordinator: int | None
    """Node id of the group coordinator, if known."""
    handler_ms: float | None
    """Time since the application last came for records; within `Consumer.run`, the age of the oldest running handler.
    None while it waits for records."""
    blocked_ms: float
    """Duration of the last time that the event loop was blocked for seconds; 0 if it never was."""
    since_blocked_ms: float | None
    """Time since the end of that blocking."""
    absent: tuple[str, ...] = ()
    """Topics and partitions to read that do not exist in the cluster: a restart does not solve this problem."""
    own_problems: tuple[str, ...] = ()
    """Problems that a restarted process may solve: all ``problems`` except unanswered requests while no broker can be
    reached, temporary refusals by brokers, ``stuck`` partitions, and ``coordinator_doubted_ms``."""
    reachable: bool = True
    """True if a broker can be reached."""
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that have not advanced for ``request_timeout_ms``, although the application reads, and there are
    records or their broker is in trouble; each with its reason, which is also in ``problems``. A restarted process
    would meet the same brokers, so these are not in ``own_problems``."""

    coordinator_doubted_ms: float | None = None
    """Time since a broker last did a coordinator's work for the group; None while one does, or may soon. Beyond
    ``request_timeout_ms`` it is one of the ``problems``, with the answer of each broker asked, but not one of the
    ``own_problems``."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart it if this stays False."""
        return not self.own_problems


class ClientHealth(Frozen):
    """State of a shared client at one moment."""

    connected: bool
    """True if a broker has described the cluster since the start."""
    problems: tuple[str, ...]
    """Reasons why it, or a client on it, is permanently unusable; not that brokers are unreachable for a while."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems
