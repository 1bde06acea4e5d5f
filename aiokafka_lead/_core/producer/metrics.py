"""Metrics of a producer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..counting import counts_of
from ..latencies import Latencies, LatencyHistogram
from ..metadata.metrics import MetadataMetrics
from .counters import ProducerCounters

__all__ = ["ProducerMetrics", "ProducerTopicMetrics", "snapshot"]


@dataclass(frozen=True, slots=True)
class ProducerTopicMetrics:
    """Outcomes of the records of one topic."""

    records_acked: int
    records_failed: int
    """Records that were given up."""
    batches_acked: int


@dataclass(frozen=True, slots=True)
class ProducerMetrics:
    """Counts since the producer was created, and a few current values. Times are in milliseconds."""

    records_sent: int = 0
    """Records that were sent at least once."""
    records_acked: int = 0
    records_failed: int = 0
    """Records that were given up, including expired ones."""
    records_expired: int = 0
    """Records that were not acknowledged within ``delivery_timeout_ms``."""
    batches_sent: int = 0
    """Batches sent, counting each attempt."""
    batches_acked: int = 0
    batches_failed: int = 0
    batches_split: int = 0
    """Batches that a broker found too large."""
    bytes_sent: int = 0
    """Bytes of record batches as sent, after compression, counting each attempt."""
    bytes_sent_in_rack: int = 0
    """The part of them sent to brokers in ``client_rack``."""
    requests: int = 0
    """Produce requests."""
    retries: int = 0
    """Batches sent again."""
    free_retries: int = 0
    """Retries without backoff, because the leader epoch had advanced (KIP-951)."""
    catch_up_waits: int = 0
    """Refusals by the leader of the known epoch itself, after which the delay is short."""
    sequence_restarts: int = 0
    """Number of times that a partition continued under the next producer epoch (KIP-360)."""
    leader_moves: int = 0
    """Refusals by a former leader that were followed by an acknowledgement from another one."""
    leader_move_ms_total: float = 0.0
    """Total time from such a refusal to the acknowledgement."""
    leader_move_ms_max: float = 0.0
    leader_move_ms_last: float = 0.0
    buffer_waits: int = 0
    """Sends that had to wait for ``buffer_memory``."""
    buffer_used_bytes: int = 0
    """Bytes of ``buffer_memory`` currently in use."""
    connections: int = 0
    """Connections opened so far; for a shared `Client`, by all its users."""
    batches_pending: int = 0
    """Batches currently neither acknowledged nor failed."""
    topics: Mapping[str, ProducerTopicMetrics] = field(default_factory=dict)
    """Metrics by topic, for all topics with acknowledged or given-up records."""
    send_latency: LatencyHistogram = field(default_factory=lambda: Latencies().snapshot())
    """Time from the first record of a batch to its acknowledgement, once per batch."""
    queue_latency: LatencyHistogram = field(default_factory=lambda: Latencies().snapshot())
    """Time from the first record of a batch to its first request."""
    request_latency: Mapping[int, LatencyHistogram] = field(default_factory=dict)
    """Time from a Produce request to its answer, by broker."""
    metadata: MetadataMetrics = field(default_factory=MetadataMetrics)
    """Leader hints, refreshes and rebootstraps of this producer's client."""


def snapshot(
    counters: ProducerCounters,
    *,
    connections: int,
    sequence_restarts: int,
    buffer_used_bytes: int,
    batches_pending: int,
    metadata: MetadataMetrics,
) -> ProducerMetrics:
    """Return the current metrics."""
    return ProducerMetrics(
        **counts_of(ProducerMetrics, counters, counters.moves),
        connections=connections,
        sequence_restarts=sequence_restarts,
        buffer_used_bytes=buffer_used_bytes,
        batches_pending=batches_pending,
        topics={
            name: ProducerTopicMetrics(each.records_acked, each.records_failed, each.batches_acked)
            for name, each in list(counters.settled_topics.items())
        },
        send_latency=counters.sends.snapshot(),
        queue_latency=counters.queued.snapshot(),
        request_latency=counters.nodes.snapshot(),
        metadata=metadata,
    )
