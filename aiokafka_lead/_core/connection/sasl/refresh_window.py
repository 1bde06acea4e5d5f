"""When a token is fetched anew, ahead of its end (Java: ``ExpiringCredentialRefreshingLogin.refreshMs``)."""

from __future__ import annotations

from collections.abc import Callable
from random import random
from typing import NamedTuple

__all__ = ["RefreshWindow"]


class RefreshWindow(NamedTuple):
    """The ``sasl_login_refresh_*`` options."""

    factor: float
    """The part of a token's life after which it is refreshed."""
    jitter: float
    """The part that is added to it at most, at random."""
    min_period_s: float
    buffer_s: float

    def refresh_after_s(self, left_s: float, rng: Callable[[], float] = random) -> float:
        """How long to wait, from now that a token was fetched that ends in ``left_s``.

        Not before ``min_period_s``, and so that ``buffer_s`` of its life are left: neither counts where the token lives
        for less than both together.
        """
        proposed_s = left_s * (self.factor + self.jitter * rng())
        if self.min_period_s + self.buffer_s > left_s:
            return max(0.0, proposed_s)
        return min(max(proposed_s, self.min_period_s), left_s - self.buffer_s)
