"""What clients measure, under the names of Java, which the KIP takes over.

A source says how much there has been since it began. What happened in one interval is worked out by `Collector`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ...metrics import figures
from ..latencies import Latencies, LatenciesByNode

PREFIX = "org.apache.kafka."
"""Of the names of all metrics."""

Attributes = tuple[tuple[str, str | int], ...]


class Kind(Enum):
    """Which metrics a measure makes."""

    TOTAL = "total"
    """A sum under its own name: how much there was."""
    METER = "meter"
    """A sum NAME.total, and a gauge NAME.rate: how much there was per second of the interval."""
    SPREAD = "spread"
    """Gauges NAME.avg and NAME.max, of what happened in the interval; none where nothing did."""
    SHARE = "share"
    """A gauge under its own name: of the interval's seconds, the part that this took."""
    LEVEL = "level"
    """A gauge under its own name: how much there is now, of several clients together."""
    HIGHEST = "highest"
    """A gauge under its own name: how much there is now, the most of several clients."""


class Measure(NamedTuple):
    """One measure of this moment."""

    kind: Kind
    name: str
    """Without `PREFIX`."""
    total: float
    """Since the source began; of a LEVEL and a HIGHEST: now."""
    times: int = 0
    """Of a SPREAD: how often it happened."""
    peak: float = 0
    """Of a SPREAD: the largest since the last time that it was asked for."""
    attributes: Attributes = ()


class Source(Protocol):
    """A client that measures itself."""

    def resource(self) -> Attributes:
        """What tells it from others, as far as it is known: its group, its transactional id and the like."""
        ...

    def measures(self) -> Iterable[Measure]:
        """What it has measured. The first ones are the last to be left out where a broker takes few bytes."""
        ...


def spread(name: str, latencies: Latencies, attributes: Attributes = ()) -> Measure:
    """Of how long something took, in milliseconds."""
    so_far = latencies.snapshot()
    return Measure(Kind.SPREAD, name, so_far.sum_ms, so_far.count, latencies.take_peak_ms(), attributes)


def measured(metrics: type, values: Mapping[str, Any]) -> Iterator[Measure]:
    """Measures of the values (`counts_of`) of a class of metrics, under the names of Java in its table."""
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
"""Ends of the names that KIP-714 asks of every client."""


def standard_first(measures: Iterable[Measure]) -> list[Measure]:
    """The standard metrics of KIP-714, then others, then those by topic: brokers that take few bytes get the first."""
    return sorted(
        measures,
        key=lambda measure: (
            any(name == "topic" for name, _ in measure.attributes),
            not measure.name.endswith(_STANDARD),
        ),
    )


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
