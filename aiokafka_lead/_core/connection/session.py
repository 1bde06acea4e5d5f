"""Lifetimes of authenticated connections, and the times at which the client replaces them (KIP-368)."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..._values import NamedTuple
from ..chance import random

MIN_SESSION_S = 1.0
"""Minimum interval of logins in seconds. If a session is shorter, requests wait for the next login.

Without this, a client with very short sessions would do nothing but log in.
"""

LEAST_USE_S = 0.05
"""Seconds for which a session is used even if it is shorter. Only a request can show if it has ended."""

MAX_LIFETIME_S = 366 * 24 * 3600.0
"""Maximum lifetime of a session in seconds. A longer one is reduced to this."""

_RENEWED_FROM = 0.85
_RENEWED_UNTIL = 0.93
"""Fraction of a session after which the next connection is opened. It is later than the refresh of tokens."""

_RETIRED_AT = 0.97
_LEAST_MARGIN_S, _LEAST_MARGIN_PART = 0.1, 1 / 3
"""Minimum remainder of a session after its last request: seconds, or a fraction if the session is short."""


class Session(NamedTuple):
    """The times of an authenticated connection, in monotonic seconds."""

    renew_at: float
    """Time at which to open the next connection. Infinity if the session is too short for that."""
    retire_at: float
    """Time from which no more requests are sent, even without another connection.

    After the end, brokers do not answer.
    """
    ends_at: float
    """End of the session, as the broker has announced it."""
    next_login_at: float
    """Earliest time of the next login if the session is too short, else 0."""


ENDLESS = Session(math.inf, math.inf, math.inf, 0.0)
"""The session of an unauthenticated connection, or of a broker that does not end sessions."""


def session_of(lifetime_ms: int, asked_at: float, ready_at: float, rng: Callable[[], float] = random) -> Session:
    """Return the times of a session, given the response to a request that was sent at ``asked_at``.

    ``ready_at`` is the time at which the connection became ready. The times vary randomly between clients and
    connections, so that their logins do not coincide.
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
