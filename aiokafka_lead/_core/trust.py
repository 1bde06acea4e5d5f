"""Decides when something that answers is to be doubted: a leader, a coordinator, a broker, an address (rule 33).

Patience with each of them is right at first: elections, restarts and loading take seconds. It is bounded, and ends
with a question to somebody else: metadata or FindCoordinator from another broker, the leader in place of a follower,
the next address of a name. Doubt lasts until what is doubted does its work, and each refusal meanwhile asks again; how
often is up to the backoffs of those who ask.

Compiled through ``trust.pxd`` where a compiler is.
"""

from __future__ import annotations

__all__ = ["DOUBT_AFTER", "Trust", "patience_of"]

DOUBT_AFTER = 3
"""Refusals in a row after which whatever refuses is in doubt."""


def patience_of(retry_backoff_max_ms: float) -> float:
    """Return the seconds after which a first refusal leads to doubt, if not even `DOUBT_AFTER` came meanwhile."""
    return 2 * retry_backoff_max_ms / 1000


class Trust:
    """Counts how often, and since when, one thing that the client relies on has refused.

    Times are monotonic seconds. *Trust*: no refusal since the last success. *Patient*: some, and not in doubt yet.
    *Doubt*: `DOUBT_AFTER` refusals, or the patience has passed since the first.
    """

    __slots__ = ("refusals", "refused_since")

    def __init__(self) -> None:
        self.refusals = 0
        """Refusals in a row."""
        self.refused_since = 0.0
        """When the first of them was asked for. Valid while there are any."""

    def refused(self, asked_at: float, now: float, patience_s: float) -> bool:
        """Count a refusal of what was asked at ``asked_at``; return True if this leaves it in doubt."""
        if not self.refusals:
            self.refused_since = asked_at
        self.refusals += 1
        return self.in_doubt(now, patience_s)

    def in_doubt(self, now: float, patience_s: float) -> bool:
        """Return True if somebody else is to be asked."""
        if not self.refusals:
            return False
        return self.refusals >= DOUBT_AFTER or now - self.refused_since >= patience_s

    def confirmed(self) -> None:
        """Trust again: it did what it was asked for."""
        self.refusals = 0
