"""Tracks pending batches, and the flushes that wait for them."""

from __future__ import annotations

from collections.abc import Callable


class FlushTicket:
    """A flush that waits for all batches up to ``ordinal``."""

    __slots__ = ("on_done", "ordinal")

    def __init__(self, ordinal: int, on_done: Callable[[], None]) -> None:
        self.ordinal = ordinal
        self.on_done = on_done


class Flushes:
    """Counts pending batches by ordinal.

    The ordinal increases with each batch that is opened. The pieces of a split batch have the same ordinal.
    """

    def __init__(self) -> None:
        self._pending: dict[int, int] = {}
        """Number of pending batches by ordinal, in ascending order."""
        self._tickets: list[FlushTicket] = []
        """The waiting flushes, in ascending order of their ordinals."""

    def begin(self, ordinal: int, on_done: Callable[[], None]) -> FlushTicket:
        """Start a flush of all batches up to this ordinal, which is the latest.

        ``on_done`` is called when it is complete.
        """
        ticket = FlushTicket(ordinal, on_done)
        self._tickets.append(ticket)
        return ticket

    def end(self, ticket: FlushTicket) -> None:
        """End a flush that is complete or was abandoned."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)

    def started(self, ordinal: int, batches: int) -> None:
        """Count additional pending batches with this ordinal."""
        self._pending[ordinal] = self._pending.get(ordinal, 0) + batches

    def finished(self, ordinal: int, latest: int) -> None:
        """Count a batch whose outcome has become known. ``latest`` is the last ordinal that was assigned."""
        left = self._pending[ordinal] - 1
        if left:
            self._pending[ordinal] = left
            return
        del self._pending[ordinal]
        if self._tickets:
            oldest = next(iter(self._pending), latest + 1)
            while self._tickets and self._tickets[0].ordinal < oldest:
                self._tickets.pop(0).on_done()
