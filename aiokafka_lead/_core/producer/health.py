"""Whether a producer gets its records acknowledged: a snapshot for probes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["ProducerFacts", "ProducerHealth", "judge_producer"]


@dataclass(frozen=True, slots=True)
class ProducerHealth:
    """What a producer is doing, at one moment. Times are in milliseconds; None where there was nothing yet."""

    problems: tuple[str, ...]
    """Why it is not healthy, in words."""
    connected: bool
    """Whether the cluster was ever reached: False after ``start(wait=False)`` while Kafka is down."""
    pending_ms: float | None
    """How long the oldest record has waited that is neither acknowledged nor given up; None while there is none."""
    since_ack_ms: float | None
    """Since a broker last acknowledged records."""
    buffer_used: float
    """The share of ``buffer_memory`` in use."""
    sends_waiting: int
    """Calls that wait for ``buffer_memory``."""
    own_problems: tuple[str, ...] = ()
    """The problems that this process has by itself: all of them, but for what brokers leave unanswered while none can
    be reached, since a process that starts anew does not reach them either, and loses what is pending."""
    reachable: bool = True
    """Whether a broker can be reached."""

    @property
    def healthy(self) -> bool:
        """Whether there are no problems."""
        return not self.problems

    @property
    def live(self) -> bool:
        """Whether to leave the process alone. A liveness probe may restart it when this stays False."""
        return not self.own_problems


class ProducerFacts(NamedTuple):
    """What is known, in seconds."""

    unusable: str | None
    """Why the producer cannot be used at all."""
    connected: bool
    since_start_s: float
    pending_s: float | None
    since_ack_s: float | None
    buffer_used: float
    sends_waiting: int
    reachable: bool
    """Some broker is connected, and no connection to it has failed since."""


def judge_producer(facts: ProducerFacts, patience_s: float) -> ProducerHealth:
    """The snapshot, with what takes longer than ``patience_s``."""
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
