"""The deadline of a call."""

from __future__ import annotations

import math
import time

from ..errors import KafkaError


class Deadline:
    """The end of a call's time, over all its waits. The time starts when this is created."""

    __slots__ = ("at", "failure", "failures", "request_timeout_ms", "timeout_ms", "unanswered")

    def __init__(self, timeout_ms: float, request_timeout_ms: float = math.inf) -> None:
        self.timeout_ms = timeout_ms
        """Total time."""
        self.request_timeout_ms = request_timeout_ms
        """Longest time of a single request of the call."""
        self.at = time.monotonic() + timeout_ms / 1000
        """The deadline, in ``time.monotonic()``."""
        self.failure: KafkaError | None = None
        """Error of the latest attempt, for a caller that tries until the deadline."""
        self.failures = 0
        """Number of failed attempts of such a caller."""
        self.unanswered: KafkaError | None = None
        """Error of the latest attempt that may have been executed without an answer."""

    def bring_forward(self, timeout_ms: float) -> bool:
        """End within this time from now, and return True; return False if there was less time left."""
        at = time.monotonic() + timeout_ms / 1000
        if at >= self.at:
            return False
        self.timeout_ms, self.at = timeout_ms, at
        return True

    def left_s(self) -> float:
        """Return the remaining seconds, at least 0."""
        return max(0.0, self.at - time.monotonic())

    def left_ms(self) -> float:
        """Return the remaining milliseconds, at least 0."""
        return self.left_s() * 1000

    def request_ms(self) -> int:
        """Return the next request's time, rounded up, so that no time is left after a request that uses it up."""
        return math.ceil(min(self.left_ms(), self.request_timeout_ms))

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return time.monotonic() >= self.at
