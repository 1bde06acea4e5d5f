"""When a classic member tries again and sends its next heartbeat, and how long it waits for answers."""

from __future__ import annotations

from collections.abc import Callable

from ...config import ConsumerConfig
from ..backoff import Backoff
from .classic_requests import rebalance_timeout_ms, revoke_timeout_s

__all__ = ["ClassicSchedule"]

ANSWER_BEYOND_S = 5.0
"""How much longer than a rebalance may take its answers are waited for (as in Java)."""


class ClassicSchedule:
    """One member's times: all in seconds, by the clock of its steps."""

    def __init__(self, config: ConsumerConfig, rng: Callable[[], float]) -> None:
        request_s = config.request_timeout_ms / 1000
        self.request_s = request_s
        """How long a request is waited for that the coordinator answers at once."""
        self.answer_s = max(request_s, rebalance_timeout_ms(config) / 1000 + ANSWER_BEYOND_S)
        """How long one is waited for that it answers when all members are there."""
        self.revoke_s = revoke_timeout_s(config)
        """How long the work in hand may take when partitions are given up."""
        self.heartbeat_timeout_s = min(config.session_timeout_ms / 1000, request_s)
        """How long a heartbeat is waited for: after the session timeout the answer would change nothing."""
        self._interval_s = config.heartbeat_interval_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self._failures = 0
        self.retry_at = 0.0
        """Not before this the member asks to join again."""
        self.heartbeat_at = 0.0
        """When the next heartbeat is due, unless one is out."""
        self.heartbeat_out = False

    def failed(self, now: float) -> None:
        """A request to join or to synchronise was in vain."""
        self._failures += 1
        self.retry_at = now + self._backoff.delay_s(self._failures)

    def succeeded(self) -> None:
        """The member has its assignment."""
        self._failures = 0

    def joined(self, now: float) -> None:
        """JoinGroup was answered, which counts as a heartbeat."""
        self.heartbeat_at = now + self._interval_s

    def sends(self, now: float) -> None:
        """A heartbeat goes out."""
        self.heartbeat_out = True
        self.heartbeat_at = now + self._interval_s

    def unanswered(self, now: float) -> None:
        """A heartbeat failed: the next one is due sooner."""
        self.heartbeat_at = min(self.heartbeat_at, now + self._backoff.delay_s(1))
