"""Health of a producer: a snapshot for probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ProducerFacts", "ProducerHealth", "judge_producer"]


@dataclass(frozen=True, slots=True)
class ProducerHealth:
    """State of a producer at one moment. Times are in milliseconds; None if there was no such event yet."""

    problems: tuple[str, ...]
    """Reasons why it is unhealthy, in words."""
    connected: bool
    """True if the cluster was ever reached: False after ``start(wait=False)`` while Kafka is down."""
    pending_ms: float | None
    """Age of the oldest record that is neither acknowledged nor given up; None if there is none."""
    since_ack_ms: float | None
    """Time since a broker last acknowledged records."""
    buffer_used: float
    """Fraction of ``buffer_memory`` in use."""
    sends_waiting: int
    """Number of calls that wait for ``buffer_memory``."""
    own_problems: tuple[str, ...] = ()
    """Problems of this process itself: all, except records unanswered while no broker can be reached, because a
    restarted process would not reach one either, and would lose its pending records."""
    reachable: bool = True
    """True if a broker can be reached."""

    @property
    def healthy(self) -> bool:
        """True if there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """True if the process should keep running. A liveness probe may restart it if this stays False."""
        return not self.own_problems


class ProducerFacts(NamedTuple):
    """Facts for the judgement, in seconds."""

    unusable: str | None
    """Reason why the producer cannot be used at all."""
    connected: bool
    since_start_s: float
    pending_s: float | None
    since_ack_s: float | None
    buffer_used: float
    sends_waiting: int
    reachable: bool
    """True if a broker is connected, and no connection to it has failed since."""


def judge_producer(facts: ProducerFacts, patience_s: float) -> ProducerHealth:
    """Return the snapshot, with a problem for anything that takes longer than ``patience_s``."""
    problems: list[str] = []
    silence_s = facts.since_start_s if facts.since_ack_s is None else facts.since_ack_s
    if facts.unusable is not None:
        problems.append(facts.unusable)
    elif facts.pending_s is not None and min(facts.pending_s, silence_s) > patience_s:
        problems.append(
            f"no broker has acknowledged records for {silence_s:.1f} s, and one has waited for {facts.pending_s:.1f} s"
        )
    elif not facts.connected and facts.since_start_s > patience_s:
        problems.append(f"the cluster could not be reached in {facts.since_start_s:.1f} s")
    own = problems if facts.reachable or facts.unusable is not None else []
    return ProducerHealth(
        problems=tuple(problems),
        connected=facts.connected,
        pending_ms=None if facts.pending_s is None else facts.pending_s * 1000,
        since_ack_ms=None if facts.since_ack_s is None else facts.since_ack_s * 1000,
        buffer_used=facts.buffer_used,
        sends_waiting=facts.sends_waiting,
        own_problems=tuple(own),
        reachable=facts.reachable,
    )
