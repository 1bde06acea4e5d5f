"""Which batches are pending, and the flushes that wait for them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["FlushTicket", "Flushes"]


class FlushTicket:
    """One flush: the batches up to ``ordinal`` are what it waits for."""

    __slots__ = ("on_done", "ordinal")

    def __init__(self, ordinal: int, on_done: Callable[[], None]) -> None:
        self.ordinal = ordinal
        self.on_done = on_done


class Flushes:
    """Batches count by ordinal, which grows with each that is opened; parts of a split one have one ordinal."""

    def __init__(self) -> None:
        self._pending: dict[int, int] = {}
        """How many batches with that ordinal are pending, in ascending order of the ordinal."""
        self._tickets: list[FlushTicket] = []
        """In ascending order of the ordinal."""

    def begin(self, ordinal: int, on_done: Callable[[], None]) -> FlushTicket:
        """A flush waits for all batches up to this ordinal, which is the latest; then ``on_done`` is called."""
        ticket = FlushTicket(ordinal, on_done)
        self._tickets.append(ticket)
        return ticket

    def end(self, ticket: FlushTicket) -> None:
        """The flush is done, or nobody waits for it any more."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)

    def started(self, ordinal: int, batches: int) -> None:
        """This number of batches more is pending under an ordinal."""
        self._pending[ordinal] = self._pending.get(ordinal, 0) + batches

    def finished(self, ordinal: int, latest: int) -> None:
        """The outcome of a batch is known; ``latest`` is the ordinal that was given last."""
        left = self._pending[ordinal] - 1
        if left:
            self._pending[ordinal] = left
            return
        del self._pending[ordinal]
        if self._tickets:
            oldest = next(iter(self._pending), latest + 1)
            while self._tickets and self._tickets[0].ordinal < oldest:
                self._tickets.pop(0).on_done()
