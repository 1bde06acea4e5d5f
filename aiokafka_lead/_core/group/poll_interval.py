"""Whether the application makes progress (``max_poll_interval_ms``, KIP-62)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["PollInterval"]


class PollInterval:
    """The time since the application last came for records. A read that waits makes progress, for it is not to blame.

    Without a group nobody asks when it expires.
    """

    __slots__ = ("_mark", "_progressed_at", "_waiting", "interval_s", "oldest_work")

    def __init__(self, interval_s: float, now: float) -> None:
        self.interval_s = interval_s
        self._progressed_at = now
        self._waiting = False
        """Whether the application is within a read."""
        self.oldest_work: Callable[[], float | None] | None = None
        """Set while records are handled in parallel to reads: when the handler that began first did; None if none is
        at work. Then only that counts."""
        self._mark: Any = None
        """How far the application was at the last `look`."""

    def progressed(self, now: float) -> None:
        """The application wants more, or has finished something."""
        self._progressed_at = now
        self._waiting = False

    def waits(self) -> None:
        """The application waits for records, until `progressed`."""
        self._waiting = True

    def look(self, mark: object, now: float) -> None:
        """Iteration hands out records without telling: another ``mark``, such as their number, is progress."""
        if mark != self._mark:
            self._mark = mark
            self._progressed_at = now

    def expires_at(self) -> float | None:
        """When the application has taken too long; None while it waits."""
        if self.oldest_work is not None:
            began_at = self.oldest_work()
            return None if began_at is None else began_at + self.interval_s
        return None if self._waiting else self._progressed_at + self.interval_s
