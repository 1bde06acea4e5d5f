"""Time limits for brokers that refuse requests of `run`, and for a schema registry that is unavailable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ... import errors
from ..._options.logs import ClientLog
from ...config import ClientConfig
from ...errors.shown import shown_cause
from ..backoff import Backoff
from .options import leaves

REFUSALS = (
    errors.ClusterAuthorizationFailedError,
    errors.GroupAuthorizationFailedError,
    errors.SaslAuthenticationFailedError,
    errors.SslAuthenticationError,
    errors.TopicAuthorizationFailedError,
    errors.TransactionalIdAuthorizationFailedError,
)
"""Errors that may be temporary, because a broker that has just started may not have loaded its users and ACLs yet."""

CALM_S = 10.0
"""Seconds without a refusal after which the refusals count as past.

Refused requests, including heartbeats, are retried more often than that.
"""


class Refusals:
    """Tolerates brokers' refusals in one run, from the first one until there has been none for `CALM_S`.

    Times are in monotonic seconds.
    """

    def __init__(self, patience_ms: float, config: ClientConfig, log: ClientLog) -> None:
        """Start without refusals. They are tolerated for ``patience_ms``. 0 tolerates none."""
        self._patience_s = patience_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._log = log
        self._count = 0
        self._since = 0.0
        self._latest = 0.0
        self._text = ""

    def concerns(self, error: BaseException) -> bool:
        """Return True if this error is a refusal by brokers and the run tolerates refusals."""
        return self._patience_s > 0 and isinstance(error, REFUSALS)

    def bear(self, error: errors.KafkaError, now: float) -> float:
        """Return the seconds after which to retry. If the refusals have lasted for too long, raise the error."""
        self.passed(now)
        if not self._count:
            self._since = now
        left_s = self._since + self._patience_s - now
        if left_s <= 0:
            raise error
        self._count += 1
        self._latest = now
        self._text = str(error)
        if self._count == 1:
            self._log.warning(
                "brokers refuse requests of run(), which retries for up to %g s: %s", self._patience_s, error
            )
        return min(left_s, self._backoff.delay_s(self._count))

    def passed(self, now: float) -> None:
        """Record a success. If there was no refusal for `CALM_S`, forget the earlier ones and log this."""
        if self._count and now >= self._latest + CALM_S:
            lasted_s = self._latest - self._since
            self._log.warning(
                "brokers accept requests of run() again, after %d refusals in %.1f s", self._count, lasted_s
            )
            self._count = 0

    def look_ms(self, most_ms: float, now: float) -> float:
        """Return the milliseconds to wait for records.

        The wait ends no later than the time at which the refusals count as past.
        """
        return min(most_ms, max(0.0, self._latest + CALM_S - now) * 1000) if self._count else most_ms

    def problem(self, now: float) -> str | None:
        """Return a description of the current refusals for a probe, or None if there are none."""
        if not self._count or now >= self._latest + CALM_S:
            return None
        return f"brokers have refused requests of run() for {now - self._since:.1f} s, and it retries: {self._text}"


class Outages:
    """Tolerates a schema registry that is unavailable. Records wait for it and are retried any number of times.

    Times are in monotonic seconds.
    """

    def __init__(
        self, patience_ms: float | None, config: ClientConfig, log: ClientLog, waits: Callable[[Any], bool]
    ) -> None:
        """Start without an outage. An outage is tolerated for ``patience_ms``. None means no limit.

        ``waits`` returns True for a record that is in hand but not being handled.
        """
        self._patience_s = math.inf if patience_ms is None else patience_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, max(config.retry_backoff_max_ms, TRIES_APART_MS))
        self._log = log
        self._waits = waits
        self._waiting: list[Any] = []
        self._since = 0.0
        self._tries = 0
        self._next_at = 0.0
        self._text = ""

    def bear(self, record: Any, error: BaseException, now: float) -> float | None:
        """Let a record wait, and return the seconds until all waiting records are retried.

        Returns None if the outage has lasted longer than tolerated. The run must then end with ``error``.
        """
        self.passed(now)
        if not self._waiting:
            self._since, self._tries, self._next_at = now, 0, now
            self._log.warning("records wait for a schema registry, and will be retried: %s", shown_cause(error, str))
        self._waiting.append(record)
        self._text = shown_cause(error, str)
        until = self._since + self._patience_s
        if now >= until:
            return None
        if now >= self._next_at:
            self._waiting = [record, *filter(self._waits, self._waiting[:-1])]
            self._tries += 1
            self._next_at = now + self._backoff.delay_s(self._tries)
        return min(self._next_at, until) - now

    def passed(self, now: float) -> None:
        """End the outage and log this, if none of its records is waiting any longer."""
        if self._waiting and not any(map(self._waits, self._waiting)):
            self._waiting = []
            self._log.warning("records no longer wait for a schema registry, after %.1f s", now - self._since)

    def problem(self, now: float) -> str | None:
        """Return a description of the current outage for a probe, or None if there is none."""
        self.passed(now)
        if not self._waiting:
            return None
        return f"records have waited for a schema registry for {now - self._since:.1f} s: {self._text}"


TRIES_APART_MS = 5_000.0
"""Minimum in milliseconds of the longest backoff between attempts."""


def is_outage(error: BaseException) -> bool:
    """Return True if a schema registry has prevented a record from being read, or its handler from sending.

    The record and its handler may be fine, so the attempt does not count.
    """
    if isinstance(error, errors.RecordDeserializationError):
        return not error.lasts
    for leaf in leaves(error):
        for each in (leaf, leaf.__cause__):
            if isinstance(each, errors.SchemaRegistryError) and each.at_fault:
                return True
    return False
