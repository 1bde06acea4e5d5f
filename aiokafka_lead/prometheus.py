"""Metrics for Prometheus: exports the `metrics`, `lag` and `health` of clients with `prometheus_client`.

    from prometheus_client import REGISTRY
    from aiokafka_lead.prometheus import KafkaCollector

    REGISTRY.register(KafkaCollector(producer, consumer))

Needs the ``prometheus`` extra. A collector has no cost between scrapes, because it only reads counts that the clients
keep anyway.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ._values import NamedTuple
from .consumer import Consumer
from .errors import ConfigTypeError
from .metrics import ConsumerMetrics, ProducerMetrics, ShareConsumerMetrics, figures
from .outbox import Relay, RelayMetrics
from .producer import Producer
from .producer.pipeline import TransactionPipeline
from .share import ShareConsumer

__all__ = ["METRICS", "KafkaCollector", "KafkaMetric"]

T = TypeVar("T")
Single = Producer[Any, Any] | Consumer[Any, Any] | ShareConsumer[Any, Any] | Relay
Client = Single | TransactionPipeline[Any, Any]


class _Seen(NamedTuple):
    """State of a client at one moment, with the value of its label ``client_id``."""

    name: str
    metrics: Any
    health: Any
    lag: Any


_Rows = Callable[[_Seen], Iterable[tuple[tuple[str, ...], Any]]]
"""Function that returns a client's values, each with the values of its labels other than ``client_id``."""


class KafkaMetric(NamedTuple):
    """A metric in `METRICS`. In a scrape, the name of a counter ends with ``_total``."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    text: str
    labels: tuple[str, ...]
    """Names of the labels in order, ``client_id`` first."""
    rows: _Rows

    @property
    def unit(self) -> str:
        """``"seconds"``, ``"bytes"``, or an empty str for a plain count."""
        return next((unit for unit in ("seconds", "bytes") if self.name.endswith(f"_{unit}")), "")

    def family(self, clients: Iterable[_Seen]) -> Any:
        """Return the metric with its values for a scrape."""
        family: Any = _FAMILIES[self.kind](self.name, self.text, labels=self.labels)
        for seen in clients:
            for labels, value in self.rows(seen):
                if self.kind == "histogram":
                    family.add_metric([seen.name, *labels], _buckets(value), value.sum_ms / 1000)
                elif value is not None:
                    family.add_metric([seen.name, *labels], value)
        return family


_FAMILIES: dict[str, Any] = {
    "counter": CounterMetricFamily,
    "gauge": GaugeMetricFamily,
    "histogram": HistogramMetricFamily,
}


def _of(prefix: str, metrics: type) -> Iterator[KafkaMetric]:
    """Yield those metrics of a class that are exported."""
    texts = _texts(metrics)
    for name, figure in figures(metrics).items():
        if figure.rows is not None:
            labels = ("client_id", "topic", "partition") if name == "partitions" else ("client_id", "topic")
            inner_texts = _texts(figure.rows)
            for inner, each in figures(figure.rows).items():
                if each.prometheus:
                    rows = _each(attrgetter(f"metrics.{name}"), attrgetter(inner))
                    yield KafkaMetric(prefix + each.prometheus, each.kind, inner_texts.get(inner, ""), labels, rows)
        elif figure.prometheus:
            rows = _own(attrgetter(f"metrics.{name}"))
            yield KafkaMetric(prefix + figure.prometheus, figure.kind, texts.get(name, ""), ("client_id",), rows)


def _texts(metrics: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class.

    The result is empty if there is no source, as in a program that is bundled as a single file.
    """
    body = _classes(metrics.__module__).get(metrics.__name__, ())
    return {
        field.target.id: re.sub(r"\s+", " ", str(text.value.value)).replace("``", "")
        for field, text in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
    }


