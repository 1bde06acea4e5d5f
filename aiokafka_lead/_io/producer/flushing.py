"""Waits until all records are acknowledged or have failed, then continues in the same turn of the event loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from ..._core.producer.accumulator import Accumulator
from ..loop import Waiter

Then = Callable[[Waiter[None]], bool]
"""Continuation of a flush. If it returns True, the flush continues until this waiter is done."""


class Flushing:
    """The flushes of one producer."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._taking = False
        """True while a response is being processed: no other work may begin meanwhile."""
        self._over: list[tuple[Waiter[None], Then]] = []
        """Flushes that this response has completed."""

    async def wait(self, timeout_s: float | None, then: Then | None = None) -> None:
        """Wait until every currently pending record is acknowledged or has failed. Raises TimeoutError.

        If a response completes the flush, ``then`` is called in the same turn of the event loop; otherwise it is not
        called.
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
        """A response is about to be processed; `answer_taken` follows."""
        self._taking = True

    def answer_taken(self, well: bool) -> None:
        """The response has been processed; if not ``well``, because of an error, and then no other work begins."""
        self._taking = False
        over, self._over = self._over, []
        for waiter, then in over:
            if not (well and then(waiter)):
                waiter.set_result(None)
