"""The counters of a consumer."""

from __future__ import annotations

from ..latencies import Latencies, LatenciesByNode
from ..leadership.patience import LeaderMoveCounters


class ConsumerCounters(LeaderMoveCounters):
    """Running counts since the consumer started.

    Attributes without a docstring are described in `ConsumerMetrics` under the same names.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers = 0
        self.answered_at: float | None = None
        """Time of the last Fetch response in monotonic seconds, or None."""
        self.fetch_latency_s = 0.0
        """Sum of the latencies of all fetches in seconds. It includes the time for which brokers waited for records."""
        self.unexpected_partitions = 0
        """Number of partitions in responses that were not requested."""
        self.bytes_fetched = 0
        self.topic_bytes: dict[str, int] = {}
        """Bytes of record batches received, by topic."""
        self.fetch_latency = Latencies()
        self.request_latency = LatenciesByNode()
        """Latencies of Fetch requests, by broker."""
        self.commit_latency = Latencies()
        self.rebalance_latency = Latencies()
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
        """Count a Fetch response and its latency in seconds."""
        self.fetch_latency_s += seconds
        self.fetch_latency.add(seconds)
        self.request_latency[node_id].add(seconds)

    def count_bytes(self, topic: str, size: int) -> None:
        """Count received record batches of this size in bytes."""
        self.bytes_fetched += size
        self.topic_bytes[topic] = self.topic_bytes.get(topic, 0) + size

    def count_error(self, code: int) -> None:
        """Count the error of one partition in a response."""
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1
