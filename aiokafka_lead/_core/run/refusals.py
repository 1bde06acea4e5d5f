"""Decides how long `run` goes on although brokers refuse what it needs."""

from __future__ import annotations

from ..._options.logs import ClientLog
from ...config import ClientConfig
from ...errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    KafkaError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from ..backoff import Backoff

__all__ = ["REFUSALS", "Refusals"]

REFUSALS = (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    SaslAuthenticationFailedError,
    SslAuthenticationError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
"""Errors that may pass: a broker that has just started may not have its users and their rights yet."""

CALM_S = 10.0
"""Without a refusal for this long they have passed: what goes on to be refused is asked more often, heartbeats too."""


class Refusals:
    """Bears with the refusals of one run, from the first one until none has come for a while.

    Times are monotonic seconds.
    """

    def __init__(self, patience_ms: float, config: ClientConfig, log: ClientLog) -> None:
        """``patience_ms`` is how long refusals may go on; 0: they may not."""
        self._patience_s = patience_ms / 1000
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._log = log
        self._count = 0
        self._since = 0.0
        self._latest = 0.0
        self._text = ""

    def bear(self, error: KafkaError, now: float) -> float:
        """Return the seconds after which to ask again; raise the error if refusals have gone on for too long."""
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
            self._log.warning("run() goes on for up to %g s although it is refused: %s", self._patience_s, error)
        return min(left_s, self._backoff.delay_s(self._count))

    def passed(self, now: float) -> None:
        """Nothing was refused now: it has passed if that is so for a while."""
        if self._count and now >= self._latest + CALM_S:
            lasted_s = self._latest - self._since
            self._log.warning("run() is refused no longer: there were %d refusals in %.1f s", self._count, lasted_s)
            self._count = 0

    def look_ms(self, most_ms: float, now: float) -> float:
        """How long to look for records: not longer than until refusals have passed."""
        return min(most_ms, max(0.0, self._latest + CALM_S - now) * 1000) if self._count else most_ms

    def problem(self, now: float) -> str | None:
        """What a probe is to hear."""
        if not self._count or now >= self._latest + CALM_S:
            return None
        return f"brokers have refused for {now - self._since:.1f} s what run() needs, and are asked again: {self._text}"
