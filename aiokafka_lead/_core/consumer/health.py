"""Whether a consumer makes progress, and how far it is behind: snapshots for probes and gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from ...types import TopicPartition

NOTHING_STUCK: Mapping[TopicPartition, str] = MappingProxyType({})

NAMED_AT_MOST = 20
"""Stuck partitions that `ConsumerHealth.problems` names."""

__all__ = ["ConsumerHealth", "ConsumerLag", "Facts", "Limits", "judge"]


@dataclass(frozen=True, slots=True)
class ConsumerLag:
    """How many offsets a consumer is behind, as of the last fetch of each partition."""

    partitions: Mapping[TopicPartition, int | None]
    """For each assigned partition the offsets between what is done and the end that this consumer may read to: the
    high watermark, or the last stable offset with "read_committed". None before the first fetch was answered."""
    total: int | None
    """Of all partitions; None while one of them is None."""


@dataclass(frozen=True, slots=True)
class ConsumerHealth:
    """What a consumer is doing, at one moment. Times are in milliseconds; None where there was nothing yet."""

    problems: tuple[str, ...]
    """Why it is not healthy, in words."""
    since_fetch_ms: float | None
    """Since a broker last answered a fetch."""
    since_heartbeat_ms: float | None
    """Since the group's coordinator last acknowledged a heartbeat."""
    joined: bool | None
    """Whether it is a member of its group; None where the group does not assign its partitions."""
    kept_out: str | None
    """Why the group does not let it in yet, while it goes on trying: a problem once a session's time has passed."""
    coordinator: int | None
    """The group coordinator's node id, while it is known."""
    handler_ms: float | None
    """How long the application has been at work since it last came for records; within `Consumer.run`, how long the
    handler that began first has been. None while it waits for records."""
    blocked_ms: float
    """How long the event loop was blocked last, for seconds at least; 0 if it never was."""
    since_blocked_ms: float | None
    """Since the end of that."""
    absent: tuple[str, ...] = ()
    """Topics and partitions that are to be read, and that the cluster does not have: no problem that goes away by
    starting anew."""
    own_problems: tuple[str, ...] = ()
    """The problems that this process has by itself: all of them, but for what brokers leave unanswered while none can
    be reached, and what they refuse for a while: a process that starts again fares no better."""
    reachable: bool = True
    """Whether a broker can be reached."""
    stuck: Mapping[TopicPartition, str] = field(default_factory=dict)
    """Partitions that have not advanced for ``request_timeout_ms``, although somebody reads, and there are records or
    their broker is in trouble; each with its reason, which is among the ``problems``. A process that starts again would
    meet the same brokers, so that these are not its ``own_problems``."""

    coordinator_doubted_ms: float | None = None
    """How long no broker has done a coordinator's work for the group; None while one does, or may soon. Beyond
    ``request_timeout_ms`` it is among the ``problems``, with what each broker said that was asked; it is none of the
    ``own_problems``."""

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """Whether to leave the process alone. A liveness probe may restart it when this stays False."""
        return not self.own_problems


class Facts(NamedTuple):
    """What is known, in seconds."""

    unusable: str | None
    """Why the consumer cannot be used at all."""
    hungry: bool
    """Someone waits for records of partitions that can be fetched."""
    since_start_s: float
    since_fetch_s: float | None
    since_heartbeat_s: float | None
    grouped: bool
    """The group assigns the partitions."""
    joined: bool
    kept_out: str | None
    coordinator: int | None
    handler_s: float | None
    since_tick_s: float
    """Since the event loop was last seen to run."""
    blocked_s: float
    since_blocked_s: float | None
    reachable: bool
    """Some broker is connected, and no connection to it has failed since."""
    absent: tuple[str, ...] = ()
    stuck: Mapping[TopicPartition, str] = NOTHING_STUCK
    refused: str | None = None
    """What brokers refuse, and `run` bears with."""
    doubted_s: float | None = None
    """Since the coordinator came into doubt; None unless it is."""
    doubted_for: str = ""
    """What was said by the brokers that were asked since."""


class Limits(NamedTuple):
    """What is too long, in seconds."""

    fetch_s: float
    heartbeat_s: float
    handler_s: float
    tick_s: float


def judge(facts: Facts, limits: Limits) -> ConsumerHealth:
    """The snapshot, with what is too long."""
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
    """What brokers should have answered, and have not."""
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
