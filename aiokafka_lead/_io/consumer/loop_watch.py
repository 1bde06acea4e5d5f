"""Detects a blocked event loop, which can send neither heartbeats nor fetches."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from ..._options.logs import ClientLog

TICK_S = 0.25
"""Interval between looks at the clock."""


class LoopWatch:
    """Task that sleeps for `TICK_S` at a time; if it wakes late, the event loop was blocked.

    ``remember`` is called before each sleep. ``starved`` gets the length of the blockage and the time, and describes
    the requests that were held up. It has to rely on the remembered state: other tasks may have run since the blockage
    ended.
    """

    def __init__(
        self, warn_after_s: float, remember: Callable[[], None], starved: Callable[[float, float], str], log: ClientLog
    ) -> None:
        self.warn_after_s = warn_after_s
        self._remember = remember
        self._starved = starved
        self._log = log
        self.ticked_at = time.monotonic()
        """Time at which the event loop was last seen running."""
        self.blocked_s = 0.0
        """Length of the last blockage."""
        self.blocked_until: float | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        self.ticked_at = time.monotonic()
        while True:
            self._remember()
            await anyio.sleep(TICK_S)
            now = time.monotonic()
            late_s = now - self.ticked_at - TICK_S
            self.ticked_at = now
            if late_s >= self.warn_after_s:
                self.blocked_s, self.blocked_until = late_s, now
                self._log.warning(
                    "the event loop was blocked for %.1f s; %s. Some code ran for that long without awaiting: run it "
                    "in a thread",
                    late_s,
                    self._starved(late_s, now),
                )
