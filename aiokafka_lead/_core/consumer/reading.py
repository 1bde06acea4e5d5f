"""What one consumer reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...types import TopicPartition
from ..counting import counts_of
from ..metadata.metrics import MetadataMetrics
from .deserializers import Deserializers
from .in_hand import InHand
from .metrics import ConsumerCounters, ConsumerMetrics, ConsumerTopicMetrics, PartitionMetrics
from .partition_state import PartitionState
from .position import Position
from .positions import Positions
from .prefetch import Prefetch
from .reset_policy import ResetPolicy

__all__ = ["Reading"]


class Reading:
    """Where each partition is, what was fetched of it and not handed out, what was handed out, and the counts of it.

    A partition leaves its position, or the assignment, only together with what was fetched from there.
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
        """What the application works on; empty without a group."""
        self.counters = ConsumerCounters()
        self.read_committed = read_committed

    def assign(self, partitions: Iterable[TopicPartition]) -> tuple[list[PartitionState], list[PartitionState]]:
        """Read these from now on; those that stay go on as they are. Returns the partitions added and removed."""
        added, removed = self.positions.assign(partitions)
        for state in removed:
            self.prefetch.drop(state)
        return added, removed

    def move(self, state: PartitionState, to: Position) -> None:
        """Go on from there."""
        self.prefetch.drop(state)
        state.move(*to)

    def seek(self, state: PartitionState, to: Position) -> None:
        """Go on from there, as the application says: what was committed before is no place to go back to."""
        state.base = None
        self.move(state, to)

    def go_back(self, states: Iterable[PartitionState]) -> None:
        """Go on from the committed offsets, which are asked for anew; where there are none, from where reading began.

        Nothing of it is in hand any more. Answers to what was asked before are void, and so is what was fetched.
        """
        states = list(states)
        for state in states:
            self.prefetch.drop(state)
            state.go_back()
        self.in_hand.give_back(state.tp for state in states)

    def reset(self, state: PartitionState, policy: ResetPolicy) -> None:
        """Find the position anew."""
        self.prefetch.drop(state)
        state.reset(policy)

    def end_of(self, state: PartitionState) -> int | None:
        """The end that this consumer may read to, as of the last fetch."""
        return state.last_stable_offset if self.read_committed else state.high_watermark

    def metrics(self, connections: int, metadata: MetadataMetrics) -> ConsumerMetrics:
        """Counts since the start, and the partitions as they are now."""
        counters = self.counters
        counts = counts_of(ConsumerMetrics, counters)
        counts["fetch_errors"] = dict(counters.fetch_errors)
        taken = self.prefetch.records_by_topic()
        return ConsumerMetrics(
            **counts,
            records_consumed=sum(taken.values()),
            buffered_bytes=self.prefetch.total_bytes,
            fetch_latency_avg_ms=1000 * counters.fetch_latency_s / counters.answers if counters.answers else 0.0,
            topics={
                name: ConsumerTopicMetrics(taken.get(name, 0), size)
                for name, size in list(counters.topic_bytes.items())
            },
            connections=connections,
            fetch_latency=counters.fetch_latencies.snapshot(),
            request_latency=counters.nodes.snapshot(),
            commit_latency=counters.commits.snapshot(),
            rebalance_latency=counters.rebalances.snapshot(),
            partitions={state.tp: self._partition_metrics(state) for state in self.positions},
            metadata=metadata,
        )

    def lag_of(self, state: PartitionState) -> int | None:
        """Offsets between the position and the end; None where one of them is not known."""
        position, end = state.position, self.end_of(state)
        return None if position is None or end is None else max(0, end - position.offset)

    def _partition_metrics(self, state: PartitionState) -> PartitionMetrics:
        position = state.position
        return PartitionMetrics(
            position=None if position is None else position.offset,
            high_watermark=state.high_watermark,
            last_stable_offset=state.last_stable_offset,
            log_start_offset=state.log_start_offset,
            lag=self.lag_of(state),
            buffered_bytes=state.buffered_bytes,
            paused=state.paused,
        )
