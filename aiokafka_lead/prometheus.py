"""Metrics for Prometheus: what `metrics`, `lag` and `health` of clients say, as `prometheus_client` collects it.

    from prometheus_client import REGISTRY
    from aiokafka_lead.prometheus import KafkaCollector

    REGISTRY.register(KafkaCollector(producer, consumer))

Needs the ``prometheus`` extra. Nothing is counted for it: the clients count anyway, and are asked at each scrape.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from .consumer import Consumer
from .errors import ConfigTypeError
from .producer import Producer
from .producer.pipeline import TransactionPipeline
from .share import ShareConsumer

__all__ = ["METRICS", "KafkaCollector", "KafkaMetric"]

T = TypeVar("T")
Single = Producer[Any, Any] | Consumer[Any, Any] | ShareConsumer[Any, Any]
Client = Single | TransactionPipeline[Any, Any]


class _Seen(NamedTuple):
    """What one client says, at one moment."""

    name: str
    metrics: Any
    health: Any
    lag: Any


_Rows = Callable[[_Seen], Iterable[tuple[tuple[str, ...], Any]]]
"""Values of a client, each with those of the labels beside ``client_id``."""


class KafkaMetric(NamedTuple):
    """One of `METRICS`. A scrape shows a counter with ``_total`` behind its name."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    source: tuple[tuple[str, ...], _Rows]
    text: str

    @property
    def labels(self) -> tuple[str, ...]:
        """In order."""
        return ("client_id", *self.source[0])

    @property
    def unit(self) -> str:
        """``"seconds"``, ``"bytes"``, or nothing: then it counts what its name says."""
        return next((unit for unit in ("seconds", "bytes") if self.name.endswith(f"_{unit}")), "")

    def family(self, clients: Iterable[_Seen]) -> Any:
        """What a scrape gets of it."""
        family: Any = _FAMILIES[self.kind](self.name, self.text, labels=self.labels)
        for seen in clients:
            for labels, value in self.source[1](seen):
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


def _own(attribute: str) -> tuple[tuple[str, ...], _Rows]:
    of = attrgetter(attribute)
    return (), lambda seen: [((), of(seen.metrics))]


def _by_topic(attribute: str) -> tuple[tuple[str, ...], _Rows]:
    of = attrgetter(attribute)
    return ("topic",), lambda seen: [((topic,), of(each)) for topic, each in seen.metrics.topics.items()]


def _by_partition(of_client: Callable[[_Seen], Mapping[Any, Any]], of: Callable[[Any], Any]) -> Any:
    def rows(seen: _Seen) -> Iterable[tuple[tuple[str, ...], Any]]:
        return [((tp.topic, str(tp.partition)), of(each)) for tp, each in of_client(seen).items()]

    return ("topic", "partition"), rows


_PLACES: Callable[[_Seen], Mapping[Any, Any]] = attrgetter("metrics.partitions")
_HEALTHY: tuple[tuple[str, ...], _Rows] = ((), lambda seen: [((), float(seen.health.healthy))])
_STUCK: tuple[tuple[str, ...], _Rows] = ((), lambda seen: [((), len(seen.health.stuck))])

_MOVES = "Refusals by a former leader that another one made good."
_FETCH_LATENCY = "From a fetch request to its answer, time that the broker waited for records included."
_SOUND = "1 while health() finds no problem."

