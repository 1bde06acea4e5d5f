"""When to ask the cluster for metadata.

Three reasons lead to a refresh: the view is ``metadata_max_age_ms`` old; somebody asked for it, because an error or a
leader hint showed that leaders moved; or the last answer left something open (a partition without leader, an answer
older than what is known). They all share one refresh at a time: whatever is asked for while one is under way causes one
more, and no more than that (LEADERSHIP 21).

How long the next one waits depends on what the last ones brought. One that told something new may be followed quickly,
for leaders move in bursts. Answers that bring nothing new wait twice as long each time, as do failures. Brokers that
contradict each other for a while tell something new each time: that is why such news shorten the wait only so far.
"""

from __future__ import annotations

import math

from ..backoff import Backoff

FIRST_SPACING_MS = 10.0
"""The wait after an answer that brought something, and the first of those after answers that did not."""


CONTRADICTED = 3
"""Answers with news that leave something open count as so many without: the next one waits 80 ms at most."""


class RefreshSchedule:
    """Decides when the next refresh is due. One refresh at a time: `started`, then `succeeded` or `failed`."""

    def __init__(self, max_age_ms: float, retry_backoff: Backoff) -> None:
        self._max_age_s = max_age_ms / 1000
        self._retry_backoff = retry_backoff
        self._spacing = Backoff(
            min(FIRST_SPACING_MS, retry_backoff.first_ms), retry_backoff.longest_ms, retry_backoff.rng
        )
        self._wanted = True
        """Somebody asked for a refresh that has not started yet."""
        self._under_way: float | None = None
        """When the running refresh started."""
        self._expires = -math.inf
        """When what is known becomes too old."""
        self._not_before = -math.inf
        self._failures = 0
        """Refreshes in a row that got no answer."""
        self._repeats = 0
        """Answers in a row that brought nothing new."""

    @property
    def failures(self) -> int:
        """Refreshes in a row that got no answer."""
        return self._failures

    def request(self) -> None:
        """Ask for a refresh as soon as the spacing allows."""
        self._wanted = True

    def due_at(self) -> float:
        """When the next refresh is due; infinite while one is under way."""
        if self._under_way is not None:
            return math.inf
        return max(-math.inf if self._wanted else self._expires, self._not_before)

    def lookup_at(self, wanted_at: float) -> float:
        """When topics that are not known yet may be asked for: only failures and a refresh under way hold them back."""
        if self._under_way is not None:
            return math.inf
        return max(wanted_at, self._not_before) if self._failures else wanted_at

    def started(self, now: float, *, full: bool = True) -> None:
        """A refresh begins; what is asked for from now on causes another. A partial one (``full`` is false) looks up
        single topics and does not count as the refresh that was asked for."""
        if full:
            self._wanted = False
        self._under_way = now

    def succeeded(self, now: float, *, changed: bool, settled: bool, full: bool = True) -> None:
        """The refresh was answered; ``changed`` and ``settled`` are those of `metadata.Applied`."""
        took = self._finish(now)
        self._failures = 0
        if not settled:
            self._wanted = True
        if not full:
            return
        self._expires = now + self._max_age_s
        if (changed and settled) or now - self._not_before > self._spacing.longest_ms / 1000:
            # The second: long after the last answers without news, this one begins a new row.
            self._repeats = 0
        elif changed:
            self._repeats = min(self._repeats, CONTRADICTED)
        self._repeats += 1
        # Never closer together than they take: large answers must not keep the event loop busy.
        self._not_before = now + max(took, self._spacing.delay_s(self._repeats))

    def failed(self, now: float) -> None:
        """Nobody answered: try again after the backoff."""
        self._finish(now)
        self._failures += 1
        self._wanted = True
        self._not_before = now + self._retry_backoff.delay_s(self._failures)

    def _finish(self, now: float) -> float:
        assert self._under_way is not None
        took = now - self._under_way
        self._under_way = None
        return took
