"""Metrics of a consumer that are pushed to the cluster (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..._values import NamedTuple
from ...metrics import ConsumerMetrics
from ..telemetry.measures import Attributes, Kind, Measure, measured, standard_first
from .reading import Reading


class ConsumerPlace(NamedTuple):
    """The rack and the group membership of a consumer. Fields that do not apply are None."""

    client_rack: str | None
    group_id: str | None
    group_instance_id: str | None
    member_id: Callable[[], str | None]
    """Returns the member id, which the coordinator assigns or this client generates, depending on the protocol."""

    def resource(self) -> Attributes:
        """Return the known attributes under their names in KIP-714."""
        known = (
            ("client_rack", self.client_rack),
            ("group_id", self.group_id),
            ("group_instance_id", self.group_instance_id),
            ("group_member_id", self.member_id()),
        )
        return tuple((name, value) for name, value in known if value)


class ConsumerTelemetry:
    """Metrics of Java's consumer, as far as this consumer counts them in the same way."""

    def __init__(
        self,
        place: ConsumerPlace,
        reading: Reading,
        idle_s: Callable[[], float],
        connections: Callable[[], int] | None,
    ) -> None:
        """Measure ``reading``.

        ``idle_s`` returns the seconds for which reads have waited. For ``connections``, see `ProducerTelemetry`.
        """
        self._place = place
        self._reading = reading
        self._idle_s = idle_s
        self._connections = connections

    def resource(self) -> Attributes:
        """Return the attributes that identify the consumer: its rack and its group membership."""
        return self._place.resource()

    def measures(self) -> list[Measure]:
        """Return the consumer's current measures, the most important first."""
        return standard_first(self._measures())

    def _measures(self) -> Iterator[Measure]:
        reading = self._reading
        values = reading.counted()
        if self._connections is not None:
            values["connections"] = self._connections()
        if self._place.group_id is None:
            del values["commit_latency"], values["rebalance_latency"]
        else:
            yield Measure(Kind.LEVEL, "consumer.coordinator.assigned.partitions", len(reading.positions))
            rebalances = reading.counters.rebalance_latency.snapshot()
            yield Measure(Kind.TOTAL, "consumer.coordinator.rebalance.latency.total", rebalances.sum_ms)
        yield from measured(ConsumerMetrics, values)
        yield Measure(Kind.SHARE, "consumer.poll.idle.ratio.avg", self._idle_s())
        lags = [lag for state in reading.positions if (lag := reading.lag_of(state)) is not None]
        if lags:
            yield Measure(Kind.HIGHEST, "consumer.fetch.manager.records.lag.max", max(lags))
