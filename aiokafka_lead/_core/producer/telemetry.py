"""Metrics of a producer that are pushed to the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...metrics import ProducerMetrics
from ..counting import counts_of
from ..telemetry.measures import Attributes, Kind, Measure, measured, standard_first
from .accumulator import Accumulator


class ProducerTelemetry:
    """Metrics of Java's producer, as far as this producer counts them in the same way."""

    def __init__(
        self, transactional_id: str | None, accumulator: Accumulator, connections: Callable[[], int] | None
    ) -> None:
        """Measure ``accumulator``.

        ``connections`` returns the number of connections opened. It is None if the connections are shared with other
        clients.
        """
        self._transactional_id = transactional_id
        self._accumulator = accumulator
        self._connections = connections

    def resource(self) -> Attributes:
        """Return the transactional id as the only attribute, or none without transactions."""
        return () if self._transactional_id is None else (("transactional_id", self._transactional_id),)

    def measures(self) -> list[Measure]:
        """Return the producer's current measures, the most important first."""
        return standard_first(self._measures())

    def _measures(self) -> Iterator[Measure]:
        counters, memory = self._accumulator.counters, self._accumulator.memory
        own: dict[str, Any] = {} if self._connections is None else {"connections": self._connections()}
        table = [*measured(ProducerMetrics, counts_of(ProducerMetrics, counters, **own))]
        yield from table
        nodes = [measure for measure in table if measure.name == "producer.node.request.latency"]
        yield Measure(
            Kind.SPREAD,
            "producer.request.latency",
            sum(node.total for node in nodes),
            sum(node.times for node in nodes),
            max((node.peak for node in nodes), default=0),
        )
        yield Measure(Kind.LEVEL, "producer.buffer.total.bytes", memory.limit)
        yield Measure(Kind.LEVEL, "producer.buffer.available.bytes", memory.limit - memory.used)
