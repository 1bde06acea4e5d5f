"""Measures of clients, under the names that Java uses and KIP-714 adopts.

A source returns totals since its start. `Collector` computes the values of each push interval from them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from inspect import iscoroutinefunction
from typing import Any, Protocol

from ..._options.arguments import string
from ..._options.checks import INT64_MAX, Check, function, function_of, integer
from ..._values import NamedTuple
from ...errors import ConfigError, ConfigTypeError
from ...metrics import figures
from ..latencies import Latencies, LatenciesByNode

PREFIX = "org.apache.kafka."
"""Common prefix of all metric names."""

Attributes = tuple[tuple[str, str | int], ...]


class Kind(Enum):
    """Kinds of measures. The kind determines the metrics that are pushed for a measure."""

    TOTAL = "total"
    """A sum with the measure's name."""
    METER = "meter"
    """A sum NAME.total, and a gauge NAME.rate in events per second of the interval."""
    SPREAD = "spread"
    """Gauges NAME.avg and NAME.max over the events of the interval. Omitted if there were no events."""
    SHARE = "share"
    """A gauge with the measure's name: the fraction of the interval in which the client was in this state."""
    LEVEL = "level"
    """A gauge with the measure's name: the current value, summed over clients."""
    HIGHEST = "highest"
    """A gauge with the measure's name: the highest current value of all clients."""


class Measure(NamedTuple):
    """The value of a measure so far, as a source returns it."""

    kind: Kind
    name: str
    """The name without `PREFIX`."""
    total: float
    """The total since the source started. For LEVEL and HIGHEST, the current value."""
    times: int = 0
    """For SPREAD: the number of events."""
    peak: float = 0
    """For SPREAD: the highest value since the last call."""
    attributes: Attributes = ()


class Source(Protocol):
    """A client, or a part of a client, that provides measures."""

    def resource(self) -> Attributes:
        """Return the known attributes that distinguish this client, such as its group or transactional id."""
        ...

    def measures(self) -> Iterable[Measure]:
        """Return the current measures. If a broker accepts only small pushes, the last measures are omitted."""
        ...


def spread(name: str, latencies: Latencies, attributes: Attributes = ()) -> Measure:
    """Return the durations of a histogram as a measure in milliseconds. Resets their maximum."""
    so_far = latencies.snapshot()
    return Measure(Kind.SPREAD, name, so_far.sum_ms, so_far.count, latencies.take_peak_ms(), attributes)


def measured(metrics: type, values: Mapping[str, Any]) -> Iterator[Measure]:
    """Yield the measures of a class of metrics under Java's names, given the values from `counts_of`."""
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
"""Suffixes of the metric names that KIP-714 requires of every client."""


def standard_first(measures: Iterable[Measure]) -> list[Measure]:
    """Sort the measures by importance, for brokers that accept only small pushes.

    KIP-714's standard metrics come first, and metrics of single topics come last.
    """
    return sorted(
        measures,
        key=lambda measure: (
            any(name == "topic" for name, _ in measure.attributes),
            not measure.name.endswith(_STANDARD),
        ),
    )


class SharedConnections:
    """The connections of a `Client`, as a source of their own.

    KIP-714 assumes that each client has its own connections, but here several clients share them.
    """

    def __init__(self, connections: Callable[[], int]) -> None:
        self._connections = connections

    def resource(self) -> Attributes:
        """Return no attributes, because these connections belong to the client as a whole."""
        return ()

    def measures(self) -> Iterator[Measure]:
        """Yield the number of connections made so far."""
        yield Measure(Kind.METER, "client.connection.creation", self._connections())


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.\-/]{0,237}")
"""OpenTelemetry's syntax of metric names. With `PREFIX`, a name has at most 255 characters."""

_OWN = ("admin.", "client.", "consumer.", "producer.")
"""Prefixes that are reserved for the clients' built-in metrics."""

_EXACT = 2**53
"""An int of this size or more is pushed as a float, so that sums fit into 64 bits."""

_NUMBER: Check = integer(-INT64_MAX, INT64_MAX)


def metric_name(name: str, value: Any) -> str:
    """Check the name of an application's metric. The name does not include `PREFIX`."""
    if not isinstance(value, str):
        raise ConfigTypeError(f"{name} must be a str, not {type(value).__name__}")
    if _NAME.fullmatch(value) is None:
        raise ConfigError(
            f"{name} must be a letter and up to 237 ASCII letters, digits, '_', '.', '-' or '/', not {value!r}"
        )
    if value.startswith(_OWN):
        raise ConfigError(f"{name} must not begin with {' or '.join(_OWN)}, as the client's metrics do: {value!r}")
    return value


def metric_attributes(name: str, value: Any) -> Attributes:
    """Check the attributes of an application's metric: a mapping from names to strings or ints, or None."""
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
    """Check the function that returns the value of an application's metric. Coroutine functions are refused."""
    if iscoroutinefunction(function_of(function(name, value))):
        raise ConfigTypeError(f"{name} must not be a coroutine function: a push does not await it")
    return value


class ApplicationSource:
    """A metric of the application, which a function provides. It is called when a push is due."""

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
        """Create the metric with the application's arguments.

        ``resource`` is the resource of the client that pushes the metric. ``on_failure`` is called for the first of
        several consecutive failures.
        """
        self._name = name
        self._measure = measure
        self._attributes = attributes
        self._kind = Kind.TOTAL if is_sum else Kind.LEVEL
        self._resource = resource
        self._on_failure = on_failure
        self._failed = False
        """True if the last call failed."""

    def resource(self) -> Attributes:
        """Return the attributes that identify the client."""
        return self._resource()

    def measures(self) -> Iterator[Measure]:
        """Yield the current value. If the function fails, report the failure and yield nothing."""
        try:
            value = _finite(self._measure())
        except Exception as error:  # raised by the application's function
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
