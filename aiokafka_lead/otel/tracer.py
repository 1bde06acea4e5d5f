"""What `instrument` installs."""

from __future__ import annotations

from weakref import WeakSet

from .._core.tracing import ReadTracing, SendTracing, TracedClient
from .kit import Kit
from .reading import Reads
from .sending import Sends

__all__ = ["Tracing"]


class Tracing:
    """Makes the sides of producers and consumers that start, until it is turned off."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._sends: WeakSet[Sends] = WeakSet()

    def producer(self, client: TracedClient) -> SendTracing:
        """A producer starts."""
        sends = Sends(self.kit, client)
        self._sends.add(sends)
        return sends

    def consumer(self, client: TracedClient) -> ReadTracing:
        """A consumer starts."""
        if self.kit.instruments is not None:
            self.kit.instruments.reading(client)
        return Reads(self.kit, client)

    def turn_off(self) -> None:
        """Nothing more is recorded, of clients that run either."""
        self.kit.on = False
        for sends in self._sends:
            sends.unsampled.turn_off()