_PRODUCER = (
    KafkaMetric("kafka_producer_records_acked", "counter", _by_topic("records_acked"), "Records acknowledged."),
    KafkaMetric("kafka_producer_records_failed", "counter", _by_topic("records_failed"), "Records given up."),
    KafkaMetric(
        "kafka_producer_records_expired",
        "counter",
        _own("records_expired"),
        "Of those given up, records not acknowledged within delivery_timeout_ms.",
    ),
    KafkaMetric("kafka_producer_batches_acked", "counter", _by_topic("batches_acked"), "Batches acknowledged."),
    KafkaMetric("kafka_producer_requests", "counter", _own("requests"), "Produce requests."),
    KafkaMetric(
        "kafka_producer_sent_bytes", "counter", _own("bytes_sent"), "Bytes of record batches sent, each try counted."
    ),
    KafkaMetric(
        "kafka_producer_sent_in_rack_bytes",
        "counter",
        _own("bytes_sent_in_rack"),
        "Of the bytes sent, those to brokers in client_rack.",
    ),
    KafkaMetric("kafka_producer_batch_retries", "counter", _own("retries"), "Batches sent again."),
    KafkaMetric(
        "kafka_producer_batches_split", "counter", _own("batches_split"), "Batches that a broker found too large."
    ),
    KafkaMetric(
        "kafka_producer_buffer_waits", "counter", _own("buffer_waits"), "Sends that had to wait for buffer_memory."
    ),
    KafkaMetric("kafka_producer_leader_moves", "counter", _own("leader_moves"), _MOVES),
    KafkaMetric(
        "kafka_producer_buffer_used_bytes", "gauge", _own("buffer_used_bytes"), "Bytes of buffer_memory in use."
    ),
    KafkaMetric(
        "kafka_producer_batches_pending", "gauge", _own("batches_pending"), "Batches neither acknowledged nor failed."
    ),
    KafkaMetric(
        "kafka_producer_send_latency_seconds",
        "histogram",
        _own("send_latency"),
        "From the first record of a batch to its acknowledgement.",
    ),
    KafkaMetric("kafka_producer_healthy", "gauge", _HEALTHY, _SOUND),
)
_CONSUMER = (
    KafkaMetric(
        "kafka_consumer_records", "counter", _by_topic("records_consumed"), "Records handed out to the application."
    ),
    KafkaMetric(
        "kafka_consumer_fetched_bytes", "counter", _by_topic("bytes_fetched"), "Bytes of record batches received."
    ),
    KafkaMetric("kafka_consumer_fetches", "counter", _own("fetches"), "Fetch requests."),
    KafkaMetric(
        "kafka_consumer_failed_fetches", "counter", _own("failed_fetches"), "Fetch requests without an answer."
    ),
    KafkaMetric(
        "kafka_consumer_offset_resets", "counter", _own("offset_resets"), "Positions that auto_offset_reset moved."
    ),
    KafkaMetric("kafka_consumer_leader_moves", "counter", _own("leader_moves"), _MOVES),
    KafkaMetric(
        "kafka_consumer_buffered_bytes", "gauge", _own("buffered_bytes"), "Bytes fetched and not yet handed out."
    ),
    KafkaMetric(
        "kafka_consumer_position",
        "gauge",
        _by_partition(_PLACES, attrgetter("position")),
        "The offset of the next record.",
    ),
    KafkaMetric(
        "kafka_consumer_high_watermark",
        "gauge",
        _by_partition(_PLACES, attrgetter("high_watermark")),
        "The offset behind the last record.",
    ),
    KafkaMetric(
        "kafka_consumer_lag",
        "gauge",
        _by_partition(attrgetter("lag.partitions"), lambda behind: behind),
        "Offsets between what is done and the end.",
    ),
    KafkaMetric("kafka_consumer_fetch_latency_seconds", "histogram", _own("fetch_latency"), _FETCH_LATENCY),
    KafkaMetric(
        "kafka_consumer_commit_latency_seconds", "histogram", _own("commit_latency"), "Of commits that were stored."
    ),
    KafkaMetric(
        "kafka_consumer_rebalance_latency_seconds",
        "histogram",
        _own("rebalance_latency"),
        "From when the member knew of a rebalance to when it had its partitions.",
    ),
    KafkaMetric("kafka_consumer_healthy", "gauge", _HEALTHY, _SOUND),
    KafkaMetric("kafka_consumer_stuck_partitions", "gauge", _STUCK, "Partitions that health() finds not to advance."),
)
_SHARE_CONSUMER = (
    KafkaMetric(
        "kafka_share_consumer_records",
        "counter",
        _by_topic("records_consumed"),
        "Records handed out, each delivery counted.",
    ),
    KafkaMetric(
        "kafka_share_consumer_fetched_bytes", "counter", _by_topic("bytes_fetched"), "Bytes of record batches received."
    ),
    KafkaMetric("kafka_share_consumer_records_accepted", "counter", _by_topic("records_accepted"), "Records accepted."),
    KafkaMetric(
        "kafka_share_consumer_records_released",
        "counter",
        _by_topic("records_released"),
        "Records given back to the group.",
    ),
    KafkaMetric("kafka_share_consumer_records_rejected", "counter", _by_topic("records_rejected"), "Records rejected."),
    KafkaMetric("kafka_share_consumer_locks_renewed", "counter", _by_topic("locks_renewed"), "Locks renewed."),
    KafkaMetric(
        "kafka_share_consumer_records_lost",
        "counter",
        _by_topic("records_lost"),
        "Records whose lock ended before they were acknowledged: they are delivered again.",
    ),
    KafkaMetric("kafka_share_consumer_fetches", "counter", _own("fetches"), "Fetch requests."),
    KafkaMetric(
        "kafka_share_consumer_failed_fetches", "counter", _own("failed_fetches"), "Fetch requests without an answer."
    ),
    KafkaMetric("kafka_share_consumer_leader_moves", "counter", _own("leader_moves"), _MOVES),
    KafkaMetric(
        "kafka_share_consumer_buffered_records",
        "gauge",
        _own("buffered_records"),
        "Records acquired and not yet handed out.",
    ),
    KafkaMetric("kafka_share_consumer_fetch_latency_seconds", "histogram", _own("fetch_latency"), _FETCH_LATENCY),
    KafkaMetric(
        "kafka_share_consumer_acknowledge_latency_seconds",
        "histogram",
        _own("acknowledge_latency"),
        "From a request with acknowledgements to its answer.",
    ),
    KafkaMetric("kafka_share_consumer_healthy", "gauge", _HEALTHY, _SOUND),
)


