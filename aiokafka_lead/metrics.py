"""All metrics of the clients: their meaning, their kind, and their names in Prometheus and KIP-714.

`Producer.metrics` and similar methods return these classes. The docstrings of the fields are the descriptions of the
metrics. These parts of the code read the fields: the counters with the same names (`_core.producer.counters` and
similar modules), the snapshots, `aiokafka_lead.prometheus`, the push of metrics to brokers (KIP-714), and
``tools/monitoring.py``. The latter creates the documentation's table of metrics, the dashboard and the alerts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal

from ._values import Frozen, NamedTuple
from .types import LATENCY_BOUNDS_MS, TopicPartition

__all__ = [
    "ConsumerMetrics",
    "ConsumerTopicMetrics",
    "Figure",
    "LatencyHistogram",
    "MetadataMetrics",
    "PartitionMetrics",
    "ProducerMetrics",
    "ProducerTopicMetrics",
    "ShareConsumerMetrics",
    "ShareTopicMetrics",
]


class Figure(NamedTuple):
    """The kind of a metric, and its names in Prometheus and in Java."""

    kind: Literal["counter", "gauge", "histogram"]
    prometheus: str
    """Name in Prometheus, without a prefix such as ``kafka_producer_``. Empty if the metric is not exported."""
    java: str
    """Java's name without ``org.apache.kafka.``, which KIP-714 uses. Empty if the metric is not pushed to brokers."""
    rows: type | None
    """Class of the values of a mapping by topic or partition. None for numbers and histograms."""


def figures(metrics: type) -> dict[str, Figure]:
    """Return the metrics that a class declares, by the name of the field."""
    return {each.name: each.metadata["figure"] for each in fields(metrics) if "figure" in each.metadata}


def counter(prometheus: str = "", java: str = "") -> Any:
    """Declare a field with a number that never decreases. The arguments are its names in `Figure`."""
    return field(default=0, metadata={"figure": Figure("counter", prometheus, java, None)})


def gauge(prometheus: str = "", java: str = "", *, default: int | None = 0) -> Any:
    """Declare a current value, which may be None while it is unknown."""
    return field(default=default, metadata={"figure": Figure("gauge", prometheus, java, None)})


def histogram(prometheus: str = "", java: str = "") -> Any:
    """Declare a field with a `LatencyHistogram`."""
    return field(default_factory=_empty, metadata={"figure": Figure("histogram", prometheus, java, None)})


def rows(of: type | None = None, java: str = "") -> Any:
    """Declare a mapping. ``of`` is the class of its values, or None if they are numbers or histograms."""
    return field(default_factory=dict, metadata={"figure": Figure("gauge", "", java, of)})


def _empty() -> LatencyHistogram:
    return LatencyHistogram((0,) * (len(LATENCY_BOUNDS_MS) + 1), 0.0)


class LatencyHistogram(Frozen):
    """Histogram of durations in milliseconds."""

    counts: tuple[int, ...]
    """Number of durations up to ``bounds_ms[0]``, then number of durations from there up to ``bounds_ms[1]``, and so
    on. The last number counts durations beyond all bounds."""
    sum_ms: float
    """Sum of all durations, in milliseconds."""
    bounds_ms: tuple[float, ...] = LATENCY_BOUNDS_MS

    @property
    def count(self) -> int:
        """Number of all durations."""
        return sum(self.counts)

    @property
    def mean_ms(self) -> float:
        """Average duration in milliseconds. 0 if there are no durations."""
        return self.sum_ms / self.count if self.count else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return the lowest bound in milliseconds that at least this share of the durations does not exceed.

            p99 = producer.metrics().send_latency.quantile_ms(0.99)

        Returns infinity if the share extends beyond the last bound, and the first bound if there are no durations.
        """
        left = share * self.count
        for bound, count in zip(self.bounds_ms, self.counts, strict=False):
            left -= count
            if left <= 0:
                return bound
        return float("inf")


class MetadataMetrics(Frozen):
    """Counts of metadata refreshes, bootstraps and leader hints, since the client was created.

    A leader hint is the leader that a broker names in a Produce or Fetch response when it no longer leads the partition
    (KIP-951).
    """

    hints_received: int = counter()
    """Leader hints received with an error in a Produce or Fetch response (KIP-951)."""
    hints_accepted: int = counter()
    """Leader hints that were followed."""
    hints_confirmed: int = counter()
    """Accepted hints that later metadata has confirmed, because it reached their leader epoch."""
    hints_rejected_stale: int = counter()
    """Hints that were not newer than the known leader epoch."""
    hints_rejected_no_address: int = counter()
    """Hints about a leader whose address was neither in the response nor known before."""
    hints_rejected_unknown_partition: int = counter()
    """Hints about unknown partitions, or about topics deleted or recreated since the request."""
    hints_rejected_policy: int = counter()
    """Hints that ``leader_hint_policy`` forbade."""
    hints_rejected_incomplete: int = counter()
    """Hints without a leader or an epoch, or with an error that cannot have hints."""
    disagreements: int = counter()
    """Metadata responses that named another leader than an accepted hint at the same epoch. The metadata was used."""
    stale_partitions: int = counter()
    """Partitions in metadata responses that were older than the client's view, and were ignored."""
    rewinds: int = counter()
    """Partitions whose epoch permanently decreased, after an unclean recovery. Accepted after several responses."""
    refreshes: int = counter()
    """Metadata responses processed."""
    refresh_failures: int = counter()
    """Metadata refreshes that no broker answered."""
    rebootstraps_unavailable: int = counter()
    """Bootstraps because no known broker could be reached (KIP-899)."""
    rebootstraps_timed_out: int = counter()
    """Bootstraps because metadata was missing for too long (KIP-1102)."""
    rebootstraps_required: int = counter()
    """Bootstraps requested by a broker (KIP-1102)."""
    rebootstraps_other_cluster: int = counter()
    """Bootstraps because a known address led to another cluster."""


