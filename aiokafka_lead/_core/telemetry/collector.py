"""Metrics of each push interval, computed from measures that count from the client's start."""

from __future__ import annotations

from collections.abc import Iterator

from ..._values import NamedTuple
from .measures import PREFIX, Attributes, Kind, Measure, Source
from .otlp import Metric, Point, ResourceMetrics
from .state import Subscription

_SHORTEST_S = 1.0
"""Shortest period in seconds for computing a rate.

Otherwise, a connection that opens just before a push could count as a thousand connections per second.
"""

_MOST_ENDED = 100
"""Maximum number of ended clients whose last counts are kept even though no other client has their attributes."""

Key = tuple[Kind, str, Attributes]

_OF_THE_MOMENT = (Kind.LEVEL, Kind.HIGHEST)
"""Kinds of measures that are pushed only while they have a current value."""


class Instant(NamedTuple):
    """A point in time on the monotonic and the real-time clock."""

    monotonic_s: float
    unix_ns: int


class _Amount:
    """The sum, the number and the maximum of values."""

    __slots__ = ("count", "peak", "total")

    def __init__(self) -> None:
        self.total: float = 0
        self.count = 0
        self.peak = 0.0

    def add(self, total: float, count: int, peak: float) -> None:
        self.total += total
        self.count += count
        self.peak = max(self.peak, peak)

    def absorb(self, other: _Amount) -> None:
        self.add(other.total, other.count, other.peak)


class _Series:
    """Accumulates one measure of one source between pushes."""

    __slots__ = ("collected", "last_count", "last_total", "level", "new", "total")

    def __init__(self) -> None:
        self.last_total: float = 0
        self.last_count = 0
        self.level: float = 0
        self.total: float = 0
        """Total since the source started. It includes ended sources with the same attributes."""
        self.new = _Amount()
        """Amount since the last call of `Collector.collect`."""
        self.collected = _Amount()
        """Amount that was collected earlier but that no broker has accepted yet."""

    def read(self, measure: Measure) -> None:
        """Add the change of the source's value since the last call."""
        self.level = measure.total
        # A source may take back records that it has handed out, but a sum must never decrease.
        more = max(0, measure.total - self.last_total)
        self.total += more
        self.new.add(more, measure.times - self.last_count, measure.peak)
        self.last_total += more
        self.last_count = measure.times

    def collect(self) -> None:
        self.collected.absorb(self.new)
        self.new = _Amount()

    def absorb(self, other: _Series) -> None:
        """Add the counts of a source that has ended."""
        self.total += other.total
        self.new.absorb(other.new)
        self.collected.absorb(other.collected)


class _Client:
    """Collects the measures of one source between pushes."""

    def __init__(self, source: Source, began: Instant) -> None:
        self.source: Source | None = source
        """The source, or None once it has ended."""
        self.over = False
        """True if the source had already ended at the last collection."""
        self.began = began
        self.resource = source.resource()
        self.series: dict[Key, _Series] = {}

    def read(self) -> None:
        if self.source is None:
            return
        self.resource = self.source.resource()
        unknown = {key for key in self.series if key[0] in _OF_THE_MOMENT}
        for measure in self.source.measures():
            key = (measure.kind, measure.name, measure.attributes)
            self._find(key).read(measure)
            unknown.discard(key)
        for key in unknown:
            self.series.pop(key, None)

    def end(self) -> None:
        """Keep the sums of the ended source, and drop its current values."""
        self.read()
        self.source = None
        self.series = {key: series for key, series in self.series.items() if key[0] not in _OF_THE_MOMENT}

    def collect(self) -> None:
        self.read()
        self.over = self.source is None
        for series in self.series.values():
            series.collect()

    def accepted(self) -> None:
        for series in self.series.values():
            series.collected = _Amount()

    def absorb(self, other: _Client) -> None:
        self.began = min(self.began, other.began)
        for key, series in other.series.items():
            self._find(key).absorb(series)

    def _find(self, key: Key) -> _Series:
        found = self.series.get(key)
        if found is None:
            found = self.series[key] = _Series()
        return found


class _Sum:
    """One measure, combined over all clients with the same attributes."""

    __slots__ = ("began_ns", "highest", "interval", "level", "rate", "seconds", "since_ns", "total")

    def __init__(self, began_ns: int, since_ns: int) -> None:
        self.began_ns, self.since_ns = began_ns, since_ns
        self.total: float = 0
        self.interval = _Amount()
        self.level: float = 0
        self.highest: float = 0
        self.rate = 0.0
        self.seconds = 0.0

    def add(self, series: _Series, seconds: float, *, live: bool) -> None:
        self.total += series.total
        self.interval.absorb(series.collected)
        self.rate += series.collected.total / max(_SHORTEST_S, seconds)
        self.seconds += seconds
        if live:
            self.level += series.level
            self.highest = max(self.highest, series.level)


