"""Metrics for Prometheus: what `metrics`, `lag` and `health` of clients say, as `prometheus_client` collects it.

    from prometheus_client import REGISTRY
    from aiokafka_lead.prometheus import KafkaCollector

    REGISTRY.register(KafkaCollector(producer, consumer))

Needs the ``prometheus`` extra. Nothing is counted for it: the clients count anyway, and are asked at each scrape.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ._core.latencies import LatencyHistogram
from .consumer import Consumer, ConsumerMetrics
from .errors import ConfigTypeError
from .pipeline import TransactionPipeline
from .producer import Producer
from .share import ShareConsumer, ShareConsumerMetrics

__all__ = ["KafkaCollector"]

T = TypeVar("T")
Single = Producer[Any, Any] | Consumer[Any, Any] | ShareConsumer[Any, Any]
Client = Single | TransactionPipeline[Any, Any]


class _Figure(NamedTuple):
    """A metric: where its value comes from, its name, and what it says."""

    of: Callable[[Any], float | None]
    name: str
    text: str
    gauge: bool = False


_PRODUCER = (
    _Figure(
        lambda m: m.records_expired,
        "kafka_producer_records_expired",
        "Records not acknowledged within delivery_timeout_ms.",
    ),
    _Figure(lambda m: m.requests, "kafka_producer_requests", "Produce requests."),
    _Figure(lambda m: m.bytes_sent, "kafka_producer_sent_bytes", "Bytes of record batches sent, each try counted."),
    _Figure(lambda m: m.retries, "kafka_producer_batch_retries", "Batches sent again."),
    _Figure(lambda m: m.batches_split, "kafka_producer_batches_split", "Batches that a broker found too large."),
    _Figure(lambda m: m.buffer_waits, "kafka_producer_buffer_waits", "Sends that had to wait for buffer_memory."),
    _Figure(
        lambda m: m.leader_moves,
        "kafka_producer_leader_moves",
        "Refusals by a former leader that another one made good.",
    ),
    _Figure(lambda m: m.buffer_used_bytes, "kafka_producer_buffer_used_bytes", "Bytes of buffer_memory in use.", True),
    _Figure(
        lambda m: m.batches_pending, "kafka_producer_batches_pending", "Batches neither acknowledged nor failed.", True
    ),
)
_PRODUCER_TOPIC = (
    _Figure(lambda m: m.records_acked, "kafka_producer_records_acked", "Records acknowledged."),
    _Figure(lambda m: m.records_failed, "kafka_producer_records_failed", "Records given up."),
    _Figure(lambda m: m.batches_acked, "kafka_producer_batches_acked", "Batches acknowledged."),
)
_CONSUMER = (
    _Figure(lambda m: m.fetches, "kafka_consumer_fetches", "Fetch requests."),
    _Figure(lambda m: m.failed_fetches, "kafka_consumer_failed_fetches", "Fetch requests without an answer."),
    _Figure(lambda m: m.offset_resets, "kafka_consumer_offset_resets", "Positions that auto_offset_reset moved."),
    _Figure(
        lambda m: m.leader_moves,
        "kafka_consumer_leader_moves",
        "Refusals by a former leader that another one made good.",
    ),
    _Figure(lambda m: m.buffered_bytes, "kafka_consumer_buffered_bytes", "Bytes fetched and not yet handed out.", True),
)
_CONSUMER_TOPIC = (
    _Figure(lambda m: m.records_consumed, "kafka_consumer_records", "Records handed out to the application."),
    _Figure(lambda m: m.bytes_fetched, "kafka_consumer_fetched_bytes", "Bytes of record batches received."),
)
_PARTITION = (
    _Figure(lambda m: m.position, "kafka_consumer_position", "The offset of the next record.", True),
    _Figure(lambda m: m.high_watermark, "kafka_consumer_high_watermark", "The offset behind the last record.", True),
)
_SHARE = (
    _Figure(lambda m: m.fetches, "kafka_share_consumer_fetches", "Fetch requests."),
    _Figure(lambda m: m.failed_fetches, "kafka_share_consumer_failed_fetches", "Fetch requests without an answer."),
    _Figure(
        lambda m: m.leader_moves,
        "kafka_share_consumer_leader_moves",
        "Refusals by a former leader that another one made good.",
    ),
    _Figure(
        lambda m: m.buffered_records, "kafka_share_consumer_buffered_records", "Acquired and not yet handed out.", True
    ),
)
_SHARE_TOPIC = (
    _Figure(lambda m: m.records_consumed, "kafka_share_consumer_records", "Records handed out to the application."),
    _Figure(lambda m: m.bytes_fetched, "kafka_share_consumer_fetched_bytes", "Bytes of record batches received."),
    _Figure(lambda m: m.records_accepted, "kafka_share_consumer_records_accepted", "Records accepted."),
    _Figure(lambda m: m.records_released, "kafka_share_consumer_records_released", "Records given back to the group."),
    _Figure(lambda m: m.records_rejected, "kafka_share_consumer_records_rejected", "Records rejected."),
    _Figure(lambda m: m.locks_renewed, "kafka_share_consumer_locks_renewed", "Locks renewed."),
    _Figure(lambda m: m.records_lost, "kafka_share_consumer_records_lost", "Records whose lock was lost before."),
)

_HISTOGRAMS: tuple[tuple[str, Callable[[ConsumerMetrics], LatencyHistogram], str], ...] = (
    (
        "kafka_consumer_fetch_latency_seconds",
        lambda m: m.fetch_latency,
        "From a fetch request to its answer, time that the broker waited for records included.",
    ),
    ("kafka_consumer_commit_latency_seconds", lambda m: m.commit_latency, "Of commits that were stored."),
    (
        "kafka_consumer_rebalance_latency_seconds",
        lambda m: m.rebalance_latency,
        "From when the member knew of a rebalance to when it had its partitions.",
    ),
)
_SHARE_HISTOGRAMS: tuple[tuple[str, Callable[[ShareConsumerMetrics], LatencyHistogram], str], ...] = (
    (
        "kafka_share_consumer_fetch_latency_seconds",
        lambda m: m.fetch_latency,
        "From a fetch request to its answer, time that the broker waited for records included.",
    ),
    (
        "kafka_share_consumer_acknowledge_latency_seconds",
        lambda m: m.acknowledge_latency,
        "From a request with acknowledgements to its answer.",
    ),
)


class KafkaCollector(Collector):
    """A collector of these producers, pipelines and consumers, and of those that are added later.

    Metrics have the label ``client_id``, by which clients of one process are told apart: give each its own. The
    producers of a pipeline have the pipeline's, with ``-0``, ``-1`` and so on. A client that is added while another one
    of its kind has the same ``client_id`` is called by that with ``-2``, ``-3`` and so on, as long as it is there: a
    scrape with a series twice would be refused whole.
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

    def describe(self) -> Iterable[Metric]:
        """Nothing: names depend on no client, but the registry need not know them before."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """What the clients say now. Called in any thread."""
        named = [(name, client) for client, name in self._names.copy().items()]
        yield from _of_producers([(name, client) for name, client in named if isinstance(client, Producer)])
        yield from _of_consumers([(name, client) for name, client in named if isinstance(client, Consumer)])
        yield from _of_share_consumers([(name, client) for name, client in named if isinstance(client, ShareConsumer)])

    def _free_name(self, client: Single) -> str:
        """One that no other client of its kind has: their metrics have the same names."""
        taken = {name for other, name in self._names.items() if _kind(other) is _kind(client)}
        numbered = (f"{client.client_id}-{number}" for number in itertools.count(2))
        return next(name for name in itertools.chain((client.client_id,), numbered) if name not in taken)


def _singles(client: Client) -> list[Single]:
    return [*client._producers] if isinstance(client, TransactionPipeline) else [client]


def _kind(client: Single) -> type[Single]:
    kinds: tuple[type[Single], ...] = (Producer, Consumer, ShareConsumer)
    return next(kind for kind in kinds if isinstance(client, kind))


def _of_producers(producers: list[tuple[str, Producer[Any, Any]]]) -> Iterator[Metric]:
    found = [(name, _look(producer.metrics)) for name, producer in producers]
    yield from _counts(_PRODUCER, _PRODUCER_TOPIC, found)
    yield _histogram(
        "kafka_producer_send_latency_seconds",
        "From the first record of a batch to its acknowledgement.",
        [(name, metrics.send_latency) for name, metrics in found],
    )
    yield _healths("kafka_producer_healthy", [(name, _look(producer.health).healthy) for name, producer in producers])


def _of_consumers(consumers: list[tuple[str, Consumer[Any, Any]]]) -> Iterator[Metric]:
    found = [(name, _look(consumer.metrics)) for name, consumer in consumers]
    yield from _counts(_CONSUMER, _CONSUMER_TOPIC, found)
    places = [
        ([name, tp.topic, str(tp.partition)], each)
        for name, metrics in found
        for tp, each in metrics.partitions.items()
    ]
    yield from _figures(_PARTITION, ["client_id", "topic", "partition"], places)
    lag = GaugeMetricFamily(
        "kafka_consumer_lag", "Offsets between what is done and the end.", labels=["client_id", "topic", "partition"]
    )
    for name, consumer in consumers:
        for tp, behind in _look(consumer.lag).partitions.items():
            if behind is not None:
                lag.add_metric([name, tp.topic, str(tp.partition)], behind)
    yield lag
    for metric, of, text in _HISTOGRAMS:
        yield _histogram(metric, text, [(name, of(metrics)) for name, metrics in found])
    healths = [(name, _look(consumer.health)) for name, consumer in consumers]
    yield _healths("kafka_consumer_healthy", [(name, health.healthy) for name, health in healths])
    stuck = GaugeMetricFamily(
        "kafka_consumer_stuck_partitions", "Partitions that health() finds not to advance.", labels=["client_id"]
    )
    for name, health in healths:
        stuck.add_metric([name], len(health.stuck))
    yield stuck


def _of_share_consumers(consumers: list[tuple[str, ShareConsumer[Any, Any]]]) -> Iterator[Metric]:
    found = [(name, _look(consumer.metrics)) for name, consumer in consumers]
    yield from _counts(_SHARE, _SHARE_TOPIC, found)
    for metric, of, text in _SHARE_HISTOGRAMS:
        yield _histogram(metric, text, [(name, of(metrics)) for name, metrics in found])
    yield _healths(
        "kafka_share_consumer_healthy", [(name, _look(consumer.health).healthy) for name, consumer in consumers]
    )


def _counts(
    figures: Iterable[_Figure], by_topic: Iterable[_Figure], found: Sequence[tuple[str, Any]]
) -> Iterator[Metric]:
    """The counts of clients of one kind, and those of their topics."""
    yield from _figures(figures, ["client_id"], [([name], metrics) for name, metrics in found])
    topics = [([name, topic], each) for name, metrics in found for topic, each in metrics.topics.items()]
    yield from _figures(by_topic, ["client_id", "topic"], topics)


def _figures(figures: Iterable[_Figure], labels: list[str], rows: list[tuple[list[str], Any]]) -> Iterator[Metric]:
    for figure in figures:
        kind = GaugeMetricFamily if figure.gauge else CounterMetricFamily
        family = kind(figure.name, figure.text, labels=labels)
        for values, metrics in rows:
            value = figure.of(metrics)
            if value is not None:
                family.add_metric(values, value)
        yield family


def _histogram(name: str, text: str, rows: Iterable[tuple[str, LatencyHistogram]]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=["client_id"])
    for client_id, histogram in rows:
        buckets, so_far = [], 0
        for bound_ms, count in zip(histogram.bounds_ms, histogram.counts, strict=False):
            so_far += count
            buckets.append((str(bound_ms / 1000), float(so_far)))
        buckets.append(("+Inf", float(histogram.count)))
        family.add_metric([client_id], buckets, histogram.sum_ms / 1000)
    return family


def _healths(name: str, rows: Iterable[tuple[str, bool]]) -> Metric:
    family = GaugeMetricFamily(name, "1 while health() finds no problem.", labels=["client_id"])
    for client_id, healthy in rows:
        family.add_metric([client_id], float(healthy))
    return family


def _look(ask: Callable[[], T]) -> T:
    """What a client says, asked in another thread than its own: what it iterates over may change meanwhile."""
    for _ in range(10):
        try:
            return ask()
        except RuntimeError:
            continue
    return ask()
