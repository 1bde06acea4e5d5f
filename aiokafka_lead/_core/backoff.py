"""Delays between attempts (KIP-144, KIP-580), and a rate limit for repeated messages."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from ..errors import KafkaError, MisroutedConnectionError
from .chance import random

JITTER = 0.2
"""Fraction by which delays vary in both directions, so that clients that failed together do not retry together."""

_MAX_DOUBLINGS = 62
"""Limit of the exponent. After this number of doublings, any first delay has reached the maximum."""


class Backoff:
    """Exponential backoff with jitter.

    The delay doubles from ``first_ms`` to ``longest_ms``, and varies randomly by up to a fifth. ``rng`` returns a
    number in [0, 1). Pass a seeded generator for reproducible delays.
    """

    __slots__ = ("first_ms", "longest_ms", "rng")

    def __init__(self, first_ms: float, longest_ms: float, rng: Callable[[], float] = random) -> None:
        self.first_ms = first_ms
        self.longest_ms = longest_ms
        self.rng = rng

    def delay_s(self, failures: int) -> float:
        """Return the seconds to wait after this number of consecutive failures. 0 if there are none."""
        if failures <= 0:
            return 0.0
        wait_ms = min(self.longest_ms, self.first_ms * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
        return wait_ms * (1 - JITTER + 2 * JITTER * self.rng()) / 1000

    def after_s(self, error: KafkaError | None, failures: int) -> float:
        """Return the seconds to wait after this number of consecutive failures, of which the last had this error.

        For a misrouted connection, it is the first delay. Such a connection is refused before anything is sent, and its
        address has its own backoff. A second growing backoff would only delay the return to the right broker.
        """
        return self.delay_s(min(1, failures) if isinstance(error, MisroutedConnectionError) else failures)


class Sparingly:
    """Allows at most one message about each subject within ``every_s`` seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._said_at: dict[Hashable, float] = {}

    def allow(self, about: Hashable, now: float) -> bool:
        """Return True if a message about this subject may be logged now, and count it as logged."""
        self._said_at = {one: at for one, at in self._said_at.items() if now < at + self._every_s}
        return self._said_at.setdefault(about, now) == now
