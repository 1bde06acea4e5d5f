"""The counters of a producer.

This code runs for each batch. If a compiler is available, it is compiled through ``counters.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import KafkaError
from ..latencies import Latencies, LatenciesByNode
from ..leadership.patience import LeaderMoveCounters

OnSettled = Callable[[str, int, float, KafkaError | None], object]


class TopicCounters:
    """The counters of one topic."""

    __slots__ = ("batches_acked", "records_acked", "records_failed")

    def __init__(self) -> None:
        self.batches_acked = 0
        self.records_acked = 0
        self.records_failed = 0


class ProducerCounters:
    """Counts and latencies since the producer was created. `ProducerMetrics` documents them."""

    def __init__(self) -> None:
        self.batches_acked = 0
        self.batches_failed = 0
        self.batches_sent = 0
        self.batches_split = 0
        self.buffer_waits = 0
        self.bytes_sent = 0
        self.bytes_sent_in_rack = 0
        self.catch_up_waits = 0
        self.free_retries = 0
        self.records_acked = 0
        self.records_expired = 0
        self.records_failed = 0
        self.records_sent = 0
        self.requests = 0
        self.retries = 0
        self.moves = LeaderMoveCounters()
        self.topics: dict[str, TopicCounters] = {}
        self.send_latency = Latencies()
        self.queue_latency = Latencies()
        self.throttle_time = Latencies()
        self.request_latency = LatenciesByNode()
        self.acked_at = 0.0
        """Time of the last acknowledgement, or 0."""
        self.on_settled: OnSettled | None = None
        """Called for each batch with its topic, record count, seconds since its first record, and error or None."""

    def answered(self, node_id: int, seconds: float, throttle_time_ms: float) -> None:
        """Count a response, with its latency and the throttle time that the broker has reported."""
        latencies = self.request_latency[node_id]
        latencies.add(seconds)
        self.throttle_time.add(throttle_time_ms / 1000)

    def sending(self, attempts: int, records: int, waited_s: float) -> None:
        """Count a batch that is sent after this number of attempts, ``waited_s`` seconds after its first record."""
        if attempts:
            self.retries += 1
        else:
            self.records_sent += records
            self.queue_latency.add(waited_s)
        self.batches_sent += 1

    def settled(self, topic: str, records: int, created_at: float, now: float, error: KafkaError | None) -> None:
        """Count a batch that was acknowledged or, if ``error`` is set, has failed."""
        counters = self.topics.get(topic)
        if counters is None:
            counters = self.topics[topic] = TopicCounters()
        if error is None:
            counters.batches_acked += 1
            counters.records_acked += records
            self.batches_acked += 1
            self.records_acked += records
            self.acked_at = now
            self.send_latency.add(now - created_at)
        else:
            counters.records_failed += records
            self.batches_failed += 1
            self.records_failed += records
        if self.on_settled is not None:
            self.on_settled(topic, records, now - created_at, error)
