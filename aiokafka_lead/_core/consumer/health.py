"""Health of a consumer, and its lag: snapshots for probes and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ...types import TopicPartition

NOTHING_STUCK: Mapping[TopicPartition, str] = MappingProxyType({})

NAMED_AT_MOST = 20
"""Maximum number of stuck partitions listed in `ConsumerHealth.problems`."""

__all__ = ["ConsumerHealth", "ConsumerLag", "Facts", "Limits", "judge"]


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """Number of offsets that a consumer is behind, as of the last fetch of each partition."""

    partitions: Mapping[TopicPartition, int | None]
    """For each assigned partition, the offsets between the records already done and the end that this consumer may read
    to: the high watermark, or the last stable offset with "read_committed". None before the first answer."""
    total: int | None
    """Sum over all partitions; None while one of them is None."""


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """State of a consumer at one moment. Times are in milliseconds; None if there was no such event yet."""

    problems: tuple[str, ...]
    """Reasons why it is unhealthy, in words."""
    since_fetch_ms: float | None
    """Time since a broker last answered a fetch."""
    since_heartbeat_ms: float | None
    """Time since the group's coordinator last acknowledged a heartbeat."""
    joined: bool | None
    """True if it is a member of its group; None if the group does not assign its partitions."""
    kept_out: str | None
    """Reason why the group does not admit it yet, while it keeps trying: a problem after the session timeout."""
    coordinator: int | None
    """Node id of the group coordinator, if known."""
    handler_ms: float | None
    """Time since the application last came for records; within `Consumer.run`, the age of the oldest running handler.
    None while it waits for records."""
    blocked_ms: float
    """Duration of the last blocking of the event loop, at least seconds; 0 if there was none."""
    since_blocked_ms: float | None
    """Time since the end of that blocking."""
    absent: tuple[str, ...] = ()
    """Topics and partitions to read that do not exist in the cluster: a restart does not solve this problem."""
    own_problems: tuple[str, ...] = ()
    """Problems of this process itself: all, except unanswered requests while no broker can be reached, and temporary
    refusals by brokers: a restarted process would not fare better."""
    reachable: bool = True
    """True if a broker can be reached."""
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that have not advanced for ``request_timeout_ms``, although the application reads, and there are
    records or their broker is in trouble; each with its reason, which is also in ``problems``. A restarted process
    would meet the same brokers, so these are not in ``own_problems``."""

    coordinator_doubted_ms: float | None = None
    """Time since a broker last did a coordinator's work for the group; None while one does, or may soon. Beyond
    ``request_timeout_ms`` it is one of the ``problems``, with the answer of each broker asked, but not one of the
    ``own_problems``."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart it if this stays False."""
        return not self.own_problems


class Facts(NamedTuple):
    """Facts for the judgement, in seconds."""

    unusable: str | None
    """Reason why the consumer cannot be used at all."""
    hungry: bool
    """True if a call waits for records of partitions that can be fetched."""
    since_start_s: float
    since_fetch_s: float | None
    since_heartbeat_s: float | None
    grouped: bool
    """True if the group assigns the partitions."""
    joined: bool
    kept_out: str | None
    coordinator: int | None
    handler_s: float | None
    since_tick_s: float
    """Time since the event loop was last seen running."""
    blocked_s: float
    since_blocked_s: float | None
    reachable: bool
    """True if a broker is connected, and no connection to it has failed since."""
    absent: tuple[str, ...] = ()
    stuck: Mapping[TopicPartition, str] = NOTHING_STUCK
    refused: str | None = None
    """Refusals by brokers that `run` tolerates."""
    doubted_s: float | None = None
    """Time since the coordinator came into doubt; None if it is not."""
    doubted_for: str = ""
    """Answers of the brokers asked since."""


class Limits(NamedTuple):
    """Longest acceptable times, in seconds."""

    fetch_s: float
    heartbeat_s: float
    handler_s: float
    tick_s: float


def judge(facts: Facts, limits: Limits) -> ConsumerHealth:
    """Return the snapshot, with a problem for each time beyond its limit."""
    own: list[str] = []
    unanswered: list[str] = []
    if facts.unusable is not None:
        own.append(facts.unusable)
    else:
        unanswered = _unanswered(facts, limits)
        if facts.handler_s is not None and facts.handler_s > limits.handler_s:
            own.append(f"the application has been at work on what it got for {facts.handler_s:.1f} s")
        if facts.since_tick_s > limits.tick_s:
            own.append(f"the event loop has been blocked for {facts.since_tick_s:.1f} s")
    stuck = list(facts.stuck.values()) if facts.reachable else []  # else there is one reason for all of them
    if len(stuck) > NAMED_AT_MOST:
        stuck[NAMED_AT_MOST:] = [f"{len(stuck) - NAMED_AT_MOST} more partitions have not advanced"]
    refused = () if facts.refused is None else (facts.refused,)
    if facts.doubted_s is not None and facts.doubted_s > limits.fetch_s and facts.reachable:
        stuck.append(
            f"no broker has done the group coordinator's work for {facts.doubted_s:.1f} s: {facts.doubted_for}"
        )
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
    """Describe requests that brokers should have answered by now."""
    problems: list[str] = []
    fetch_s = facts.since_start_s if facts.since_fetch_s is None else facts.since_fetch_s
    if facts.hungry and fetch_s > limits.fetch_s:
        problems.append(f"no broker has answered a fetch for {fetch_s:.1f} s")
    heartbeat_s = facts.since_start_s if facts.since_heartbeat_s is None else facts.since_heartbeat_s
    if not facts.grouped or heartbeat_s <= limits.heartbeat_s:
        return problems
    if facts.kept_out is not None:
        problems.append(f"the consumer has not been let into its group for {heartbeat_s:.1f} s: {facts.kept_out}")
    else:
        who = "not found" if facts.coordinator is None else f"broker {facts.coordinator}"
        problems.append(f"the group coordinator ({who}) has not acknowledged a heartbeat for {heartbeat_s:.1f} s")
    return problems


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1000
