"""Metrics of a consumer for the operators of the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..telemetry.measures import Attributes, Kind, Measure, meters_by_topic, spread, spreads_by_node
from .metrics import ConsumerCounters
from .reading import Reading

__all__ = ["ConsumerPlace", "ConsumerTelemetry"]


class ConsumerPlace(NamedTuple):
    """Location of a consumer, and its membership in a group; None for each that does not apply."""

    client_rack: str | None
    group_id: str | None
    group_instance_id: str | None
    member_id: Callable[[], str | None]
    """Assigned by the group's coordinator, or chosen here, depending on the protocol."""

    def resource(self) -> Attributes:
        """Return the labels, with the KIP's names."""
        known = (
            ("client_rack", self.client_rack),
            ("group_id", self.group_id),
            ("group_instance_id", self.group_instance_id),
            ("group_member_id", self.member_id()),
        )
        return tuple((name, value) for name, value in known if value)


class ConsumerTelemetry:
    """The KIP's standard metrics first, then further ones of Java's that this consumer counts in the same way."""

    def __init__(
        self,
        place: ConsumerPlace,
        reading: Reading,
        idle_s: Callable[[], float],
        connections: Callable[[], int] | None,
    ) -> None:
        """Measure ``reading``. ``idle_s`` returns the time that reads waited; ``connections``: `ProducerTelemetry`."""
        self._place = place
        self._reading = reading
        self._idle_s = idle_s
        self._connections = connections

    def resource(self) -> Attributes:
        """Return the rack, and the member of the group."""
        return self._place.resource()

    def measures(self) -> Iterator[Measure]:
        """Yield the current values."""
        reading = self._reading
        counters = reading.counters
        if self._connections is not None:
            yield Measure(Kind.METER, "consumer.connection.creation", self._connections())
        yield from spreads_by_node("consumer.node.request.latency", counters.nodes)
        yield Measure(Kind.SHARE, "consumer.poll.idle.ratio.avg", self._idle_s())
        yield spread("consumer.fetch.manager.fetch.latency", counters.fetch_latencies)
        if self._place.group_id is not None:
            yield from self._of_the_group(counters)
        yield Measure(Kind.METER, "consumer.fetch.manager.fetch", counters.fetches)
        yield Measure(Kind.METER, "consumer.fetch.manager.bytes.consumed", counters.bytes_fetched)
        records = reading.prefetch.records_by_topic()
        yield Measure(Kind.METER, "consumer.fetch.manager.records.consumed", sum(records.values()))
        lags = [lag for state in reading.positions if (lag := reading.lag_of(state)) is not None]
        if lags:
            yield Measure(Kind.HIGHEST, "consumer.fetch.manager.records.lag.max", max(lags))
        yield from meters_by_topic("consumer.fetch.manager.bytes.consumed", counters.topic_bytes)
        yield from meters_by_topic("consumer.fetch.manager.records.consumed", records)

    def _of_the_group(self, counters: ConsumerCounters) -> Iterator[Measure]:
        yield Measure(Kind.LEVEL, "consumer.coordinator.assigned.partitions", len(self._reading.positions))
        yield spread("consumer.coordinator.commit.latency", counters.commits)
        rebalances = spread("consumer.coordinator.rebalance.latency", counters.rebalances)
        yield rebalances
        yield Measure(Kind.TOTAL, "consumer.coordinator.rebalance.latency.total", rebalances.total)
