"""A rate limit for repeated messages."""

from __future__ import annotations

from collections.abc import Hashable


class Sparingly:
    """Allows one message about each subject within ``every_s`` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_at: dict[Hashable, float] = {}

    def allow(self, about: Hashable, now: float) -> bool:
        """Return True if a message about this may be given now; it then counts as given."""
        self._said_at = {one: at for one, at in self._said_at.items() if now < at + self._every_s}
        return self._said_at.setdefault(about, now) == now
