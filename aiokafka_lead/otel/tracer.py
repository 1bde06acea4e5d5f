"""Object that `instrument` installs, and which creates the tracing of each client."""

from __future__ import annotations

from weakref import WeakSet

from opentelemetry.context import get_current

from .._core.tracing import ReadTracing, SendTracing, TracedClient
from ..types import Headers
from .instruments import Kit, is_suppressed, origin_of
from .names import injected
from .reading import Reads
from .sending import Carried, Sends


class Tracing:
    """Creates the tracing of producers and consumers as they start, until it is turned off."""

    def __init__(self, kit: Kit) -> None:
        self.kit = kit
        self._sends: WeakSet[Sends] = WeakSet()

    def producer(self, client: TracedClient) -> SendTracing:
        """Return the tracing of a starting producer."""
        sends = Sends(self.kit, client)
        self._sends.add(sends)
        return sends

    def consumer(self, client: TracedClient) -> ReadTracing:
        """Return the tracing of a starting consumer."""
        if self.kit.instruments is not None:
            self.kit.instruments.reading(client)
        return Reads(self.kit, client)

    def carry(self, headers: Headers) -> Headers:
        """Return a record's headers with the current context, unless they already have a context."""
        context = get_current()
        return headers if is_suppressed(context) else Carried(injected(context), origin_of(context)).carry(headers)

    def turn_off(self) -> None:
        """Stop recording, also for clients that are running."""
        self.kit.on = False
        if self.kit.instruments is not None:
            self.kit.instruments.turn_off()
        for sends in self._sends:
            sends.unsampled.turn_off()
