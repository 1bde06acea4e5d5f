"""Clients' measures, with Java's names, which the KIP adopts.

A source returns totals since its start. `Collector` computes the values of an interval.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Protocol

from ..._options.arguments import string
from ..._options.callables import function_of
from ..._options.checks import INT64_MAX, Check, function, integer
from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError
from ...metrics import figures
from ..latencies import Latencies, LatenciesByNode

PREFIX = "org.apache.kafka."
"""Common beginning of all metrics' names."""

Attributes = tuple[tuple[str, str | int], ...]


class Kind(Enum):
    """Kind of a measure, which determines its metrics."""

    TOTAL = "total"
    """A sum with the measure's name."""
    METER = "meter"
    """A sum NAME.total, and a gauge NAME.rate, per second of the interval."""
    SPREAD = "spread"
    """Gauges NAME.avg and NAME.max of the events in the interval; none without events."""
    SHARE = "share"
    """A gauge with the measure's name: the fraction of the interval's seconds."""
    LEVEL = "level"
    """A gauge with the measure's name: the current value, added over clients."""
    HIGHEST = "highest"
    """A gauge with the measure's name: the current value, the maximum over clients."""


class Measure(NamedTuple):
    """A measure at one moment."""

    kind: Kind
    name: str
    """Name without `PREFIX`."""
    total: float
    """Total since the start of the source; for LEVEL and HIGHEST the current value."""
    times: int = 0
    """For SPREAD: the number of events."""
    peak: float = 0
    """For SPREAD: the maximum since the last call."""
    attributes: Attributes = ()


class Source(Protocol):
    """A client that measures itself."""

    def resource(self) -> Attributes:
        """Return the known attributes that distinguish it, for example the group or the transactional id."""
        ...

    def measures(self) -> Iterable[Measure]:
        """Return its measures. If a broker accepts few bytes, the last measures are left out."""
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
    """Sort KIP-714's standard metrics first, then other metrics, then metrics by topic, for brokers that accept few
    bytes."""
    return sorted(
        measures,
        key=lambda measure: (
            any(name == "topic" for name, _ in measure.attributes),
            not measure.name.endswith(_STANDARD),
        ),
    )


class SharedConnections:
    """The connections of a `Client`, as a separate source: in the KIP each client has its connections."""

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections

    def resource(self) -> Attributes:
        """Return no attributes, since brokers identify the client."""
        return ()

    def measures(self) -> Iterator[Measure]:
        """Yield the number of connections made."""
        yield Measure(Kind.METER, "client.connection.creation", self._connections())


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,237}")
"""OpenTelemetry's syntax of names; together with `PREFIX` 255 characters."""

_OWN = ("admin.", "client.", "consumer.", "producer.")
"""Beginnings of the names of clients' built-in metrics."""

_EXACT = 2**53
"""Value from which on an int is pushed as a float, so that sums fit into 64 bits."""

_NUMBER: Check = integer(-INT64_MAX, INT64_MAX)


def metric_name(name: str, value: Any) -> str:
    """Check the name of an application's metric, without `PREFIX`."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if _NAME.fullmatch(value) is None:
        raise ConfigError(
            f"{name} must be a letter and up to 237 ASCII letters, digits, '_', '.', '-' and '/', not {value!r}"
        )
    if value.startswith(_OWN):
        raise ConfigError(f"{name} must not begin with {' or '.join(_OWN)}, which clients' metrics use, not {value!r}")
    return value


def metric_attributes(name: str, value: Any) -> Attributes:
    """Check attributes, which distinguish metrics of the same name: texts or ints by name, or None."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise ConfigTypeError(f"{name} must be a mapping, not {type(value).__name__}")
    found: dict[str, str | int] = {}
    for key, each in value.items():
        if not string(f"{name}'s key", key):
            raise ConfigError(f"{name} must not have an empty key")
        check = string if isinstance(each, str) else _NUMBER
        found[key] = check(f"{name}[{key!r}]", each)
    return tuple(sorted(found.items()))


def metric_measure(name: str, value: Any) -> Any:
    """Check a function that returns a value; it must not be a coroutine function."""
    if iscoroutinefunction(function_of(function(name, value))):
        raise ConfigTypeError(f"{name} must not be a coroutine function: a push does not await it")
    return value


class ApplicationSource:
    """A metric of the application, whose function is called when a push is due."""

    def __init__(
        self,
        name: str,
        measure: Callable[[], float],
        attributes: Attributes,
        resource: Callable[[], Attributes],
        on_failure: Callable[[str, Exception], None],
        *,
        is_sum: bool,
    ) -> None:
        """Begin with the arguments of the application.

        ``resource`` belongs to the client that pushes the metric. ``on_failure`` is called for the first of consecutive
        failures.
        """
        self._name = name
        self._measure = measure
        self._attributes = attributes
        self._kind = Kind.TOTAL if is_sum else Kind.LEVEL
        self._resource = resource
        self._on_failure = on_failure
        self._failed = False
        """True if the last call returned no value."""

    def resource(self) -> Attributes:
        """Return the client's resource."""
        return self._resource()

    def measures(self) -> Iterator[Measure]:
        """Yield the current value, if any."""
        try:
            value = _finite(self._measure())
        except Exception as error:  # of the application's code
            if not self._failed:
                self._failed = True
                self._on_failure(self._name, error)
            return
        self._failed = False
        yield Measure(self._kind, self._name, value, attributes=self._attributes)


def _finite(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a metric's value must be an int or a float, not {type(value).__name__}")
    if not math.isfinite(value):
        raise ValueError(f"a metric's value must be finite, not {value!r}")
    return float(value) if abs(value) >= _EXACT else value
