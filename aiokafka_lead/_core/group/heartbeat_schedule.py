"""When members whose only requests are heartbeats send them, in KIP-848 groups and in share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable

from ...config import ClientConfig
from ..backoff import Backoff

FIRST_INTERVAL_S = 3.0
"""Interval of heartbeats in seconds until a broker has specified it. Brokers' default is 5 s."""

INTERVALS_S = (0.05, 60.0)
"""Shortest and longest heartbeat interval in seconds that are accepted from a broker.

Brokers allow 5 to 15 s by default. Shorter intervals are wasteful. With longer intervals, a member could go on reading
partitions that other members already own.
"""

SESSION_INTERVALS = 9
"""Session timeout as a multiple of the heartbeat interval.

Brokers send the interval but not the session timeout. This is the ratio of their defaults: 45 s for
``group.consumer.session.timeout.ms``, and 5 s. If ``session_timeout_ms`` is longer, it is used instead, so that no live
member is considered dead.
"""

PROBES = 4
"""Number of early heartbeats of a new member without an assignment.

The intervals between them start at ``retry_backoff_ms`` and double.

If a coordinator has computed an assignment within the last ``group.consumer.assignment.interval.ms`` (1 s), it first
gives a new member an empty assignment (KIP-1263). The response to the next heartbeat contains the real one, but that
heartbeat would be due only after 5 s. In a classic group, a new member gets partitions once the members that give them
up have joined again. An early heartbeat shows when they have.
"""

AWAITED_PROBES = 20
"""Number of early heartbeats of a share group member without partitions, if its topics have partitions.

It gets partitions once the coordinator has initialized their state, which takes seconds in a new cluster (KIP-932).
"""

ANSWER_WITHIN_S = 10.0
"""Seconds after which an unanswered heartbeat is repeated, unless ``request_timeout_ms`` is shorter.

The shortest possible session timeout of a group is much longer.
"""


class HeartbeatSchedule:
    """Decides when one member sends heartbeats.

    They are sent at the broker's interval, earlier if there are changes, and later after failures.
    """

    def __init__(self, config: ClientConfig, rng: Callable[[], float], session_timeout_ms: float = 0) -> None:
        """Start without a due heartbeat. ``session_timeout_ms`` is the minimum for the estimated session timeout."""
        self._request_timeout_s = config.request_timeout_ms / 1000
        self._session_timeout_s = session_timeout_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.due_at: float | None = None
        """Time of the next heartbeat."""
        self._hurried = False
        """True if there are changes to send. The next heartbeat then does not wait for the interval."""
        self._sent_at = 0.0
        self.failures = 0
        """Number of consecutive heartbeats that have failed."""
        self._interval_s = FIRST_INTERVAL_S
        self._probes = 0
        """Number of early heartbeats since the member joined."""
        self.probing = False
        """True while a member that is new, or has new topics, may not have received its assignment yet."""
        self._joined_at, self._joined_at_epoch = 0.0, 0

    @property
    def session_s(self) -> float:
        """Estimated session timeout in seconds (see `SESSION_INTERVALS`)."""
        return max(SESSION_INTERVALS * self._interval_s, self._session_timeout_s)

    @property
    def timeout_s(self) -> float:
        """Time limit in seconds for the response to a heartbeat."""
        return min(self._request_timeout_s, max(ANSWER_WITHIN_S, 2 * self._interval_s))

    def begin(self, now: float) -> None:
        """Schedule the first heartbeat for now, or for the end of the backoff after a failure."""
        self.due_at = now if not self.failures else max(now, self.due_at or now)

    def hurry(self, now: float) -> None:
        """Send the next heartbeat now, or as soon as the one in flight has been answered."""
        self._hurried = True
        self.due_at = now

    def sent(self, now: float) -> None:
        """Record the time at which a heartbeat was sent. It contains all changes, so it also ends a `hurry`."""
        self._sent_at = now
        self._hurried = False

    def joined(self, epoch: int) -> None:
        """Send the next heartbeats early, because the coordinator has accepted a new member or new topics.

        They stop being early when a response contains partitions or another epoch.
        """
        self._joined_at, self._joined_at_epoch = self._sent_at, epoch
        self._probes = 0
        self.probing = True

    def accepted(self, interval_ms: int, epoch: int, *, has_target: bool, awaits_target: bool = False) -> None:
        """Schedule the next heartbeat after an accepted one.

        ``interval_ms`` is the interval in the response. ``awaits_target`` is True if a later response will contain
        partitions, so heartbeats are sent early.
        """
        self.failures = 0
        if interval_ms > 0:
            self._interval_s = min(max(interval_ms / 1000, INTERVALS_S[0]), INTERVALS_S[1])
        if awaits_target:
            self.probing = self._probes < AWAITED_PROBES
        else:
            has_news = has_target or epoch != self._joined_at_epoch
            self.probing = self.probing and not has_news and self._probes < PROBES
        self._probes += self.probing
        interval_s = min(self._interval_s, self._backoff.delay_s(self._probes)) if self.probing else self._interval_s
        self.due_at = self._sent_at + (0.0 if self._hurried else interval_s)

    def failed(self, now: float) -> None:
        """Count a heartbeat that was refused or not answered. The next one is due after a backoff."""
        self.failures += 1
        self.due_at = now + self._backoff.delay_s(self.failures)

    def removed(self, now: float) -> None:
        """Record that the coordinator has removed the member, which joins again immediately.

        A member that had just joined waits first, because it may be removed repeatedly.
        """
        if now >= self._joined_at + self._backoff.longest_ms / 1000:
            self.forgive()

    def forgive(self) -> None:
        """Forget earlier failures, so they do not delay joining."""
        self.failures = 0
