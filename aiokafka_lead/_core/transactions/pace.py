"""When a coordinator is asked whether it is done with the end of a transaction, before the next one's first batches.

It has the markers written, and then writes to its own log that it is done. A coordinator with nothing else to do sends
the latter to its followers only with the next request that it handles (``ActionQueue``). So a question that comes
before the markers are written is for nothing, and each moment that it comes after them is lost.
"""

from __future__ import annotations

import math

__all__ = ["EndPace"]

ENDED_FOR_SURE_S = 0.5
"""After this long nothing is at work any more on a transaction that has ended: by then followers have asked again for
what a coordinator with nothing else to do has not sent them (``replica.fetch.wait.max.ms``)."""

SHORTEST_S = 0.001
LONGEST_S = 0.02
"""As long as a broker waits that has to ask for the same (``add.partitions.to.txn.retry.backoff.ms``)."""

ENOUGH = 2
"""So many questions are needed where the first one comes when the markers are written."""

LATER = 1.25
SOONER = 0.9


class EndPace:
    """How long to wait with the first question: learnt from how many were needed."""

    def __init__(self) -> None:
        self._wait_s = SHORTEST_S
        self._ended_at = -math.inf

    def ended(self, now: float) -> None:
        """The coordinator has said that it commits or aborts; that goes on for a while."""
        self._ended_at = now

    def goes_on(self, now: float) -> bool:
        """Whether the coordinator may be at work on that transaction."""
        return now < self._ended_at + ENDED_FOR_SURE_S

    def left_s(self, now: float) -> float:
        """How long to wait before it is asked."""
        return max(0.0, self._ended_at + self._wait_s - now)

    def asked(self, times: int) -> None:
        """The coordinator said that the end is done in its answer to the question of this number, from 1 on."""
        factor = LATER if times > ENOUGH else SOONER
        self._wait_s = min(LONGEST_S, max(SHORTEST_S, self._wait_s * factor))
