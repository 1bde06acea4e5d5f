"""Decides when to stop relying on a leader, a coordinator, a broker, or an address (rule 33 of `_core.leadership`).

A *refusal* is a response, or a missing response, that does not help. At first the client is patient, because elections,
restarts and loading take seconds. When its patience ends, the party is *in doubt*, and the client asks another one: it
requests Metadata or FindCoordinator from another broker, fetches from the leader instead of a follower, or connects to
the next address of a name. The doubt lasts until the party does its work. Until then, each further refusal leads to
another such request. The backoffs of the callers limit the rate.

If a compiler is available, this code is compiled through ``trust.pxd``.
"""

from __future__ import annotations

DOUBT_AFTER = 3
"""Number of consecutive refusals after which a party is in doubt."""


def patience_of(retry_backoff_max_ms: float) -> float:
    """Return the seconds after the first refusal until a party is in doubt, even if it has refused less often."""
    return 2 * retry_backoff_max_ms / 1000


class Trust:
    """Counts the refusals of one party on which the client relies. Times are in monotonic seconds.

    The client trusts the party if it has not refused since the last success. After a refusal it is patient. The party
    is in doubt after `DOUBT_AFTER` refusals, or when the patience has ended since the first refusal.
    """

    __slots__ = ("refusals", "refused_since")

    def __init__(self) -> None:
        self.refusals = 0
        """Number of consecutive refusals."""
        self.refused_since = 0.0
        """Time of the first request that was refused. Valid if ``refusals`` is not 0."""

    def refused(self, asked_at: float, now: float, patience_s: float) -> bool:
        """Count the refusal of a request that was made at ``asked_at``. Return True if the party is now in doubt."""
        if not self.refusals:
            self.refused_since = asked_at
        self.refusals += 1
        return self.in_doubt(now, patience_s)

    def in_doubt(self, now: float, patience_s: float) -> bool:
        """Return True if the party is in doubt, so another one should be asked."""
        if not self.refusals:
            return False
        return self.refusals >= DOUBT_AFTER or now - self.refused_since >= patience_s

    def confirmed(self) -> None:
        """Record that the party has done its work. It is trusted again."""
        self.refusals = 0
