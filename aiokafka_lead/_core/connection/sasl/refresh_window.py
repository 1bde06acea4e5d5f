"""The time at which a token is refreshed, before it expires (Java: ``ExpiringCredentialRefreshingLogin.refreshMs``)."""

from __future__ import annotations

from collections.abc import Callable
from random import random
from typing import NamedTuple

__all__ = ["RefreshWindow"]


class RefreshWindow(NamedTuple):
    """The ``sasl_login_refresh_*`` options."""

    factor: float
    """Fraction of a token's lifetime after which it is refreshed."""
    jitter: float
    """Largest fraction that is added to it at random."""
    min_period_s: float
    buffer_s: float

    def refresh_after_s(self, left_s: float, rng: Callable[[], float] = random) -> float:
        """Return the time to wait before the refresh of a token that expires in ``left_s``.

        At least ``min_period_s``, and so that ``buffer_s`` of its lifetime remain: both are ignored if the lifetime is
        shorter than their sum.
        """
        proposed_s = left_s * (self.factor + self.jitter * rng())
        if self.min_period_s + self.buffer_s > left_s:
            return max(0.0, proposed_s)
        return min(max(proposed_s, self.min_period_s), left_s - self.buffer_s)
