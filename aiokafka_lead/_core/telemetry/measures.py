"""Clients' measures, under Java's names, which the KIP adopts.

A source returns totals since it began. `Collector` computes the values of an interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Protocol

from ..._values import NamedTuple
from ...metrics import figures
from ..latencies import Latencies, LatenciesByNode

PREFIX = "org.apache.kafka."
"""Common beginning of all metrics' names."""

Attributes = tuple[tuple[str, str | int], ...]


class Kind(Enum):
    """Kind of a measure, which determines its metrics."""

    TOTAL = "total"
    """A sum under its own name."""
    METER = "meter"
    """A sum NAME.total, and a gauge NAME.rate, per second of the interval."""
    SPREAD = "spread"
    """Gauges NAME.avg and NAME.max of the events in the interval; none without events."""
    SHARE = "share"
    """A gauge under its own name: the fraction of the interval's seconds."""
    LEVEL = "level"
    """A gauge under its own name: the current value, added over clients."""
    HIGHEST = "highest"
    """A gauge under its own name: the current value, the maximum over clients."""


class Measure(NamedTuple):
    """One measure of this moment."""

    kind: Kind
    name: str
    """Without `PREFIX`."""
    total: float
    """Since the start of the source; for LEVEL and HIGHEST the current value."""
    times: int = 0
    """For SPREAD: the number of events."""
    peak: float = 0
    """For SPREAD: the maximum since the last call."""
    attributes: Attributes = ()


class Source(Protocol):
    """A client that measures itself."""

    def resource(self) -> Attributes:
        """Return the attributes that distinguish it, as far as they are known: group, transactional id and the like."""
        ...

    def measures(self) -> Iterable[Measure]:
        """Return its measures. If a broker accepts few bytes, the last ones are left out."""
        ...


def spread(name: str, latencies: Latencies, attributes: Attributes = ()) -> Measure:
    """Return a measure of durations, in milliseconds."""
    so_far = latencies.snapshot()
    return Measure(Kind.SPREAD, name, so_far.sum_ms, so_far.count, latencies.take_peak_ms(), attributes)


def measured(metrics: type, values: Mapping[str, Any]) -> Iterator[Measure]:
    """Yield the measures of a class of metrics, given their values (`counts_of`), under Java's names."""
    for name, figure in figures(metrics).items():
        if figure.rows is not None:
            yield from _by_topic(figure.rows, values.get(name, {}))
        elif figure.java and name in values:
            value = values[name]
            if isinstance(value, LatenciesByNode):
                for node_id, latencies in sorted(value.items()):
                    yield spread(figure.java, latencies, (("node_id", node_id),))
            elif isinstance(value, Latencies):
                yield spread(figure.java, value)
            else:
                yield Measure(Kind.METER, figure.java, value)


def _by_topic(rows: type, topics: Mapping[str, object]) -> Iterator[Measure]:
    for name, figure in figures(rows).items():
        if figure.java:
            for topic, row in sorted(topics.items()):
                yield Measure(Kind.METER, figure.java, getattr(row, name), attributes=(("topic", topic),))


_STANDARD = (
    "connection.creation",
    "node.request.latency",
    "produce.throttle.time",
    "record.queue.time",
    "poll.idle.ratio.avg",
    "coordinator.commit.latency",
    "coordinator.assigned.partitions",
    "coordinator.rebalance.latency",
    "coordinator.rebalance.latency.total",
    "fetch.manager.fetch.latency",
)
"""Suffixes of the names that KIP-714 requires of every client."""


def standard_first(measures: Iterable[Measure]) -> list[Measure]:
    """Return KIP-714's standard metrics first, then other metrics, then metrics by topic, for brokers that accept few
    bytes."""
    return sorted(
        measures,
        key=lambda measure: (
            any(name == "topic" for name, _ in measure.attributes),
            not measure.name.endswith(_STANDARD),
        ),
    )


class SharedConnections:
    """The connections of a `Client`; the KIP only knows clients with their own connections."""

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections

    def resource(self) -> Attributes:
        """Return no attributes, since brokers know the client."""
        return ()

    def measures(self) -> Iterator[Measure]:
        """Yield the number of connections made."""
        yield Measure(Kind.METER, "client.connection.creation", self._connections())
