"""The reading state of one consumer, with its counters."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...types import TopicPartition
from ..counting import counts_of, snapshot
from ..latencies import Latencies, LatenciesByNode
from ..leadership.patience import LeaderMoveCounters
from .deserializers import Deserializers
from .in_hand import InHand
from .partition_state import PartitionState, Pauser
from .position import Position
from .positions import Positions
from .prefetch import Prefetch
from .reset_policy import ResetPolicy

if TYPE_CHECKING:
    from ...metrics import ConsumerMetrics, MetadataMetrics, PartitionMetrics


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
        """Count a Fetch response of this broker, which took ``seconds``."""
        self.fetch_latency_s += seconds
        self.fetch_latency.add(seconds)
        self.request_latency[node_id].add(seconds)

    def count_bytes(self, topic: str, size: int) -> None:
        """Count record batches of ``size`` bytes that were received for the topic."""
        self.bytes_fetched += size
        self.topic_bytes[topic] = self.topic_bytes.get(topic, 0) + size

    def count_error(self, code: int) -> None:
        """Count the error code of one partition in a Fetch response."""
        self.fetch_errors[code] = self.fetch_errors.get(code, 0) + 1


class Reading:
    """The positions of a consumer, its prefetched data, its records in hand, and its counters.

    Whenever a partition's position is set, or the partition is removed, its fetched data is dropped.
    """

    __slots__ = ("counters", "in_hand", "positions", "prefetch", "read_committed")

    def __init__(
        self,
        deserializers: Deserializers,
        *,
        read_committed: bool,
        on_touch: Callable[[], None],
        on_news: Callable[[], None],
        on_release: Callable[[], None],
        max_decompressed_bytes: int,
    ) -> None:
        self.positions = Positions(on_touch, on_news)
        self.prefetch = Prefetch(deserializers, on_news, max_decompressed_bytes)
        self.in_hand = InHand(on_release)
        """The records that the application is processing. Always empty without a group."""
        self.counters = ConsumerCounters()
        self.read_committed = read_committed

    def assign(self, partitions: Collection[TopicPartition]) -> tuple[list[PartitionState], list[PartitionState]]:
        """Replace the assignment. Returns the added and the removed states.

        Partitions that stay in the assignment continue unchanged.
        """
        added, removed = self.positions.assign(partitions)
        for state in removed:
            self.prefetch.drop(state)
        return added, removed

    def accompany(self, companions: Mapping[str, Sequence[str]]) -> None:
        """Set the companion topics of each topic (see `Positions.accompany`).

        A consumer reads them along with the partitions that it is assigned.
        """
        own = self.positions.own(self.positions.assigned)
        self.positions.accompany(companions)
        self.assign(own)

    def read_only(self, topics: Container[str] | None) -> None:
        """Hand out records of these topics only, or of all topics if ``topics`` is None.

        Used while the group has not yet revoked the partitions of topics that are no longer subscribed.
        """
        positions = self.positions
        own = () if topics is None else positions.own(positions.assigned)
        left = set(positions.with_companions([tp for tp in own if topics is None or tp.topic not in topics]))
        for state in positions:
            (self.prefetch.pause if state.tp in left else self.prefetch.resume)(state, Pauser.SUBSCRIPTION)

    def move(self, state: PartitionState, to: Position) -> None:
        """Drop the partition's fetched records and continue from this position."""
        self.prefetch.drop(state)
        state.move(*to)

    def seek(self, state: PartitionState, to: Position) -> None:
        """Continue from a position that the application has set.

        `go_back` returns to this position if no offset is committed.
        """
        state.base = None
        self.move(state, to)

    def go_back(self, states: Iterable[PartitionState]) -> None:
        """Continue from the committed offsets, which are fetched again.

        A partition without a committed offset restarts at the position where its reading began.

        Records in hand are forgotten, prefetched data is dropped, and responses to earlier requests are ignored.
        """
        states = list(states)
        for state in states:
            self.prefetch.drop(state)
            state.go_back()
        self.in_hand.give_back(state.tp for state in states)

    def reset(self, state: PartitionState, policy: ResetPolicy) -> None:
        """Drop the partition's fetched records, and look up its position again with this policy."""
        self.prefetch.drop(state)
        state.reset(policy)

    def end_of(self, state: PartitionState) -> int | None:
        """Return the offset up to which this consumer may read, as of the last fetch.

        This is the last stable offset with read_committed, otherwise the high watermark.
        """
        return state.last_stable_offset if self.read_committed else state.high_watermark

    def counted(self) -> dict[str, Any]:
        """Return the values of the fields of `ConsumerMetrics` that are counters."""
        from ...metrics import ConsumerMetrics, ConsumerTopicMetrics

        taken = self.prefetch.records_by_topic()
        topics = {
            name: ConsumerTopicMetrics(taken.get(name, 0), size)
            for name, size in list(self.counters.topic_bytes.items())
        }
        return counts_of(ConsumerMetrics, self.counters, records_consumed=sum(taken.values()), topics=topics)

    def metrics(self, connections: int, metadata: MetadataMetrics) -> ConsumerMetrics:
        """Return the counts since the start, and the current state of the partitions."""
        from ...metrics import ConsumerMetrics

        counters = self.counters
        values = {
            **self.counted(),
            "buffered_bytes": self.prefetch.total_bytes,
            "connections": connections,
            "fetch_latency_avg_ms": 1000 * counters.fetch_latency_s / counters.answers if counters.answers else 0.0,
            "partitions": self._partitions(),
            "metadata": metadata,
        }
        return snapshot(ConsumerMetrics, values)

    def lag_of(self, state: PartitionState) -> int | None:
        """Return the number of offsets between the position and the end, or None if either is unknown."""
        position, end = state.position, self.end_of(state)
        return None if position is None or end is None else max(0, end - position.offset)

    def _partitions(self) -> dict[TopicPartition, PartitionMetrics]:
        from ...metrics import PartitionMetrics

        return {
            state.tp: PartitionMetrics(
                position=None if state.position is None else state.position.offset,
                high_watermark=state.high_watermark,
                last_stable_offset=state.last_stable_offset,
                log_start_offset=state.log_start_offset,
                lag=self.lag_of(state),
                buffered_bytes=state.buffered_bytes,
                paused=state.paused,
            )
            for state in self.positions
        }
