"""How long a broker keeps an authenticated connection, and what this client does before that (KIP-368)."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import random
from typing import NamedTuple

__all__ = ["ENDLESS", "Session", "session_of"]

MIN_SESSION_S = 1.0
"""Logins are this far apart, however short sessions are: else a client would do nothing but log in.

Where a session ends sooner, requests wait for the next login, since the broker would drop them.
"""

LEAST_USE_S = 0.05
"""A session is used for so long even if it is over sooner: only a request can show whether it is."""

MAX_LIFETIME_S = 366 * 24 * 3600.0
"""A session that is said to last longer is taken to last for this long."""

_RENEWED_FROM = 0.85
_RENEWED_UNTIL = 0.93
"""The part of a session after which the next connection is made: behind the time at which tokens are refreshed."""

_RETIRED_AT = 0.97
_LEAST_MARGIN_S, _LEAST_MARGIN_PART = 0.1, 1 / 3
"""What is left of a session after its last request, at least: this, or this part where it is short."""


class Session(NamedTuple):
    """Times are monotonic seconds."""

    renew_at: float
    """When to make the connection that takes over; infinity for a session that is too short for one."""
    retire_at: float
    """When to stop taking requests, though there be none to take over: beyond the end the broker answers nothing."""
    ends_at: float
    """When it ends, as the broker has said."""
    next_login_at: float
    """The next login does not begin before this, after a session that is too short; else 0."""


ENDLESS = Session(math.inf, math.inf, math.inf, 0.0)
"""That of a broker which does not end sessions, or of a connection without one."""


def session_of(lifetime_ms: int, asked_at: float, ready_at: float, rng: Callable[[], float] = random) -> Session:
    """From the broker's answer to what was asked at ``asked_at``; the connection takes requests from ``ready_at`` on.

    The times of clients, and of one client's connections, are spread, so that they do not all log in at once.
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
