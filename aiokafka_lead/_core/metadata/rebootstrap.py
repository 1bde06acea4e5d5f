"""When to give up the brokers that are known and go back to the bootstrap servers (KIP-899, KIP-1102)."""

from __future__ import annotations

import math
from typing import Literal

from ..backoff import Backoff
from .metrics import RebootstrapCause

RecoveryStrategy = Literal["rebootstrap", "none"]


class RebootstrapPolicy:
    """Decides whether to bootstrap anew. The strategy "none" never does.

    Bootstraps in a row without an answer from a broker that they led to are spaced by the backoff, so that servers
    which name brokers that nobody can reach are not asked in a circle.
    """

    def __init__(self, strategy: RecoveryStrategy, trigger_ms: float, backoff: Backoff) -> None:
        self.enabled = strategy == "rebootstrap"
        self._trigger_s = trigger_ms / 1000
        self._backoff = backoff
        self._trying_since: float | None = None
        """The first attempt to get metadata since the last that succeeded."""
        self._cycles = 0
        """Bootstraps since a broker that is no bootstrap server has answered."""
        self._not_before = -math.inf

    def attempted(self, now: float) -> None:
        """Metadata is being asked for, or would be if there were anybody to ask."""
        if self._trying_since is None:
            self._trying_since = now

    def answered(self, *, by_bootstrap_server: bool) -> None:
        """Metadata was got."""
        self._trying_since = None
        if not by_bootstrap_server:
            self._cycles = 0
            self._not_before = -math.inf

    def times_out_at(self) -> float:
        """When metadata will have been tried for in vain for the trigger's time; infinite while nothing is tried."""
        if not self.enabled or self._trying_since is None:
            return math.inf
        return max(self._trying_since + self._trigger_s, self._not_before)

    def judge(self, now: float, *, reachable: bool, bootstrapping: bool) -> RebootstrapCause | None:
        """Why to bootstrap anew at this moment, or None.

        ``reachable``: some known broker is ready, connecting or can be connected to now. ``bootstrapping``: only the
        bootstrap servers are known, so that going back to them for want of others would change nothing.
        """
        if not self.enabled:
            return None
        if now >= self.times_out_at():
            return RebootstrapCause.TIMED_OUT
        if not reachable and not bootstrapping and now >= self._not_before:
            return RebootstrapCause.UNAVAILABLE
        return None

    def allowed_at(self) -> float:
        """The earliest moment of the next bootstrap for want of reachable brokers."""
        return self._not_before if self.enabled else math.inf

    def rebootstrapped(self, now: float) -> None:
        """The client went back to its bootstrap servers."""
        self._cycles += 1
        self._not_before = now + self._backoff.delay_s(self._cycles)
        self._trying_since = None