METRICS: Mapping[type[Single], tuple[KafkaMetric, ...]] = {
    Producer: _PRODUCER,
    Consumer: _CONSUMER,
    ShareConsumer: _SHARE_CONSUMER,
}
"""All that a scrape shows, by kind of client."""


class KafkaCollector(Collector):
    """A collector of these producers, pipelines and consumers, and of those that are added later.

    A registry takes one: register it, and `add` clients to it wherever they are made. Metrics are those of `METRICS`,
    with the label ``client_id``, by which clients of one process are told apart: give each its own. The producers of a
    pipeline have the pipeline's, with ``-0``, ``-1`` and so on. A client that is added while another one of its kind
    has the same ``client_id`` is called by that with ``-2``, ``-3`` and so on, as long as it is there: a scrape with a
    series twice would be refused whole.
    """

    def __init__(self, *clients: Client) -> None:
        """Raises `ConfigTypeError` for anything but such a client."""
        self._names: dict[Single, str] = {}
        """What each client is called, a pipeline's producers each for itself."""
        for client in clients:
            self.add(client)

    def add(self, client: Client) -> None:
        """Collect from this one, too."""
        if not isinstance(client, Producer | TransactionPipeline | Consumer | ShareConsumer):
            raise ConfigTypeError(
                "client must be a Producer, a TransactionPipeline, a Consumer or a ShareConsumer, not "
                f"{type(client).__name__}"
            )
        for each in _singles(client):
            if each not in self._names:
                self._names[each] = self._free_name(each)

    def remove(self, client: Client) -> None:
        """Collect no more from this one, which was stopped, say."""
        for each in _singles(client):
            self._names.pop(each, None)

    def describe(self) -> Iterator[Metric]:
        """Every metric without values: a registry refuses a second collector of the same at once."""
        for metric in itertools.chain.from_iterable(METRICS.values()):
            yield metric.family(())

    def collect(self) -> Iterator[Metric]:
        """What the clients say now. Called in any thread."""
        named = self._names.copy()
        for kind, metrics in METRICS.items():
            seen = [_see(client, name) for client, name in named.items() if isinstance(client, kind)]
            for metric in metrics:
                yield metric.family(seen)

    def _free_name(self, client: Single) -> str:
        """One that no other client of its kind has: their metrics have the same names."""
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
    """What a client says, asked in another thread than its own: what it iterates over may change meanwhile."""
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
