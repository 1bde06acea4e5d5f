"""Decides when to doubt a leader, a coordinator, a broker, or an address that answers (rule 33).

At first the client is patient: elections, restarts and loading take seconds. When its patience ends, it asks another
party: it requests metadata or FindCoordinator from another broker, fetches from the leader instead of a follower, or
connects to the next address of a name. Doubt lasts until the doubted party does its work, and each refusal until then
causes another request. The backoffs of the callers determine the rate.

Compiled through ``trust.pxd`` if a compiler is available.
"""

from __future__ import annotations

DOUBT_AFTER = 3
"""Number of consecutive refusals that lead to doubt."""


def patience_of(retry_backoff_max_ms: float) -> float:
    """Return the seconds after which a first refusal leads to doubt, even with fewer than `DOUBT_AFTER` refusals."""
    return 2 * retry_backoff_max_ms / 1000


class Trust:
    """Counts the refusals of one party that the client relies on, and keeps the time of the first.

    Times are monotonic seconds. *Trust*: no refusal since the last success. *Patience*: some refusals, but no doubt
    yet. *Doubt*: `DOUBT_AFTER` refusals, or the patience has passed since the first refusal.
    """

    __slots__ = ("refusals", "refused_since")

    def __init__(self) -> None:
        self.refusals = 0
        """Number of consecutive refusals."""
        self.refused_since = 0.0
        """Time of the request that was refused first. Valid if there are refusals."""

    def refused(self, asked_at: float, now: float, patience_s: float) -> bool:
        """Count the refusal of a request made at ``asked_at``; return True if this leads to doubt."""
        if not self.refusals:
            self.refused_since = asked_at
        self.refusals += 1
        return self.in_doubt(now, patience_s)

    def in_doubt(self, now: float, patience_s: float) -> bool:
        """Return True if another party should be asked."""
        if not self.refusals:
            return False
        return self.refusals >= DOUBT_AFTER or now - self.refused_since >= patience_s

    def confirmed(self) -> None:
        """Restore trust after a success."""
        self.refusals = 0
