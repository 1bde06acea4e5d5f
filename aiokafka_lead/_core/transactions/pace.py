"""Learns how long to wait before asking if the coordinator has finished a transaction.

To end a transaction, the coordinator has transaction markers written to all partitions, and then writes the end to its
log. Until then, it refuses the next transaction's partitions. If it handles no other requests, it sends that last log
record to its followers only when the next request arrives (``ActionQueue``). A question before the markers are written
is therefore useless, and each moment after that is lost time.
"""

from __future__ import annotations

import math

ENDED_FOR_SURE_S = 0.5
"""Seconds after which the coordinator has certainly finished a transaction.

By then, its followers have fetched again and received the last log record (``replica.fetch.wait.max.ms``).
"""

SHORTEST_S = 0.001
LONGEST_S = 0.02
"""Longest delay in seconds.

It is equal to a broker's delay before it repeats such a request (``add.partitions.to.txn.retry.backoff.ms``).
"""

ENOUGH = 2
"""Number of questions needed if the first is asked just when the markers are written."""

LATER = 1.25
SOONER = 0.9


class EndPace:
    """Adapts the delay of the first question to the number of questions that were needed."""

    def __init__(self) -> None:
        self._wait_s = SHORTEST_S
        self._ended_at = -math.inf

    def ended(self, now: float) -> None:
        """Record that the coordinator has started to commit or abort, which takes time."""
        self._ended_at = now

    def goes_on(self, now: float) -> bool:
        """Return True if the coordinator may still be ending the last transaction."""
        return now < self._ended_at + ENDED_FOR_SURE_S

    def left_s(self, now: float) -> float:
        """Return the seconds to wait before the first question."""
        return max(0.0, self._ended_at + self._wait_s - now)

    def asked(self, times: int) -> None:
        """Adapt the delay. ``times`` is the number of questions until the coordinator had finished, at least 1."""
        factor = LATER if times > ENOUGH else SOONER
        self._wait_s = min(LONGEST_S, max(SHORTEST_S, self._wait_s * factor))