# --- producers -------------------------------------------------------------------------------------------------------


class ProducerTopicMetrics(Frozen):
    """Counts of the acknowledged and failed records of one topic."""

    records_acked: int = counter("records_acked", "producer.topic.record.send")
    """Records acknowledged."""
    records_failed: int = counter("records_failed", "producer.topic.record.error")
    """Records that failed."""
    batches_acked: int = counter("batches_acked")
    """Batches acknowledged."""


class ProducerMetrics(Frozen):
    """Metrics of a producer: counts since it was created, and some current values."""

    topics: Mapping[str, ProducerTopicMetrics] = rows(ProducerTopicMetrics)
    """Metrics by topic, for topics with acknowledged or failed records."""
    records_sent: int = counter(java="producer.record.send")
    """Records that were sent at least once."""
    records_acked: int = counter()
    """Records acknowledged."""
    records_failed: int = counter(java="producer.record.error")
    """Records that failed, including expired records."""
    records_expired: int = counter("records_expired")
    """Records that failed because they were not acknowledged within ``delivery_timeout_ms``."""
    batches_sent: int = counter()
    """Batches sent. Each attempt counts."""
    batches_acked: int = counter()
    """Batches acknowledged."""
    batches_failed: int = counter()
    """Batches that failed."""
    batches_split: int = counter("batches_split")
    """Batches that were split because a broker found them too large."""
    bytes_sent: int = counter("sent_bytes")
    """Bytes of record batches as sent, after compression. Each attempt counts."""
    bytes_sent_in_rack: int = counter("sent_in_rack_bytes")
    """Bytes sent to brokers in ``client_rack``."""
    requests: int = counter("requests")
    """Produce requests."""
    retries: int = counter("batch_retries")
    """Batches sent again."""
    free_retries: int = counter()
    """Retries without backoff, because the leader epoch had advanced (KIP-951)."""
    catch_up_waits: int = counter()
    """Refusals by the leader of the epoch that the client knows. The next attempt follows after a short delay."""
    sequence_restarts: int = counter()
    """Number of times that a partition continued with the next producer epoch (KIP-360)."""
    leader_moves: int = counter("leader_moves")
    """Refusals by a former leader that were followed by an acknowledgement from the new leader."""
    leader_move_ms_total: float = counter()
    """Total duration of the ``leader_moves`` in milliseconds, each from the refusal to the acknowledgement."""
    leader_move_ms_max: float = counter()
    """Duration of the longest leader move in milliseconds (see ``leader_move_ms_total``)."""
    leader_move_ms_last: float = counter()
    """Duration of the latest leader move in milliseconds (see ``leader_move_ms_total``)."""
    buffer_waits: int = counter("buffer_waits")
    """Calls of ``send`` that had to wait for ``buffer_memory``."""
    buffer_used_bytes: int = gauge("buffer_used_bytes")
    """Bytes of ``buffer_memory`` currently in use."""
    connections: int = counter(java="producer.connection.creation")
    """Connections opened. For a shared `Client`, by all its clients together."""
    batches_pending: int = gauge("batches_pending")
    """Batches that are currently neither acknowledged nor failed."""
    send_latency: LatencyHistogram = histogram("send_latency_seconds")
    """Time from the first record of a batch to its acknowledgement, once per batch."""
    queue_latency: LatencyHistogram = histogram(java="producer.record.queue.time")
    """Time from the first record of a batch to its first request."""
    throttle_time: LatencyHistogram = histogram(java="producer.produce.throttle.time")
    """Throttle time in Produce responses (KIP-219), which is usually 0."""
    request_latency: Mapping[int, LatencyHistogram] = rows(None, "producer.node.request.latency")
    """Time from a Produce request to its response, by broker."""
    metadata: MetadataMetrics = field(default_factory=MetadataMetrics)
    """Leader hints, metadata refreshes and bootstraps of the client."""


