"""What clients measure, under the names of Java, which the KIP takes over.

A source says how much there has been since it began. What happened in one interval is worked out by `Collector`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from ..latencies import Latencies

__all__ = ["PREFIX", "Attributes", "Kind", "Measure", "Source", "meters_by_topic", "spread", "spreads_by_node"]

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


def meters_by_topic(name: str, topics: Mapping[str, int]) -> Iterator[Measure]:
    """Of how much there was of each topic."""
    for topic, total in sorted(topics.items()):
        yield Measure(Kind.METER, name, total, attributes=(("topic", topic),))


def spreads_by_node(name: str, nodes: dict[int, Latencies]) -> list[Measure]:
    """The same for each broker."""
    return [spread(name, latencies, (("node_id", node_id),)) for node_id, latencies in sorted(nodes.items())]
