"""Shares of the handlers for fresh records, and for records that wait aside: retries, and records of slow keys."""

from __future__ import annotations

TURNS = 10
"""With one handler, the number of records over which both kinds have their shares."""


class Shares:
    """Decides which kind of record is next, while records of both kinds wait.

    Both kinds have handlers of their own, at least one each. A kind without waiting records leaves its handlers to the
    other, and gets them back one by one as they finish. A single handler takes both kinds in turn.
    """

    def __init__(self, concurrency: int, share: float) -> None:
        """``share`` is the part of the handlers for records that wait aside, from 0 to 1."""
        self._single = concurrency == 1
        parts = TURNS if self._single else concurrency
        self._most = max(1, min(round(parts * share), parts - 1))
        self._running = 0
        self._turn = 0

    def aside_is_next(self) -> bool:
        """Return True if a record that waits aside is next; called for each record while both kinds wait."""
        if not self._single:
            return self._running < self._most
        self._turn = (self._turn + 1) % TURNS
        return self._turn < self._most

    def began(self) -> None:
        """Note that a record that has waited aside is being handled."""
        self._running += 1

    def ended(self) -> None:
        """Note that its handler has ended."""
        self._running -= 1
