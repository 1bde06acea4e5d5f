"""Notices when something blocks the event loop, so that heartbeats and fetches cannot be sent."""

from __future__ import annotations

import time
from collections.abc import Callable

import anyio

from ..._options.logs import ClientLog

TICK_S = 0.25
"""How often the watch looks at the clock."""


class LoopWatch:
    """A task that sleeps for `TICK_S` at a time: when it wakes late, the event loop did not run.

    ``remember`` is called while it runs, and ``starved``, given how long it did not and the time, says what else could
    not be done meanwhile. It must not go by what other tasks did after that: these may have had their turn before.
    """

    def __init__(
        self, warn_after_s: float, remember: Callable[[], None], starved: Callable[[float, float], str], log: ClientLog
    ) -> None:
        self.warn_after_s = warn_after_s
        self._remember = remember
        self._starved = starved
        self._log = log
        self.ticked_at = time.monotonic()
        """When the event loop last was seen to run."""
        self.blocked_s = 0.0
        """How long it was blocked last."""
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
                    "the event loop was blocked for %.1f s; %s. Something ran for so long without awaiting anything: "
                    "do that in a thread",
                    late_s,
                    self._starved(late_s, now),
                )
