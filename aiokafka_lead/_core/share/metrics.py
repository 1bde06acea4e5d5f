"""What a share consumer counts, and the snapshot of it that applications get."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...types import AcknowledgeType
from ..latencies import Latencies, LatenciesByNode, LatencyHistogram
from ..leadership.moves import LeaderMoveCounters
from ..metadata.metrics import MetadataMetrics
from .acquired import SENT, Acquired, Span

__all__ = ["ShareConsumerMetrics", "ShareCounters", "ShareTopicMetrics"]

ACCEPT, RELEASE, REJECT, RENEW = (int(kind) | SENT for kind in AcknowledgeType)


class TopicCounts:
    """Of one topic. `ShareTopicMetrics` says what they count."""

    __slots__ = ("accepted", "bytes_fetched", "decoded", "lost", "rejected", "released", "renewed")

    def __init__(self) -> None:
        self.decoded = 0
        """Records made to be handed out; some wait for that yet."""
        self.bytes_fetched = 0
        self.accepted = 0
        self.released = 0
        self.rejected = 0
        self.renewed = 0
        self.lost = 0


class ShareCounters(LeaderMoveCounters):
    """Running counts since the consumer started, added to where things happen: by answer, and not by record."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, TopicCounts] = {}
        self.fetches = 0
        self.failed_fetches = 0
        self.answered_at: float | None = None
        """When a fetch was answered last (monotonic seconds)."""
        self.fetch_latencies = Latencies()
        self.nodes = LatenciesByNode()
        """The same by broker."""
        self.throttles = Latencies()
        """What answers to fetches demanded (KIP-219), mostly nothing."""
        self.acknowledge_latencies = Latencies()

    def of(self, topic: str) -> TopicCounts:
        """Those of a topic."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicCounts()
        return found

    def taken(self, acquired: Acquired, span: Span) -> None:
        """A broker has taken these acknowledgements, whose marks say that they were sent."""
        counts, marks = self.of(acquired.tp.topic), acquired.marks[span.start : span.end]
        counts.accepted += marks.count(ACCEPT)
        counts.released += marks.count(RELEASE)
        counts.rejected += marks.count(REJECT)
        counts.renewed += marks.count(RENEW)

    def lost(self, acquired: Acquired, before: int) -> None:
        """Some records were lost; ``before`` were already."""
        self.of(acquired.tp.topic).lost += acquired.lost - before

    def fetched(self, node_id: int, sent_at: float, now: float, *, answered: bool) -> None:
        """A request for records has ended."""
        self.fetches += 1
        if answered:
            self.answered_at = now
            self.fetch_latencies.add(now - sent_at)
            self.nodes[node_id].add(now - sent_at)
        else:
            self.failed_fetches += 1

    def snapshot(
        self, consumed: Mapping[str, int], buffered_records: int, metadata: MetadataMetrics
    ) -> ShareConsumerMetrics:
        """The counts of this moment, with what the application got by topic, and what waits for it."""
        return ShareConsumerMetrics(
            buffered_records=buffered_records,
            fetches=self.fetches,
            failed_fetches=self.failed_fetches,
            leader_moves=self.leader_moves,
            leader_move_ms_total=self.leader_move_ms_total,
            leader_move_ms_max=self.leader_move_ms_max,
            leader_move_ms_last=self.leader_move_ms_last,
            topics={
                topic: ShareTopicMetrics(
                    consumed.get(topic, 0),
                    counts.bytes_fetched,
                    counts.accepted,
                    counts.released,
                    counts.rejected,
                    counts.renewed,
                    counts.lost,
                )
                for topic, counts in list(self.topics.items())
            },
            fetch_latency=self.fetch_latencies.snapshot(),
            acknowledge_latency=self.acknowledge_latencies.snapshot(),
            metadata=metadata,
        )


@dataclass(frozen=True, slots=True)
class ShareTopicMetrics:
    """What came of one topic, and what became of it. Acknowledgements count when a broker has taken them."""

    records_consumed: int
    """Records handed out to the application, those that were delivered again included."""
    bytes_fetched: int
    """Sizes of the record batches received, compressed where they were."""
    records_accepted: int
    records_released: int
    """Given back to the group, those included that the application never got."""
    records_rejected: int
    locks_renewed: int
    records_lost: int
    """Records whose lock ended before a broker had taken their acknowledgement, so that they are delivered again: it
    had run out, or a connection, or a leader, was lost."""


@dataclass(frozen=True, slots=True)
class ShareConsumerMetrics:
    """A share consumer's counts since it started."""

    buffered_records: int
    """Acquired, and not yet handed out, about."""
    fetches: int
    """Requests for records sent."""
    failed_fetches: int
    """Of these, those that got no answer."""
    leader_moves: int
    """Refusals by a former leader, and lost connections, that ended with a partition's answer by another broker."""
    leader_move_ms_total: float
    """Time from the refusal to the request that the other broker answered, summed up; its own wait for records is not
    part of it."""
    leader_move_ms_max: float
    leader_move_ms_last: float
    topics: Mapping[str, ShareTopicMetrics]
    """By name, of all topics that records were received of."""
    fetch_latency: LatencyHistogram
    """From request to answer, time that brokers waited for records included."""
    acknowledge_latency: LatencyHistogram
    """From request to answer, of requests whose acknowledgements were taken; a fetch that carried some may have been
    held for records."""
    metadata: MetadataMetrics
    """Leader hints, refreshes and rebootstraps of this consumer's client."""
