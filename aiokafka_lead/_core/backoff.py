"""How long to wait before the next try (KIP-144, KIP-580)."""

from __future__ import annotations

from collections.abc import Callable
from random import random

__all__ = ["Backoff"]

JITTER = 0.2
"""A wait is spread by a fifth in both directions, so that clients that failed together do not come back together."""

_MAX_DOUBLINGS = 62
"""Beyond this any first wait has reached its longest; keeps the power small."""


class Backoff:
    """Exponential backoff with jitter: doubles from ``first_ms`` to ``longest_ms``, each wait spread by a fifth.

    ``rng`` returns a number in [0, 1); give a seeded one to replay.
    """

    __slots__ = ("first_ms", "longest_ms", "rng")

    def __init__(self, first_ms: float, longest_ms: float, rng: Callable[[], float] = random) -> None:
        self.first_ms = first_ms
        self.longest_ms = longest_ms
        self.rng = rng

    def delay_s(self, failures: int) -> float:
        """Seconds to wait after this number of failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        wait_ms = min(self.longest_ms, self.first_ms * 2.0 ** min(failures - 1, _MAX_DOUBLINGS))
        return wait_ms * (1 - JITTER + 2 * JITTER * self.rng()) / 1000
