"""Finds stuck partitions, which do not advance although the application reads, and says why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from ...types import TopicPartition
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .partition_state import PartitionState


class Standstill:
    """Remembers the offset of each partition, sampled periodically; times are monotonic seconds."""

    def __init__(
        self,
        limit_s: float,
        end_of: Callable[[PartitionState], int | None],
        explain: Callable[[int], str | None],
    ) -> None:
        """Report partitions that stand still for ``limit_s``. ``end_of`` returns the end that reads may go to.

        ``explain`` says why a node cannot be reached, or returns None if it can.
        """
        self._limit_s = limit_s
        self._end_of = end_of
        self._explain = explain
        self._stands: dict[PartitionState, tuple[int, float]] = {}
        """Fetch offset by partition, and the time since when it is unchanged."""
        self._records_taken = 0
        self._read_at = -math.inf
        """Time of the last known read."""

    def look(
        self,
        states: Iterable[PartitionState],
        snapshot: ClusterSnapshot,
        now: float,
        *,
        waiting: bool,
        records_taken: int,
    ) -> None:
        """Compare with the last sample. ``waiting`` is True if a read waits; ``records_taken`` is a total."""
        if waiting or records_taken != self._records_taken:
            self._read_at = now
        self._records_taken = records_taken
        before, self._stands = self._stands, {}
        if now < self._read_at + self._limit_s:
            for state in states:
                if self._should_advance(state, snapshot):
                    offset, since = before.get(state, (state.fetch_offset, now))
                    self._stands[state] = (offset, since) if offset == state.fetch_offset else (state.fetch_offset, now)

    def found(self, snapshot: ClusterSnapshot, now: float) -> Mapping[TopicPartition, str]:
        """Return the partitions that have stood still for too long, with reasons in words."""
        return {
            state.tp: f"{state.tp} has not advanced for {now - since:.1f} s: {self._why(state, snapshot, now)}"
            for state, (_, since) in self._stands.items()
            if now - since >= self._limit_s
        }

    def _should_advance(self, state: PartitionState, snapshot: ClusterSnapshot) -> bool:
        if state.still or state.error is not None or state.fetched:
            return False
        end = self._end_of(state)
        if end is not None and 0 <= state.fetch_offset < end:
            return True
        return state.patience.refusals > 0 or self._trouble(state, snapshot) is not None

    def _trouble(self, state: PartitionState, snapshot: ClusterSnapshot) -> str | None:
        leader = snapshot.leader(*state.tp)[0]
        if leader == NO_LEADER or leader not in snapshot.brokers:
            return "it has no leader that is known"
        node_id = leader if state.preferred_replica < 0 else state.preferred_replica
        error = self._explain(node_id)
        return None if error is None else f"broker {node_id} cannot be reached: {error}"

    def _why(self, state: PartitionState, snapshot: ClusterSnapshot, now: float) -> str:
        trouble = self._trouble(state, snapshot)
        if trouble is not None:
            return trouble
        patience = state.patience
        leader = snapshot.leader(*state.tp)[0]
        if patience.refusals:
            last = "" if state.failure is None else f", the last time with {type(state.failure).__name__}"
            return (
                f"broker {leader} is in doubt: it has refused {patience.refusals} times in "
                f"{now - patience.refused_since:.1f} s{last}"
            )
        return f"broker {leader} answers without records, though the log goes on to {self._end_of(state)}"