# --- consumers -------------------------------------------------------------------------------------------------------


class ConsumerTopicMetrics(Frozen):
    """Counts of records and bytes of one topic."""

    records_consumed: int = counter("records", "consumer.fetch.manager.records.consumed")
    """Records returned to the application."""
    bytes_fetched: int = counter("fetched_bytes", "consumer.fetch.manager.bytes.consumed")
    """Bytes of the received record batches, before decompression."""


class PartitionMetrics(Frozen):
    """State of an assigned partition. Values are None until a response provides them."""

    position: int | None = gauge("position", default=None)
    """Offset of the next record to return to the application."""
    high_watermark: int | None = gauge("high_watermark", default=None)
    """Offset after the last record that every in-sync replica has."""
    last_stable_offset: int | None = gauge(default=None)
    """First offset of the oldest open transaction, or the high watermark without one."""
    log_start_offset: int | None = gauge(default=None)
    """First offset that still exists."""
    lag: int | None = gauge(default=None)
    """Number of offsets from the position to the end that this consumer can read to."""
    buffered_bytes: int = gauge()
    """Bytes fetched and not yet returned, before decompression."""
    paused: bool = False


class ConsumerMetrics(Frozen):
    """Metrics of a consumer: counts since it was created, and the current state of its partitions."""

    topics: Mapping[str, ConsumerTopicMetrics] = rows(ConsumerTopicMetrics)
    """Counts by topic, for topics with received records."""
    records_consumed: int = counter(java="consumer.fetch.manager.records.consumed")
    """Records returned to the application."""
    bytes_fetched: int = counter(java="consumer.fetch.manager.bytes.consumed")
    """Bytes of the received record batches, before decompression."""
    buffered_bytes: int = gauge("buffered_bytes")
    """Bytes fetched and not yet returned to the application."""
    connections: int = counter(java="consumer.connection.creation")
    """Connections opened. For a shared `Client`, by all its clients together."""
    fetches: int = counter("fetches", "consumer.fetch.manager.fetch")
    """Fetch requests."""
    fetches_beside_session: int = counter()
    """Fetch requests outside of a fetch session. They are sent while the broker still waits for records of other
    partitions in the session."""
    fetch_latency_avg_ms: float = gauge()
    """Mean of ``fetch_latency`` in milliseconds; 0 before the first response."""
    failed_fetches: int = counter("failed_fetches")
    """Fetch requests without a response."""
    fetch_errors: Mapping[int, int] = rows()
    """Partition errors in fetch responses, by Kafka's error code."""
    free_retries: int = counter()
    """Partitions fetched again without backoff, because the leader epoch had advanced (KIP-951)."""
    leader_moves: int = counter("leader_moves")
    """Refusals by a former leader, and lost connections, that were followed by a response from another broker."""
    leader_move_ms_total: float = counter()
    """Total duration of the ``leader_moves`` in milliseconds, each from the refusal or lost connection to the request
    that another broker answered. That broker's wait for records is not included."""
    leader_move_ms_max: float = counter()
    """Duration of the longest leader move in milliseconds (see ``leader_move_ms_total``)."""
    leader_move_ms_last: float = counter()
    """Duration of the latest leader move in milliseconds (see ``leader_move_ms_total``)."""
    session_resets: int = counter()
    """Fetch sessions that a broker no longer had (KIP-227)."""
    follower_redirects: int = counter()
    """Partitions that a broker redirected to a nearby follower (KIP-392)."""
    stale_answers: int = counter()
    """Partitions in responses that were no longer wanted on arrival, for example after a seek."""
    offset_resets: int = counter("offset_resets")
    """Positions out of range that were reset according to ``auto_offset_reset``."""
    truncations: int = counter()
    """Positions found beyond the end of a log that had lost records (KIP-320)."""
    fetch_latency: LatencyHistogram = histogram("fetch_latency_seconds", "consumer.fetch.manager.fetch.latency")
    """Time from a fetch request to its response, including the broker's wait for records."""
    request_latency: Mapping[int, LatencyHistogram] = rows(None, "consumer.node.request.latency")
    """Time from a request to its response, by broker."""
    commit_latency: LatencyHistogram = histogram("commit_latency_seconds", "consumer.coordinator.commit.latency")
    """Duration of successful commits, including rebalances for which they waited."""
    rebalance_latency: LatencyHistogram = histogram(
        "rebalance_latency_seconds", "consumer.coordinator.rebalance.latency"
    )
    """Time from the moment when a member learns of a rebalance until it has given up and received all its partitions.
    """
    partitions: Mapping[TopicPartition, PartitionMetrics] = rows(PartitionMetrics)
    """State of each assigned partition."""
    metadata: MetadataMetrics = field(default_factory=MetadataMetrics)
    """Leader hints, metadata refreshes and bootstraps of the client."""


