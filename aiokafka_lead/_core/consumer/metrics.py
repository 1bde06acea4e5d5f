"""The counters of a consumer, and the snapshot of them for applications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import TopicPartition
from ..latencies import Latencies, LatenciesByNode, LatencyHistogram
from ..leadership.moves import LeaderMoveCounters
from ..metadata.metrics import MetadataMetrics

__all__ = ["ConsumerCounters", "ConsumerMetrics", "ConsumerTopicMetrics", "PartitionMetrics"]


class ConsumerCounters(LeaderMoveCounters):
    """Running counts since the consumer started, incremented at each event.

    `ConsumerMetrics` has the ones without a docstring under the same names, with descriptions.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.answered_at: float | None = None
        """Time of the last answer (monotonic seconds)."""
        self.fetch_latency_s = 0.0
        """Sum over all answers, including the time that the broker waited for records."""
        self.unexpected_partitions = 0
        """Number of partitions in answers that were not requested."""
        self.bytes_fetched = 0
        self.topic_bytes: dict[str, int] = {}
        """The same by topic."""
        self.fetch_latencies = Latencies()
        self.nodes = LatenciesByNode()
        """The same by broker."""
        self.commits = Latencies()
        self.rebalances = Latencies()
        self.failed_fetches = 0
        self.fetch_errors: dict[int, int] = {}
        self.fetches = 0
        self.fetches_beside_session = 0
        self.follower_redirects = 0
        self.free_retries = 0
        self.offset_resets = 0
        self.session_resets = 0
        self.stale_answers = 0
        self.truncations = 0

    def fetched(self, node_id: int, seconds: float) -> None:
        """Count an answer to a fetch, with its latency."""
        self.fetch_latency_s += seconds
        self.fetch_latencies.add(seconds)
        self.nodes[node_id].add(seconds)

    def count_bytes(self, topic: str, size: int) -> None:
        """Count received record batches of this size."""
        self.bytes_fetched += size
        self.topic_bytes[topic] = self.topic_bytes.get(topic, 0) + size

    def count_error(self, code: int) -> None:
        """Count one partition's error in an answer."""
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1


@dataclass(frozen=True, slots=True)
class ConsumerTopicMetrics:
    """Counts of one topic."""

    records_consumed: int
    """Records handed out to the application."""
    bytes_fetched: int
    """Sizes of the received record batches, before decompression."""


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """One assigned partition. Values are None until an answer provides them."""

    position: int | None
    """Offset of the next record for the application."""
    high_watermark: int | None
    """Offset after the last record that every in-sync replica has."""
    last_stable_offset: int | None
    """Offset after the last record not held back by an open transaction."""
    log_start_offset: int | None
    """First offset that still exists."""
    lag: int | None
    """Offsets between the position and the end that this consumer can read to."""
    buffered_bytes: int
    """Fetched bytes that are not handed out yet, as received."""
    paused: bool


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """A consumer's counts since it started, and the current state of its partitions."""

    records_consumed: int
    """Records handed out to the application."""
    bytes_fetched: int
    """Sizes of the received record batches, before decompression."""
    buffered_bytes: int
    """The part of them currently held for the application."""
    connections: int
    """Connections opened so far; for a shared `Client`, by all its users."""
    fetches: int
    """Requests sent."""
    fetches_beside_session: int
    """The part of them sent because the broker was still waiting for records of other partitions."""
    fetch_latency_avg_ms: float
    """Mean time from request to answer, including the brokers' wait for records; 0 before the first answer."""
    failed_fetches: int
    """Requests that got no answer."""
    fetch_errors: Mapping[int, int]
    """Partition errors in answers, by Kafka's error code."""
    free_retries: int
    """Partitions fetched again without backoff, because the leader epoch had advanced (KIP-951)."""
    leader_moves: int
    """Refusals by a former leader, and lost connections, that were followed by an answer from another broker."""
    leader_move_ms_total: float
    """Total time from the refusal to the request that the other broker answered, without its wait for records."""
    leader_move_ms_max: float
    leader_move_ms_last: float
    session_resets: int
    """Fetch sessions that a broker no longer knew (KIP-227)."""
    follower_redirects: int
    """Partitions that a broker redirected to a nearby follower (KIP-392)."""
    stale_answers: int
    """Partition answers that were void on arrival, for example after a seek."""
    offset_resets: int
    """Positions out of range that ``auto_offset_reset`` moved."""
    truncations: int
    """Positions found to be beyond the end of a log that had lost records (KIP-320)."""
    topics: Mapping[str, ConsumerTopicMetrics]
    """Counts by name, for all topics with received records."""
    fetch_latency: LatencyHistogram
    """Time from request to answer, including the time that brokers waited for records."""
    request_latency: Mapping[int, LatencyHistogram]
    """The same by broker."""
    commit_latency: LatencyHistogram
    """Latency of successful commits, including any rebalance in between."""
    rebalance_latency: LatencyHistogram
    """Time from the member's first notice of a rebalance until it had no more partitions to give up or take over."""
    partitions: Mapping[TopicPartition, PartitionMetrics]
    metadata: MetadataMetrics
    """Leader hints, refreshes and rebootstraps of this consumer's client."""
