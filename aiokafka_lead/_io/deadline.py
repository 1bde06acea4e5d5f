"""The deadline of a call."""

from __future__ import annotations

import math
import time

from ..errors import KafkaConnectionError, KafkaError, RequestTimedOutError


class Deadline:
    """The deadline of a call, for all its waits. The time starts when the object is created."""

    __slots__ = ("at", "failure", "failures", "request_timeout_ms", "timeout_ms", "unanswered")

    def __init__(self, timeout_ms: float, request_timeout_ms: float = math.inf) -> None:
        self.timeout_ms = timeout_ms
        """The total time in milliseconds."""
        self.request_timeout_ms = request_timeout_ms
        """Time limit in milliseconds of a single request of the call."""
        self.at = time.monotonic() + timeout_ms / 1000
        """The deadline (``time.monotonic()``)."""
        self.failure: KafkaError | None = None
        """The error of the latest attempt that had enough time, or None; see `note_failure`."""
        self.failures = 0
        """Number of failed attempts. Set by the callers that use it."""
        self.unanswered: KafkaError | None = None
        """Error of the latest attempt that may have been executed without a response.

        Set by the callers that use it.
        """

    def bring_forward(self, timeout_ms: float) -> bool:
        """Reduce the remaining time to ``timeout_ms``. Return False if less time was left."""
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
        """Return the time limit of the next request in milliseconds.

        The limit is rounded up, so no time is left after a request that times out.
        """
        return math.ceil(min(self.left_ms(), self.request_timeout_ms))

    @property
    def passed(self) -> bool:
        """True if no time is left."""
        return time.monotonic() >= self.at

    def cut_short(self, error: KafkaError) -> bool:
        """Return True if an attempt that has just failed had too little time, so its error explains nothing."""
        return self.passed and isinstance(error, RequestTimedOutError | KafkaConnectionError)

    def note_failure(self, error: KafkaError) -> None:
        """Store the error of a failed attempt. If the attempt had too little time, keep the previous error."""
        if self.failure is None or not self.cut_short(error):
            self.failure = error