# --- share consumers -------------------------------------------------------------------------------------------------


class ShareTopicMetrics(Frozen):
    """Counts of one topic. An acknowledgement counts when a broker has accepted it."""

    records_consumed: int = counter("records", "consumer.share.fetch.manager.records.consumed")
    """Records returned to the application. Each delivery counts."""
    bytes_fetched: int = counter("fetched_bytes", "consumer.share.fetch.manager.bytes.consumed")
    """Bytes of the received record batches, before decompression."""
    records_accepted: int = counter("records_accepted")
    """Records accepted."""
    records_released: int = counter("records_released")
    """Records released to the group, including records that were not returned to the application."""
    records_rejected: int = counter("records_rejected")
    """Records rejected."""
    locks_renewed: int = counter("locks_renewed")
    """Locks renewed."""
    records_lost: int = counter("records_lost")
    """Records that will be delivered again, because their lock expired or a connection or leader was lost before a
    broker had accepted their acknowledgement."""


class ShareConsumerMetrics(Frozen):
    """Metrics of a share consumer: counts since it was created, and the current number of buffered records."""

    topics: Mapping[str, ShareTopicMetrics] = rows(ShareTopicMetrics)
    """Counts by topic, for topics with received records."""
    records_consumed: int = counter(java="consumer.share.fetch.manager.records.consumed")
    """Records returned to the application. Each delivery counts."""
    bytes_fetched: int = counter(java="consumer.share.fetch.manager.bytes.consumed")
    """Bytes of the received record batches, before decompression."""
    acknowledgements: int = counter(java="consumer.share.fetch.manager.acknowledgements.send")
    """Acknowledgements of all kinds that brokers have accepted."""
    buffered_records: int = gauge("buffered_records")
    """Approximate number of records that are acquired and not yet returned to the application."""
    fetches: int = counter("fetches", "consumer.share.fetch.manager.fetch")
    """Fetch requests."""
    failed_fetches: int = counter("failed_fetches")
    """Fetch requests without a response."""
    leader_moves: int = counter("leader_moves")
    """Refusals by a former leader, and lost connections, that were followed by a response from another broker."""
    leader_move_ms_total: float = counter()
    """Total duration of the ``leader_moves`` in milliseconds, each from the refusal or lost connection to the request
    that another broker answered. That broker's wait for records is not included."""
    leader_move_ms_max: float = counter()
    """Duration of the longest leader move in milliseconds (see ``leader_move_ms_total``)."""
    leader_move_ms_last: float = counter()
    """Duration of the latest leader move in milliseconds (see ``leader_move_ms_total``)."""
    fetch_latency: LatencyHistogram = histogram("fetch_latency_seconds", "consumer.share.fetch.manager.fetch.latency")
    """Time from a fetch request to its response, including the broker's wait for records."""
    request_latency: Mapping[int, LatencyHistogram] = rows(None, "consumer.node.request.latency")
    """Time from a request to its response, by broker."""
    throttle_time: LatencyHistogram = histogram(java="consumer.share.fetch.manager.fetch.throttle.time")
    """Throttle time in fetch responses (KIP-219), which is usually 0."""
    acknowledge_latency: LatencyHistogram = histogram("acknowledge_latency_seconds")
    """Time from a request with acknowledgements to its response, if they were accepted. A fetch with acknowledgements
    may also wait for records."""
    metadata: MetadataMetrics = field(default_factory=MetadataMetrics)
    """Leader hints, metadata refreshes and bootstraps of the client."""
