"""Counters of a share consumer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...metrics import MetadataMetrics, ShareConsumerMetrics, ShareTopicMetrics
from ...types import AcknowledgeType
from ..counting import counts_of, snapshot
from ..latencies import Latencies, LatenciesByNode
from ..leadership.patience import LeaderMoveCounters
from .acquired import SENT, Acquired, Span

ACCEPT, RELEASE, REJECT, RENEW = (int(kind) | SENT for kind in AcknowledgeType)


class TopicCounts:
    """Counts of one topic. `ShareTopicMetrics` documents them."""

    __slots__ = (
        "bytes_fetched",
        "decoded",
        "locks_renewed",
        "records_accepted",
        "records_lost",
        "records_rejected",
        "records_released",
    )

    def __init__(self) -> None:
        self.decoded = 0
        """Number of records decoded for the application. Some of them may still be buffered."""
        self.bytes_fetched = 0
        self.records_accepted = 0
        self.records_released = 0
        self.records_rejected = 0
        self.locks_renewed = 0
        self.records_lost = 0


class ShareCounters(LeaderMoveCounters):
    """Running counts since the consumer started. They are updated per response and not per record."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: dict[str, TopicCounts] = {}
        self.fetches = 0
        self.failed_fetches = 0
        self.answered_at: float | None = None
        """Time of the last ShareFetch response in monotonic seconds, or None."""
        self.fetch_latency = Latencies()
        self.request_latency = LatenciesByNode()
        self.throttle_time = Latencies()
        self.acknowledge_latency = Latencies()

    def of(self, topic: str) -> TopicCounts:
        """Return the counts of a topic, which are created on first use."""
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicCounts()
        return found

    def taken(self, acquired: Acquired, span: Span) -> None:
        """Count acknowledgements that a broker has accepted. Call it before their marks as "sent" are removed."""
        counts, marks = self.of(acquired.tp.topic), acquired.marks[span.start : span.end]
        counts.records_accepted += marks.count(ACCEPT)
        counts.records_released += marks.count(RELEASE)
        counts.records_rejected += marks.count(REJECT)
        counts.locks_renewed += marks.count(RENEW)

    def lost(self, acquired: Acquired, before: int) -> None:
        """Count the lost records of ``acquired``, except for ``before`` of them that have already been counted."""
        self.of(acquired.tp.topic).records_lost += acquired.lost - before

    def fetched(self, node_id: int, sent_at: float, now: float, *, answered: bool) -> None:
        """Count a ShareFetch request to this broker that has ended: with its latency, or as failed."""
        self.fetches += 1
        if answered:
            self.answered_at = now
            self.fetch_latency.add(now - sent_at)
            self.request_latency[node_id].add(now - sent_at)
        else:
            self.failed_fetches += 1

    def counted(self, consumed: Mapping[str, int]) -> dict[str, Any]:
        """Return the counts of `ShareConsumerMetrics`. ``consumed`` is the number of records handed out, by topic."""
        topics = {
            topic: ShareTopicMetrics(**counts_of(ShareTopicMetrics, counts, records_consumed=consumed.get(topic, 0)))
            for topic, counts in list(self.topics.items())
        }
        acknowledged = (
            each.records_accepted + each.records_released + each.records_rejected + each.locks_renewed
            for each in topics.values()
        )
        return counts_of(
            ShareConsumerMetrics,
            self,
            topics=topics,
            records_consumed=sum(consumed.values()),
            bytes_fetched=sum(each.bytes_fetched for each in topics.values()),
            acknowledgements=sum(acknowledged),
        )

    def snapshot(
        self, consumed: Mapping[str, int], buffered_records: int, metadata: MetadataMetrics
    ) -> ShareConsumerMetrics:
        """Return the current counts. ``consumed`` is the number of records handed out, by topic."""
        values = {**self.counted(consumed), "buffered_records": buffered_records, "metadata": metadata}
        return snapshot(ShareConsumerMetrics, values)
