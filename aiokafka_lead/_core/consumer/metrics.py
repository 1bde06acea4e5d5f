"""What a consumer counts, and the snapshot of it that applications get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import TopicPartition
from ..latencies import Latencies, LatenciesByNode, LatencyHistogram
from ..leadership.moves import LeaderMoveCounters
from ..metadata.metrics import MetadataMetrics

__all__ = ["ConsumerCounters", "ConsumerMetrics", "ConsumerTopicMetrics", "PartitionMetrics"]


class ConsumerCounters(LeaderMoveCounters):
    """Running counts since the consumer started, added to where things happen.

    `ConsumerMetrics` has those without a docstring under the same names, and says what they count.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.answered_at: float | None = None
        """When the last answer came (monotonic seconds)."""
        self.fetch_latency_s = 0.0
        """The sum over all answers, time that the broker waited for records included."""
        self.unexpected_partitions = 0
        """Answers about partitions that were not asked for."""
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
        """A broker has answered a fetch after so long."""
        self.fetch_latency_s += seconds
        self.fetch_latencies.add(seconds)
        self.nodes[node_id].add(seconds)

    def count_bytes(self, topic: str, size: int) -> None:
        """Record batches of this size were received."""
        self.bytes_fetched += size
        self.topic_bytes[topic] = self.topic_bytes.get(topic, 0) + size

    def count_error(self, code: int) -> None:
        """One partition's error in an answer."""
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1


@dataclass(frozen=True, slots=True)
class ConsumerTopicMetrics:
    """What came of one topic."""

    records_consumed: int
    """Records handed out to the application."""
    bytes_fetched: int
    """Sizes of the record batches received, compressed where they were."""


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """One assigned partition. None where no answer has said so yet."""

    position: int | None
    """The offset of the next record that the application gets."""
    high_watermark: int | None
    """The offset after the last record that every in-sync replica has."""
    last_stable_offset: int | None
    """The offset after the last record that no open transaction holds back."""
    log_start_offset: int | None
    """The first offset that is still there."""
    lag: int | None
    """Offsets between the position and the end that this consumer can read to."""
    buffered_bytes: int
    """Fetched and not yet handed out, as received."""
    paused: bool


@dataclass(frozen=True, slots=True)
class ConsumerMetrics:
    """A consumer's counts since it started, and where its partitions are now."""

    records_consumed: int
    """Records handed out to the application."""
    bytes_fetched: int
    """Sizes of the record batches received, compressed where they were."""
    buffered_bytes: int
    """Of these, held for the application now."""
    connections: int
    """Connections made so far; of a shared `Client`, by all that use it."""
    fetches: int
    """Requests sent."""
    fetches_beside_session: int
    """Of these, sent because the broker was still waiting for records of other partitions."""
    fetch_latency_avg_ms: float
    """From request to answer, time that brokers waited for records included; 0 before the first answer."""
    failed_fetches: int
    """Requests that got no answer."""
    fetch_errors: Mapping[int, int]
    """Partitions' errors in answers, by Kafka's error code."""
    free_retries: int
    """Partitions asked for again without backoff, because the leader epoch had advanced (KIP-951)."""
    leader_moves: int
    """Refusals by a former leader, and lost connections, that ended with a partition's answer by another broker."""
    leader_move_ms_total: float
    """Time from the refusal to the request that the other broker answered, summed up; its own wait for records is not
    part of it."""
    leader_move_ms_max: float
    leader_move_ms_last: float
    session_resets: int
    """Fetch sessions that a broker did not know any more (KIP-227)."""
    follower_redirects: int
    """Partitions that a broker sent to a follower nearby (KIP-392)."""
    stale_answers: int
    """Partitions' answers that were void on arrival, after a seek for instance."""
    offset_resets: int
    """Positions out of range that ``auto_offset_reset`` moved."""
    truncations: int
    """Positions found to be beyond the end of a log that had lost records (KIP-320)."""
    topics: Mapping[str, ConsumerTopicMetrics]
    """By name, of all topics that records were received of."""
    fetch_latency: LatencyHistogram
    """From request to answer, time that brokers waited for records included."""
    request_latency: Mapping[int, LatencyHistogram]
    """The same by broker."""
    commit_latency: LatencyHistogram
    """Of commits that were stored, a rebalance that was in the way included."""
    rebalance_latency: LatencyHistogram
    """From when the member knew of one to the next time that it had nothing to give up or to take over."""
    partitions: Mapping[TopicPartition, PartitionMetrics]
    metadata: MetadataMetrics
    """Leader hints, refreshes and rebootstraps of this consumer's client."""
