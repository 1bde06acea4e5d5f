"""What connections that several clients share are counted as: they are neither a producer's nor a consumer's."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .measures import Attributes, Kind, Measure

__all__ = ["SharedConnections"]


class SharedConnections:
    """Those of a `Client`; the KIP knows clients with connections of their own alone."""

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections

    def resource(self) -> Attributes:
        """Nothing beside what brokers know."""
        return ()

    def measures(self) -> Iterator[Measure]:
        """How many were made so far."""
        yield Measure(Kind.METER, "client.connection.creation", self._connections())
