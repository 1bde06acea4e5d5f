"""What is said again and again, said now and then."""

from __future__ import annotations

from collections.abc import Hashable

__all__ = ["Sparingly"]


class Sparingly:
    """Lets one through of many about the same, for each ``every_s`` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_at: dict[Hashable, float] = {}

    def allow(self, about: Hashable, now: float) -> bool:
        """Whether to say it now. Only what was said lately is kept."""
        self._said_at = {one: at for one, at in self._said_at.items() if now < at + self._every_s}
        return self._said_at.setdefault(about, now) == now
