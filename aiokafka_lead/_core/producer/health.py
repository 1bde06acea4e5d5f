"""The health of a producer, as a snapshot for probes."""

from __future__ import annotations

from ..._values import NamedTuple
from ...health import ProducerHealth


class ProducerFacts(NamedTuple):
    """The facts that `judge_producer` uses. Times are in seconds."""

    unusable: str | None
    """The reason why the producer cannot be used at all, or None."""
    connected: bool
    since_start_s: float
    pending_s: float | None
    since_ack_s: float | None
    buffer_used: float
    sends_waiting: int
    reachable: bool
    """True if a broker is connected, and no connection to it has failed since."""


def judge_producer(facts: ProducerFacts, patience_s: float) -> ProducerHealth:
    """Return the producer's health, with a problem for everything that takes longer than ``patience_s``."""
    problems: list[str] = []
    silence_s = facts.since_start_s if facts.since_ack_s is None else facts.since_ack_s
    if facts.unusable is not None:
        problems.append(facts.unusable)
    elif facts.pending_s is not None and min(facts.pending_s, silence_s) > patience_s:
        problems.append(
            f"no broker has acknowledged records for {silence_s:.1f} s; a record has waited for {facts.pending_s:.1f} s"
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
