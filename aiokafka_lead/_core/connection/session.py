"""How long a broker keeps an authenticated connection, and what this client does before that (KIP-368)."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import random
from typing import NamedTuple

__all__ = ["ENDLESS", "Session", "session_of"]

MIN_SESSION_S = 1.0
"""A connection is used for this long at least, however short its session: else a client would do nothing but log in."""

MAX_LIFETIME_S = 366 * 24 * 3600.0
"""A session that is said to last longer is taken to last for this long."""

_RENEWED_FROM = 0.85
_RENEWED_UNTIL = 0.93
"""The part of a session after which the next connection is made: behind the time at which tokens are refreshed."""

_RETIRED_AT = 0.97


class Session(NamedTuple):
    """Times are monotonic seconds."""

    renew_at: float
    """When to make the connection that takes over."""
    retire_at: float
    """When to stop taking requests, though there be none to take over: beyond the end the broker answers nothing."""
    ends_at: float
    """When it ends, as the broker has said."""


ENDLESS = Session(math.inf, math.inf, math.inf)
"""That of a broker which does not end sessions, or of a connection without one."""


def session_of(lifetime_ms: int, begun_at: float, ready_at: float, rng: Callable[[], float] = random) -> Session:
    """From what the broker has said at ``begun_at``, for a connection that takes requests from ``ready_at`` on.

    The times of clients, and of one client's connections, are spread, so that they do not all log in at once.
    """
    if lifetime_ms <= 0:
        return ENDLESS
    lifetime_s = min(lifetime_ms / 1000, MAX_LIFETIME_S)
    part = _RENEWED_FROM + (_RENEWED_UNTIL - _RENEWED_FROM) * rng()
    first = ready_at + MIN_SESSION_S
    retire_at = max(first, begun_at + lifetime_s * _RETIRED_AT)
    return Session(max(first, begun_at + lifetime_s * part), retire_at, begun_at + lifetime_s)
