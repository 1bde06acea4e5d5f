"""When a call has to be over."""

from __future__ import annotations

import math
import time

from ..errors import KafkaError

__all__ = ["Deadline"]


class Deadline:
    """The end of a call's time, over all that it waits for. It begins when this is made."""

    __slots__ = ("at", "failure", "request_timeout_ms", "timeout_ms")

    def __init__(self, timeout_ms: float, request_timeout_ms: float = math.inf) -> None:
        self.timeout_ms = timeout_ms
        """All of the time."""
        self.request_timeout_ms = request_timeout_ms
        """The longest that one request of the call may take."""
        self.at = time.monotonic() + timeout_ms / 1000
        """By ``time.monotonic()``."""
        self.failure: KafkaError | None = None
        """What the latest try failed with, for a caller that tries until the time is over."""

    def bring_forward(self, timeout_ms: float) -> bool:
        """End within this time from now on, and return True; return False if there was less time left."""
        at = time.monotonic() + timeout_ms / 1000
        if at >= self.at:
            return False
        self.timeout_ms, self.at = timeout_ms, at
        return True

    def left_s(self) -> float:
        """Seconds that are left, at least 0."""
        return max(0.0, self.at - time.monotonic())

    def left_ms(self) -> float:
        """Milliseconds that are left, at least 0."""
        return self.left_s() * 1000

    def request_ms(self) -> int:
        """How long the next request may take; rounded up, so that no time is left after one that takes all of it."""
        return math.ceil(min(self.left_ms(), self.request_timeout_ms))

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at
