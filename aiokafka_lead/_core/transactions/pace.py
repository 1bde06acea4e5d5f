"""Learns when to ask if the coordinator has finished a transaction, before the next one's first batches.

It has the markers written, and then records the end in its own log. An otherwise idle coordinator sends that record to
its followers only with the next request that it handles (``ActionQueue``). So a question before the markers are written
is useless, and each moment after that is lost.
"""

from __future__ import annotations

import math

ENDED_FOR_SURE_S = 0.5
"""After this time no work on an ended transaction is left: by then, followers have fetched again the record that an
otherwise idle coordinator has not sent them (``replica.fetch.wait.max.ms``)."""

SHORTEST_S = 0.001
LONGEST_S = 0.02
"""The same as the delay of a broker that has to repeat a request (``add.partitions.to.txn.retry.backoff.ms``)."""

ENOUGH = 2
"""Number of questions needed if the first one comes when the markers are written."""

LATER = 1.25
SOONER = 0.9


class EndPace:
    """The delay of the first question, learnt from the number of questions needed."""

    def __init__(self) -> None:
        self._wait_s = SHORTEST_S
        self._ended_at = -math.inf

    def ended(self, now: float) -> None:
        """Record that the coordinator has begun to commit or abort, which takes a while."""
        self._ended_at = now

    def goes_on(self, now: float) -> bool:
        """Return True if the coordinator may still be working on that transaction."""
        return now < self._ended_at + ENDED_FOR_SURE_S

    def left_s(self, now: float) -> float:
        """Return the time to wait before it is asked."""
        return max(0.0, self._ended_at + self._wait_s - now)

    def asked(self, times: int) -> None:
        """Learn from the number of questions, from 1 on, until the coordinator confirmed the end."""
        factor = LATER if times > ENOUGH else SOONER
        self._wait_s = min(LONGEST_S, max(SHORTEST_S, self._wait_s * factor))
