"""Learns when to ask if the coordinator has finished a transaction, before the next transaction's first batches.

The coordinator has the markers written, and then records the end in its log. An otherwise idle coordinator sends that
record to its followers only with the next request that it handles (``ActionQueue``). So a question before the markers
are written is useless, and a later question loses time.
"""

from __future__ import annotations

import math

ENDED_FOR_SURE_S = 0.5
"""Seconds after which the coordinator has surely finished a transaction: by then, followers fetch again and get the
record that an otherwise idle coordinator has not sent them (``replica.fetch.wait.max.ms``)."""

SHORTEST_S = 0.001
LONGEST_S = 0.02
"""Longest delay in seconds, equal to a broker's delay before it repeats a request
(``add.partitions.to.txn.retry.backoff.ms``)."""

ENOUGH = 2
"""Number of questions needed if the first is asked when the markers have been written."""

LATER = 1.25
SOONER = 0.9


class EndPace:
    """Adapts the delay of the first question to the number of questions needed."""

    def __init__(self) -> None:
        self._wait_s = SHORTEST_S
        self._ended_at = -math.inf

    def ended(self, now: float) -> None:
        """Record that the coordinator has begun to commit or abort, which takes time."""
        self._ended_at = now

    def goes_on(self, now: float) -> bool:
        """Return True if the coordinator may still be working on that transaction."""
        return now < self._ended_at + ENDED_FOR_SURE_S

    def left_s(self, now: float) -> float:
        """Return the seconds to wait before the first question."""
        return max(0.0, self._ended_at + self._wait_s - now)

    def asked(self, times: int) -> None:
        """Adapt the delay; ``times`` is the number of questions, from 1 on, until the coordinator confirmed the end."""
        factor = LATER if times > ENOUGH else SOONER
        self._wait_s = min(LONGEST_S, max(SHORTEST_S, self._wait_s * factor))
