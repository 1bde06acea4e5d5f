"""Every counter shows in the metrics, under its own name."""

import pytest

from aiokafka_lead._core.consumer.reading import ConsumerCounters
from aiokafka_lead._core.counting import counts_of
from aiokafka_lead._core.leadership.patience import LeaderMoveCounters
from aiokafka_lead._core.metadata.rebootstrap import HintOutcome, MetadataCounters, RebootstrapCause
from aiokafka_lead._core.producer.counters import ProducerCounters
from aiokafka_lead._core.share.counters import ShareCounters, TopicCounts
from aiokafka_lead.metrics import (
    ConsumerMetrics,
    MetadataMetrics,
    ProducerMetrics,
    ShareConsumerMetrics,
    ShareTopicMetrics,
)

MEASURED = {
    *("answers", "answered_at", "fetch_latency_s", "unexpected_partitions", "moves", "acked_at", "on_settled"),
    *("topic_bytes", "decoded"),
}
"""Inputs of computed metrics, and counters for tests alone."""


def names(counters: object) -> set[str]:
    return {name for name in dir(counters) if not name.startswith("_") and not callable(getattr(counters, name))}


@pytest.mark.parametrize(
    ("metrics", "counters"),
    [
        (ProducerMetrics, ProducerCounters()),
        (ProducerMetrics, LeaderMoveCounters()),
        (ConsumerMetrics, ConsumerCounters()),
        (MetadataMetrics, MetadataCounters()),
        (ShareConsumerMetrics, ShareCounters()),
        (ShareTopicMetrics, TopicCounts()),
    ],
)
def test_every_counter_shows(metrics: type, counters: object) -> None:
    assert names(counters) - MEASURED == set(counts_of(metrics, counters))


def test_what_becomes_of_hints_and_bootstraps_has_a_counter() -> None:
    counters = MetadataCounters()
    for what in (*HintOutcome, *RebootstrapCause):
        counters.count(what)
        assert getattr(counters.snapshot(), what.value) == 1