class Collector:
    """Computes the metrics for a client's next push to its broker.

    Holds the latest totals of each source, and their changes since the last push that a broker has accepted. If a push
    fails, the next push therefore also covers its interval.
    """

    def __init__(self) -> None:
        self._clients: list[_Client] = []
        self._since: Instant | None = None
        """Time at which the last accepted push was collected."""
        self._collected: Instant | None = None

    @property
    def empty(self) -> bool:
        """True if there are no sources."""
        return not self._clients

    def add(self, source: Source, began: Instant) -> None:
        """Add a source whose counts start at this time."""
        self._clients.append(_Client(source, began))

    def remove(self, source: Source, *, keep: bool) -> None:
        """Remove a source that has ended.

        If ``keep`` is True, the next push still includes its counts. Pass False if there will be no further push.
        """
        for client in self._clients:
            if client.source is source:
                if keep:
                    client.end()
                    self._fold(client)
                else:
                    self._clients.remove(client)
                break
        ended = [client for client in self._clients if client.source is None]
        if len(ended) > _MOST_ENDED:  # No broker has accepted a push for a long time, so drop the oldest counts.
            self._clients.remove(ended[0])

    def _fold(self, ended: _Client) -> None:
        """Add the sums of an ended source to another source with the same attributes.

        The sum of all sources must not decrease.
        """
        for client in self._clients:
            if client.source is None or client.resource != ended.resource:
                continue
            if not client.series:
                client.read()
            if not client.series.keys().isdisjoint(ended.series):
                client.absorb(ended)
                self._clients.remove(ended)
                return

    def collect(self, now: Instant, subscription: Subscription) -> list[ResourceMetrics]:
        """Return the current values of the subscribed metrics. Clients with the same attributes are combined."""
        self._collected = now
        for client in list(self._clients):  # The application may add or remove metrics while this loop runs.
            client.collect()
        by_resource: dict[Attributes, list[_Client]] = {}
        for client in self._clients:
            by_resource.setdefault(client.resource, []).append(client)
        collected = [
            ResourceMetrics(resource, list(self._metrics(clients, now, subscription)))
            for resource, clients in by_resource.items()
        ]
        return [resource for resource in collected if resource.metrics]

    def accepted(self) -> None:
        """Record that a broker has accepted the last collection. The next one begins where it ended."""
        self._since = self._collected
        self._clients = [client for client in self._clients if not client.over]
        for client in self._clients:
            client.accepted()

    def _metrics(self, clients: list[_Client], now: Instant, subscription: Subscription) -> Iterator[Metric]:
        points: dict[tuple[str, bool], list[Point]] = {}
        for (kind, name, attributes), each in self._sums(clients, now).items():
            for suffix, is_sum, value in _values(kind, each, subscription.delta):
                full_name = f"{PREFIX}{name}{suffix}"
                if subscription.wants(full_name):
                    start_ns = (each.since_ns if subscription.delta else each.began_ns) if is_sum else 0
                    point = Point(value, now.unix_ns, start_ns, attributes)
                    points.setdefault((full_name, is_sum), []).append(point)
        for (full_name, is_sum), found in points.items():
            yield Metric(full_name, found, is_sum, delta=is_sum and subscription.delta)

    def _sums(self, clients: list[_Client], now: Instant) -> dict[Key, _Sum]:
        sums: dict[Key, _Sum] = {}
        for client in clients:
            since = client.began if self._since is None else max(client.began, self._since)
            for key, series in client.series.items():
                found = sums.get(key)
                if found is None:
                    found = sums[key] = _Sum(client.began.unix_ns, since.unix_ns)
                found.began_ns = min(found.began_ns, client.began.unix_ns)
                found.since_ns = min(found.since_ns, since.unix_ns)
                found.add(series, now.monotonic_s - since.monotonic_s, live=client.source is not None)
        return sums


def _values(kind: Kind, each: _Sum, delta: bool) -> Iterator[tuple[str, bool, float]]:
    """Yield each metric of a measure: the suffix of its name, whether it is a sum, and its value."""
    so_far = each.interval.total if delta else each.total
    if kind is Kind.TOTAL:
        yield "", True, so_far
    elif kind is Kind.METER:
        yield ".rate", False, each.rate
        yield ".total", True, so_far
    elif kind is Kind.SPREAD:
        if each.interval.count:
            yield ".avg", False, each.interval.total / each.interval.count
            yield ".max", False, each.interval.peak
    elif kind is Kind.SHARE:
        if each.seconds > 0:
            yield "", False, min(1.0, each.interval.total / each.seconds)
    elif kind is Kind.LEVEL:
        yield "", False, each.level
    else:
        yield "", False, each.highest