@functools.cache
def _classes(module: str) -> dict[str, list[ast.stmt]]:
    """Return the body of each class in a module's source, by the name of the class."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError):  # TypeError: modules in memory have no ``__file__``
        return {}
    return {node.name: node.body for node in tree.body if isinstance(node, ast.ClassDef)}


def _own(of: Callable[[_Seen], Any]) -> _Rows:
    return lambda seen: [((), of(seen))]


def _each(mapping: Callable[[_Seen], Mapping[Any, Any]], of: Callable[[Any], Any]) -> _Rows:
    return lambda seen: [
        ((key,) if isinstance(key, str) else (key.topic, str(key.partition)), of(row))
        for key, row in mapping(seen).items()
    ]


def _healthy(prefix: str) -> KafkaMetric:
    text = "1 if health() reports no problem, otherwise 0."
    return KafkaMetric(f"{prefix}healthy", "gauge", text, ("client_id",), _own(lambda seen: float(seen.health.healthy)))


METRICS: Mapping[type[Single], tuple[KafkaMetric, ...]] = {
    Producer: (*_of("kafka_producer_", ProducerMetrics), _healthy("kafka_producer_")),
    Consumer: (
        *_of("kafka_consumer_", ConsumerMetrics),
        KafkaMetric(
            "kafka_consumer_lag",
            "gauge",
            "Number of offsets from the first unfinished record to the end of the partition.",
            ("client_id", "topic", "partition"),
            _each(attrgetter("lag.partitions"), lambda behind: behind),
        ),
        _healthy("kafka_consumer_"),
        KafkaMetric(
            "kafka_consumer_stuck_partitions",
            "gauge",
            "Number of partitions that do not advance, according to health().",
            ("client_id",),
            _own(lambda seen: len(seen.health.stuck)),
        ),
    ),
    ShareConsumer: (*_of("kafka_share_consumer_", ShareConsumerMetrics), _healthy("kafka_share_consumer_")),
    Relay: (
        *_of("kafka_outbox_", RelayMetrics),
        KafkaMetric(
            "kafka_outbox_oldest_waiting_seconds",
            "gauge",
            "Age of the oldest record that waits in the relay's shards, or 0 if no record waits.",
            ("client_id",),
            _own(lambda seen: seen.metrics.oldest_waiting_ms / 1000),
        ),
        _healthy("kafka_outbox_"),
    ),
}
"""All exported metrics by kind of client."""


class KafkaCollector(Collector):
    """Collector of the metrics of producers, pipelines, consumers and relays, for `prometheus_client`.

        collector = KafkaCollector(producer)
        REGISTRY.register(collector)
        collector.add(consumer)

    A registry accepts only one `KafkaCollector`, so register one, and `add` clients as you create them. `METRICS` lists
    all metrics. Their label ``client_id`` distinguishes the clients of a process, so give each client a different
    ``client_id``. A pipeline's producers have the pipeline's ``client_id`` with ``-0``, ``-1`` and so on.

    If another client of the same kind already has the ``client_id`` of an added client, the added client's label has
    the suffix ``-2``, ``-3`` and so on until it is removed. Duplicate labels would make Prometheus reject the scrape.
    """

    def __init__(self, *clients: Client) -> None:
        """Collect from these clients. Raises `ConfigTypeError` for an object of another type."""
        self._names: dict[Single, str] = {}
        """Label of each client. The producers of a pipeline are separate entries."""
        for client in clients:
            self.add(client)

    def add(self, client: Client) -> None:
        """Also collect from this client. Raises `ConfigTypeError` for an object of another type."""
        if not isinstance(client, Producer | TransactionPipeline | Consumer | ShareConsumer | Relay):
            raise ConfigTypeError(
                "client must be a Producer, a TransactionPipeline, a Consumer, a ShareConsumer or a Relay, not "
                f"{type(client).__name__}"
            )
        for each in _singles(client):
            if each not in self._names:
                self._names[each] = self._free_name(each)

    def remove(self, client: Client) -> None:
        """Stop collecting from this client, for example after it was stopped."""
        for each in _singles(client):
            self._names.pop(each, None)

    def describe(self) -> Iterator[Metric]:
        """Yield every metric without values.

        A registry uses them to reject a second `KafkaCollector` when it is registered.
        """
        for metric in itertools.chain.from_iterable(METRICS.values()):
            yield metric.family(())

    def collect(self) -> Iterator[Metric]:
        """Yield the current values of the clients. May be called in any thread."""
        named = self._names.copy()
        for kind, metrics in METRICS.items():
            seen = [_see(client, name) for client, name in named.items() if isinstance(client, kind)]
            for metric in metrics:
                yield metric.family(seen)

    def _free_name(self, client: Single) -> str:
        """Return a label for the client that no other client of its kind has."""
        taken = {name for other, name in self._names.items() if _kind(other) is _kind(client)}
        numbered = (f"{client.client_id}-{number}" for number in itertools.count(2))
        return next(name for name in itertools.chain((client.client_id,), numbered) if name not in taken)


def _singles(client: Client) -> list[Single]:
    return [*client._producers] if isinstance(client, TransactionPipeline) else [client]


def _kind(client: Single) -> type[Single]:
    return next(kind for kind in METRICS if isinstance(client, kind))


def _see(client: Single, name: str) -> _Seen:
    lag = _look(client.lag) if isinstance(client, Consumer) else None
    return _Seen(name, _look(client.metrics), _look(client.health), lag)


def _look(ask: Callable[[], T]) -> T:
    """Call ``ask`` in a thread other than the client's.

    The call is repeated if the client changes a collection while ``ask`` iterates over it.
    """
    for _ in range(10):
        try:
            return ask()
        except RuntimeError:
            continue
    return ask()


def _buckets(histogram: Any) -> list[tuple[str, float]]:
    bounds = [str(bound_ms / 1000) for bound_ms in histogram.bounds_ms]
    counts = map(float, itertools.accumulate(histogram.counts))
    return [*zip(bounds, counts, strict=False), ("+Inf", float(histogram.count))]
