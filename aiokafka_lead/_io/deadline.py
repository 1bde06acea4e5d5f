"""The deadline of a call."""

from __future__ import annotations

import math
import time

from ..errors import KafkaConnectionError, KafkaError, RequestTimedOutError


class Deadline:
    """The deadline of a call for all its waits. Its time starts when this object is created."""

    __slots__ = ("at", "failure", "failures", "request_timeout_ms", "timeout_ms", "unanswered")

    def __init__(self, timeout_ms: float, request_timeout_ms: float = math.inf) -> None:
        self.timeout_ms = timeout_ms
        """Total time."""
        self.request_timeout_ms = request_timeout_ms
        """Time limit of a single request of the call."""
        self.at = time.monotonic() + timeout_ms / 1000
        """The deadline (``time.monotonic()``)."""
        self.failure: KafkaError | None = None
        """Error of the latest attempt that had enough time: see `note_failure`."""
        self.failures = 0
        """Number of failed attempts, set by these callers."""
        self.unanswered: KafkaError | None = None
        """Error of the latest attempt that may have been executed without an answer, set by these callers."""

    def bring_forward(self, timeout_ms: float) -> bool:
        """Shorten the remaining time to ``timeout_ms``; return False if less time was left."""
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
        """Return the time limit of the next request, rounded up so that no time is left after a request times out."""
        return math.ceil(min(self.left_ms(), self.request_timeout_ms))

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return time.monotonic() >= self.at

    def cut_short(self, error: KafkaError) -> bool:
        """Return True if an attempt that has just failed had too little time, so that its error is no reason."""
        return self.passed and isinstance(error, RequestTimedOutError | KafkaConnectionError)

    def note_failure(self, error: KafkaError) -> None:
        """Note the error of a failed attempt, unless it was cut short: then the previous error is the reason."""
        if self.failure is None or not self.cut_short(error):
            self.failure = error
