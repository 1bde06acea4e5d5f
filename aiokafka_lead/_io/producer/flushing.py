"""Waiting until all records are acknowledged or failed, and what comes then without a wait for anybody's turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from ..._core.producer.accumulator import Accumulator
from ..loop import Waiter

Then = Callable[[Waiter[None]], bool]
"""What comes at the end of a flush. If it returns True, the flush goes on until this waiter is done."""


class Flushing:
    """The flushes of one producer."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._taking = False
        """Whether an answer is being taken in: nothing else may be begun meanwhile."""
        self._over: list[tuple[Waiter[None], Then]] = []
        """Flushes that this answer has brought to their end."""

    async def wait(self, timeout_s: float | None, then: Then | None = None) -> None:
        """Until every record that is pending now is acknowledged or failed. Raises TimeoutError.

        Where an answer brings that about, ``then`` is called in this very turn of the event loop; otherwise it is not.
        """
        waiter: Waiter[None] = Waiter()
        ticket = self._accumulator.start_flush(partial(self._end, waiter, then), time.monotonic())
        if ticket is None:
            return
        try:
            await waiter.wait(timeout_s)
        finally:
            self._accumulator.end_flush(ticket)

    def _end(self, waiter: Waiter[None], then: Then | None) -> None:
        if then is not None and self._taking:
            self._over.append((waiter, then))
        else:
            waiter.set_result(None)

    def answer_comes(self) -> None:
        """An answer is about to be taken in; `answer_taken` follows."""
        self._taking = True

    def answer_taken(self, well: bool) -> None:
        """The answer has been taken in; not ``well``: that came to an untimely end, and nothing else is begun."""
        self._taking = False
        over, self._over = self._over, []
        for waiter, then in over:
            if not (well and then(waiter)):
                waiter.set_result(None)
