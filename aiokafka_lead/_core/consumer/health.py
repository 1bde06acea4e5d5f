"""Health of a consumer, its lag, and its stuck partitions, as snapshots for probes and metrics."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from ..._values import NamedTuple
from ...types import TopicPartition
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .partition_state import FetchState, PartitionState

if TYPE_CHECKING:
    from ...health import ConsumerHealth

NOTHING_STUCK: Mapping[TopicPartition, str] = MappingProxyType({})

NAMED_AT_MOST = 20
"""Maximum number of stuck partitions to list in `ConsumerHealth.problems`."""


class Facts(NamedTuple):
    """The facts from which `judge` derives a consumer's health. Times are in seconds."""

    unusable: str | None
    """The reason why the consumer cannot be used at all, or None."""
    hungry: bool
    """True if a call is waiting, or was waiting recently, for records of fetchable partitions."""
    since_start_s: float
    since_fetch_s: float | None
    since_heartbeat_s: float | None
    grouped: bool
    """True if the partitions are assigned by a group."""
    joined: bool
    kept_out: str | None
    coordinator: int | None
    handler_s: float | None
    since_tick_s: float
    """Seconds since the event loop was last seen to run."""
    blocked_s: float
    since_blocked_s: float | None
    reachable: bool
    """True if a broker is connected, and no connection to it has failed since."""
    absent: tuple[str, ...] = ()
    stuck: Mapping[TopicPartition, str] = NOTHING_STUCK
    refused: str | None = None
    """Description of the broker errors that a run in progress tolerates, or None."""
    doubted_s: float | None = None
    """Seconds since the coordinator began to refuse requests, once this has lasted too long, or None."""
    doubted_for: str = ""
    """Responses of the brokers that have been asked for the coordinator since then."""


class Limits(NamedTuple):
    """The longest acceptable times, in seconds."""

    fetch_s: float
    heartbeat_s: float
    handler_s: float
    tick_s: float


def judge(facts: Facts, limits: Limits) -> ConsumerHealth:
    """Return the consumer's health, with a problem for each exceeded limit."""
    from ...health import ConsumerHealth

    own: list[str] = []
    unanswered: list[str] = []
    if facts.unusable is not None:
        own.append(facts.unusable)
    else:
        unanswered = _unanswered(facts, limits)
        if facts.handler_s is not None and facts.handler_s > limits.handler_s:
            own.append(f"the application has been handling its records for {facts.handler_s:.1f} s")
        if facts.since_tick_s > limits.tick_s:
            own.append(f"the event loop has been blocked for {facts.since_tick_s:.1f} s")
    stuck = list(facts.stuck.values()) if facts.reachable else []  # otherwise, all problems have the same cause
    if len(stuck) > NAMED_AT_MOST:
        stuck[NAMED_AT_MOST:] = [f"{len(stuck) - NAMED_AT_MOST} more partitions have not advanced"]
    refused = () if facts.refused is None else (facts.refused,)
    if facts.doubted_s is not None and facts.doubted_s > limits.fetch_s and facts.reachable:
        stuck.append(f"no broker has acted as group coordinator for {facts.doubted_s:.1f} s: {facts.doubted_for}")
    problems = (*unanswered, *own)
    return ConsumerHealth(
        problems=(*refused, *problems, *stuck),
        since_fetch_ms=_ms(facts.since_fetch_s),
        since_heartbeat_ms=_ms(facts.since_heartbeat_s),
        joined=facts.joined if facts.grouped else None,
        kept_out=facts.kept_out,
        coordinator=facts.coordinator,
        coordinator_doubted_ms=_ms(facts.doubted_s),
        handler_ms=_ms(facts.handler_s),
        blocked_ms=facts.blocked_s * 1000,
        since_blocked_ms=_ms(facts.since_blocked_s),
        absent=facts.absent,
        own_problems=problems if facts.reachable else tuple(own),
        reachable=facts.reachable,
        stuck=facts.stuck,
    )


def _unanswered(facts: Facts, limits: Limits) -> list[str]:
    """Return descriptions of requests that brokers should have answered by now."""
    problems: list[str] = []
    fetch_s = facts.since_start_s if facts.since_fetch_s is None else facts.since_fetch_s
    if facts.hungry and fetch_s > limits.fetch_s:
        problems.append(f"no broker has answered a fetch for {fetch_s:.1f} s")
    heartbeat_s = facts.since_start_s if facts.since_heartbeat_s is None else facts.since_heartbeat_s
    if not facts.grouped or heartbeat_s <= limits.heartbeat_s:
        return problems
    if facts.kept_out is not None:
        problems.append(f"the consumer has not been able to join its group for {heartbeat_s:.1f} s: {facts.kept_out}")
    else:
        who = "not found" if facts.coordinator is None else f"broker {facts.coordinator}"
        problems.append(f"the group coordinator ({who}) has not acknowledged a heartbeat for {heartbeat_s:.1f} s")
    return problems


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000


class Standstill:
    """Detects stuck partitions by sampling their offsets. Times are in monotonic seconds."""

    def __init__(
        self,
        limit_s: float,
        end_of: Callable[[PartitionState], int | None],
        explain: Callable[[int], str | None],
    ) -> None:
        """Report partitions that make no progress for ``limit_s``.

        ``end_of`` returns the end up to which the consumer may read. ``explain`` returns the reason why a node cannot
        be reached, or None if it can.
        """
        self._limit_s = limit_s
        self._end_of = end_of
        self._explain = explain
        self._stands: dict[PartitionState, tuple[int, float]] = {}
        """The fetch offset of each partition, and the time at which it last changed."""
        self._reads: object = (0, 0.0)
        self._read_at = -math.inf
        """Time of the last read that was noticed."""

    def look(
        self,
        states: Iterable[PartitionState],
        snapshot: ClusterSnapshot,
        now: float,
        reads: tuple[int, float],
    ) -> None:
        """Sample the partitions' offsets, and compare them with the last sample.

        ``reads`` is a pair: the number of records taken, and the seconds spent waiting for records. If neither has
        changed, the application is not reading, and no partition counts as stuck.
        """
        if reads != self._reads:
            self._read_at = now
        self._reads = reads
        before, self._stands = self._stands, {}
        if now < self._read_at + self._limit_s:
            for state in states:
                if self._should_advance(state, snapshot):
                    offset, since = before.get(state, (state.fetch_offset, now))
                    self._stands[state] = (offset, since) if offset == state.fetch_offset else (state.fetch_offset, now)

    def found(self, snapshot: ClusterSnapshot, now: float) -> Mapping[TopicPartition, str]:
        """Return the stuck partitions, each with a description of the reason."""
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
            return "it has no known leader"
        node_id = leader if state.preferred_replica < 0 else state.preferred_replica
        error = self._explain(node_id)
        return None if error is None else f"broker {node_id} cannot be reached: {error}"

    def _why(self, state: PartitionState, snapshot: ClusterSnapshot, now: float) -> str:
        if state.state is FetchState.INITIALIZING and state.failure is not None:
            return str(state.failure)  # the coordinator's error
        trouble = self._trouble(state, snapshot)
        if trouble is not None:
            return trouble
        patience = state.patience
        leader = snapshot.leader(*state.tp)[0]
        if patience.refusals:
            last = "" if state.failure is None else f", most recently with {type(state.failure).__name__}"
            return (
                f"broker {leader} has refused {patience.refusals} requests in "
                f"{now - patience.refused_since:.1f} s{last}"
            )
        return f"broker {leader} returns no records, although the log ends at offset {self._end_of(state)}"
