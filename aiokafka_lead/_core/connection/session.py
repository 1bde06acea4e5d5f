"""Lifetimes of authenticated connections, and when this client replaces them (KIP-368)."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._values import NamedTuple
from ..chance import random

MIN_SESSION_S = 1.0
"""Minimum interval of logins in seconds: with very short sessions, a client would otherwise only log in.

If a session ends sooner, requests wait for the next login, because the broker would drop them.
"""

LEAST_USE_S = 0.05
"""Seconds for which a session is used even if it ends sooner: only a request can show whether it has ended."""

MAX_LIFETIME_S = 366 * 24 * 3600.0
"""A longer announced lifetime is reduced to this."""

_RENEWED_FROM = 0.85
_RENEWED_UNTIL = 0.93
"""Fraction of a session after which the next connection is opened: later than the refresh of tokens."""

_RETIRED_AT = 0.97
_LEAST_MARGIN_S, _LEAST_MARGIN_PART = 0.1, 1 / 3
"""Minimum rest of a session after its last request: this time in seconds, or this fraction of a short session."""


class Session(NamedTuple):
    """Times of a session, in monotonic seconds."""

    renew_at: float
    """Time to open the connection that takes over; infinity for a session that is too short for that."""
    retire_at: float
    """Time to stop accepting requests, even without another connection: after the end the broker does not answer."""
    ends_at: float
    """End of the session, as announced by the broker."""
    next_login_at: float
    """Earliest time of the next login, after a session that is too short; else 0."""


ENDLESS = Session(math.inf, math.inf, math.inf, 0.0)
"""The session of a broker that does not end sessions, or of an unauthenticated connection."""


def session_of(lifetime_ms: int, asked_at: float, ready_at: float, rng: Callable[[], float] = random) -> Session:
    """Compute the times from the answer to a request sent at ``asked_at``; the connection is ready at ``ready_at``.

    The times of clients, and of one client's connections, vary, so that logins do not coincide.
    """
    if lifetime_ms <= 0:
        return ENDLESS
    lifetime_s = min(lifetime_ms / 1000, MAX_LIFETIME_S)
    ends_at = asked_at + lifetime_s
    margin_s = max(lifetime_s * (1 - _RETIRED_AT), min(_LEAST_MARGIN_S, lifetime_s * _LEAST_MARGIN_PART))
    retire_at = max(ready_at + LEAST_USE_S, ends_at - margin_s)
    next_login_at = ready_at + MIN_SESSION_S
    renew_from = max(next_login_at, asked_at + lifetime_s * _RENEWED_FROM)
    if renew_from >= retire_at:
        return Session(math.inf, retire_at, ends_at, next_login_at)
    renew_until = max(renew_from, min(retire_at, asked_at + lifetime_s * _RENEWED_UNTIL))
    return Session(renew_from + (renew_until - renew_from) * rng(), retire_at, ends_at, 0.0)
