"""Metrics of a producer for the operators of the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..telemetry.measures import Attributes, Kind, Measure, meters_by_topic, spread, spreads_by_node
from .accumulator import Accumulator

__all__ = ["ProducerTelemetry"]


class ProducerTelemetry:
    """The KIP's standard metrics first, then further ones of Java's that this producer counts in the same way."""

    def __init__(
        self, transactional_id: str | None, accumulator: Accumulator, connections: Callable[[], int] | None
    ) -> None:
        """Measure ``accumulator``. ``connections`` returns the number opened; None if they are shared."""
        self._transactional_id = transactional_id
        self._accumulator = accumulator
        self._connections = connections

    def resource(self) -> Attributes:
        """Return the transactional id, if there is one."""
        return () if self._transactional_id is None else (("transactional_id", self._transactional_id),)

    def measures(self) -> Iterator[Measure]:
        """Yield the current values."""
        counters = self._accumulator.counters
        if self._connections is not None:
            yield Measure(Kind.METER, "producer.connection.creation", self._connections())
        nodes = spreads_by_node("producer.node.request.latency", counters.nodes)
        yield from nodes
        yield spread("producer.produce.throttle.time", counters.throttles)
        yield spread("producer.record.queue.time", counters.queued)
        yield Measure(
            Kind.SPREAD,
            "producer.request.latency",
            sum(node.total for node in nodes),
            sum(node.times for node in nodes),
            max((node.peak for node in nodes), default=0),
        )
        yield Measure(Kind.METER, "producer.record.send", counters.records_sent)
        yield Measure(Kind.METER, "producer.record.error", counters.records_failed)
        memory = self._accumulator.memory
        yield Measure(Kind.LEVEL, "producer.buffer.total.bytes", memory.limit)
        yield Measure(Kind.LEVEL, "producer.buffer.available.bytes", memory.limit - memory.used)
        topics = list(counters.settled_topics.items())
        # Per topic, a record counts as sent once it is acknowledged.
        yield from meters_by_topic("producer.topic.record.send", {name: each.records_acked for name, each in topics})
        yield from meters_by_topic("producer.topic.record.error", {name: each.records_failed for name, each in topics})
