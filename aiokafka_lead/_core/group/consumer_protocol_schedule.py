"""When a KIP-848 member sends its next heartbeat, and how long it waits for the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...config import ClientConfig
from ...errors import KafkaError, error_for_code
from ...errors.shown import shown
from ..backoff import Backoff

__all__ = ["AWAITED_PROBES", "PROBES", "PROBE_AFTER_S", "HeartbeatSchedule", "refusal"]

FIRST_INTERVAL_S = 3.0
"""Between heartbeats until a broker says how often it wants them (its default is 5 s)."""

SESSION_INTERVALS = 9
"""Only brokers know how long a session is. This number of heartbeat intervals, which brokers do tell, stands in for it,
as their defaults have it (``group.consumer.session.timeout.ms`` 45 s to 5 s), or ``session_timeout_ms`` if that is
longer: then no member counts as dead that is not."""

PROBES = 3
PROBE_AFTER_S = 0.5
"""Heartbeats that a new member sends early, as long as it has been assigned nothing, and the time between them.

A coordinator that has assigned less than ``group.consumer.assignment.interval.ms`` (1 s) ago gives a new member an
empty assignment first (KIP-1263), and its own with the next heartbeat, which is not due for 5 s."""

AWAITED_PROBES = 20
"""The same while a member of a share group has no partition of topics that have some: every member gets some as soon as
the coordinator has initialized their state, which takes seconds in a new cluster (KIP-932)."""

ANSWER_WITHIN_S = 10.0
"""A heartbeat without an answer is sent again after this, or after ``request_timeout_ms`` if that is less. A group's
shortest session is much longer."""


def refusal(response: Any, error: KafkaError | None) -> KafkaError | None:
    """Why a heartbeat was not accepted; None if it was. ``error``: why there is no answer."""
    if response is None:
        return error or KafkaError("a heartbeat of the group was not answered")
    if not response.error_code:
        return None
    return error_for_code(response.error_code)(shown(response.error_message or ""))


class HeartbeatSchedule:
    """One member's heartbeats: at the interval that the broker wants, earlier with news, later after failures."""

    def __init__(self, config: ClientConfig, rng: Callable[[], float], session_timeout_ms: float = 0) -> None:
        """``session_timeout_ms``: the shortest that a session is taken to be."""
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._session_timeout_s = session_timeout_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.due_at: float | None = None
        """When to send the next heartbeat."""
        self._hurried = False
        """There is something to tell: do not wait for the interval to pass."""
        self._sent_at = 0.0
        self._failures = 0
        self._interval_s = FIRST_INTERVAL_S
        self._probes = 0
        """Early heartbeats since it has joined."""
        self.probing = False
        """A new member may have an assignment that it has not heard of."""
        self._joined_at_epoch = 0

    @property
    def session_s(self) -> float:
        """No broker tells: see `SESSION_INTERVALS`."""
        return max(SESSION_INTERVALS * self._interval_s, self._session_timeout_s)

    @property
    def timeout_s(self) -> float:
        """How long to wait for a heartbeat's answer."""
        return min(self._request_timeout_s, max(ANSWER_WITHIN_S, 2 * self._interval_s))

    def begin(self, now: float) -> None:
        """Join, but not before the wait after a failure is over."""
        self.due_at = now if not self._failures else max(now, self.due_at or now)

    def hurry(self, now: float) -> None:
        """Send the next heartbeat now, or as soon as the one that is out has been answered."""
        self._hurried = True
        self.due_at = now

    def sent(self, now: float) -> None:
        """A heartbeat was sent, with everything that there is to tell."""
        self._sent_at = now
        self._hurried = False

    def joined(self, epoch: int) -> None:
        """The heartbeat that was sent is the first that the coordinator accepts."""
        self._joined_at_epoch = epoch
        self._probes = 0
        self.probing = True

    def accepted(self, interval_ms: int, epoch: int, *, has_target: bool, awaits_target: bool = False) -> None:
        """A heartbeat was answered without an error. ``awaits_target``: a later one is bound to bring partitions."""
        self._failures = 0
        if interval_ms > 0:
            self._interval_s = interval_ms / 1000
        if awaits_target:
            self.probing = self._probes < AWAITED_PROBES
        else:
            has_news = has_target or epoch != self._joined_at_epoch
            self.probing = self.probing and not has_news and self._probes < PROBES
        self._probes += self.probing
        interval_s = min(self._interval_s, PROBE_AFTER_S) if self.probing else self._interval_s
        self.due_at = self._sent_at + (0.0 if self._hurried else interval_s)

    def failed(self, now: float) -> None:
        """A heartbeat was refused, or not answered."""
        self._failures += 1
        self.due_at = now + self._backoff.delay_s(self._failures)

    def forgive(self) -> None:
        """The failures that there were are no reason to wait with joining."""
        self._failures = 0
