"""From counters of clients to pushed metrics: intervals, several clients as one, OTLP, and its size (KIP-714)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from aiokafka_lead._core.latencies import Latencies
from aiokafka_lead._core.telemetry.collector import Collector, Instant
from aiokafka_lead._core.telemetry.measures import Attributes, Kind, Measure, spread
from aiokafka_lead._core.telemetry.otlp import Metric, Point, ResourceMetrics, build_payload, encode_metrics
from aiokafka_lead._core.telemetry.state import Subscription
from aiokafka_lead._records.compression import decompress

DELTA = Subscription(1, 10.0, (), 0, True, ("",))
CUMULATIVE = DELTA._replace(delta=False)
P = "org.apache.kafka."


def at(seconds: float) -> Instant:
    return Instant(seconds, int(seconds * 1e9))


class Counting:
    """A source whose counts the test sets."""

    def __init__(self, *measures: Measure, resource: Attributes = ()) -> None:
        self.now = list(measures)
        self.attributes = resource

    def resource(self) -> Attributes:
        return self.attributes

    def measures(self) -> list[Measure]:
        return self.now


def collector_of(*sources: Counting) -> Collector:
    collector = Collector()
    for source in sources:
        collector.add(source, at(100))
    return collector


def values(resources: list[ResourceMetrics]) -> dict[str, Any]:
    """Return values by name; those with several points by attribute."""
    found: dict[str, Any] = {}
    for resource in resources:
        for metric in resource.metrics:
            name = metric.name.removeprefix(P)
            if metric.points[0].attributes:
                found[name] = {point.attributes[0][1]: point.value for point in metric.points}
            else:
                (point,) = metric.points
                found[name] = point.value
    return found


def sums(resources: list[ResourceMetrics], name: str) -> tuple[float, int, int, bool]:
    (metric,) = [metric for each in resources for metric in each.metrics if metric.name == P + name]
    (point,) = metric.points
    return point.value, point.start_ns // 10**9, point.time_ns // 10**9, metric.delta


def test_a_meter_is_a_total_and_a_rate_of_the_interval() -> None:
    source = Counting(Measure(Kind.METER, "c", 30))
    collector = collector_of(source)
    assert values(collector.collect(at(110), DELTA)) == {"c.total": 30, "c.rate": 3.0}
    collector.accepted()
    source.now = [Measure(Kind.METER, "c", 35)]
    found = collector.collect(at(120), DELTA)
    assert values(found) == {"c.total": 5, "c.rate": 0.5}
    assert sums(found, "c.total") == (5, 110, 120, True)
    collector.accepted()
    assert values(collector.collect(at(120.001), DELTA)) == {"c.total": 0, "c.rate": 0}


def test_cumulative_totals_count_from_the_beginning() -> None:
    source = Counting(Measure(Kind.METER, "c", 30))
    collector = collector_of(source)
    collector.collect(at(110), CUMULATIVE)
    collector.accepted()
    source.now = [Measure(Kind.METER, "c", 35)]
    found = collector.collect(at(120), CUMULATIVE)
    assert sums(found, "c.total") == (35, 100, 120, False)
    assert values(found)["c.rate"] == 0.5


def test_what_no_broker_took_is_part_of_the_next_push() -> None:
    source = Counting(Measure(Kind.METER, "c", 30), Measure(Kind.SPREAD, "t", 100.0, 4, 90.0))
    collector = collector_of(source)
    assert values(collector.collect(at(110), DELTA))["t.max"] == 90.0
    source.now = [Measure(Kind.METER, "c", 35), Measure(Kind.SPREAD, "t", 112.0, 6, 7.0)]
    found = collector.collect(at(120), DELTA)
    assert sums(found, "c.total") == (35, 100, 120, True)
    assert values(found)["c.rate"] == 1.75
    assert values(found)["t.avg"] == pytest.approx(112 / 6)
    assert values(found)["t.max"] == 90.0
    collector.accepted()
    found = collector.collect(at(130), DELTA)
    assert "t.avg" not in values(found), "nothing happened: there is no average"
    assert sums(found, "c.total") == (0, 120, 130, True)


def test_what_happens_while_a_push_is_under_way_belongs_to_the_next() -> None:
    first, second = Counting(Measure(Kind.METER, "c", 3)), Counting(Measure(Kind.METER, "c", 10))
    collector = collector_of(first, second)
    assert values(collector.collect(at(110), DELTA))["c.total"] == 13
    first.now = [Measure(Kind.METER, "c", 5)]
    collector.remove(first, keep=True)
    collector.accepted()
    assert values(collector.collect(at(120), DELTA))["c.total"] == 2
    collector.accepted()
    assert values(collector.collect(at(130), DELTA))["c.total"] == 0


def test_latencies_give_the_longest_of_each_interval() -> None:
    latencies = Latencies()
    for seconds in (0.01, 0.03):
        latencies.add(seconds)
    source = Counting(spread("t", latencies))
    collector = collector_of(source)
    found = values(collector.collect(at(110), DELTA))
    assert found == {"t.avg": pytest.approx(20), "t.max": pytest.approx(30)}
    collector.accepted()
    latencies.add(0.002)
    source.now = [spread("t", latencies)]
    assert values(collector.collect(at(120), DELTA)) == {"t.avg": pytest.approx(2), "t.max": pytest.approx(2)}


def test_clients_that_nothing_tells_apart_are_one() -> None:
    def measures(count: int, sum_ms: float, peak: float, idle_s: float) -> list[Measure]:
        return [
            Measure(Kind.METER, "c", count),
            Measure(Kind.SPREAD, "t", sum_ms, count, peak, (("node_id", 1),)),
            Measure(Kind.SHARE, "idle", idle_s),
            Measure(Kind.LEVEL, "partitions", count),
            Measure(Kind.HIGHEST, "lag", count),
        ]

    one, other = Counting(*measures(2, 10.0, 9.0, 10.0)), Counting(*measures(3, 20.0, 8.0, 5.0))
    third = Counting(Measure(Kind.METER, "c", 50), resource=(("group_id", "g"),))
    found = collector_of(one, other, third).collect(at(110), DELTA)
    assert [resource.attributes for resource in found] == [(), (("group_id", "g"),)]
    assert values(found[:1]) == {
        "c.total": 5,
        "c.rate": 0.5,
        "t.avg": {1: 6.0},
        "t.max": {1: 9.0},
        "idle": 0.75,
        "partitions": 5,
        "lag": 3,
    }


@pytest.mark.parametrize("delta", [True, False])
def test_a_client_that_ends_is_counted_to_its_end(delta: bool) -> None:
    one, other = (Counting(Measure(Kind.METER, "c", count), Measure(Kind.LEVEL, "l", 1)) for count in (2, 3))
    subscription = DELTA._replace(delta=delta)
    collector = collector_of(one, other)
    collector.collect(at(110), subscription)
    collector.accepted()
    one.now = [Measure(Kind.METER, "c", 9), Measure(Kind.LEVEL, "l", 1)]
    collector.remove(one, keep=True)
    found = values(collector.collect(at(120), subscription))
    assert (found["c.total"], found["l"]) == ((7, 1) if delta else (12, 1))
    collector.accepted()
    assert values(collector.collect(at(130), subscription))["c.total"] == (0 if delta else 12), "a sum does not fall"


def test_the_last_client_of_its_kind_is_pushed_once_more() -> None:
    source = Counting(Measure(Kind.METER, "c", 2))
    collector = collector_of(source)
    collector.remove(source, keep=True)
    assert values(collector.collect(at(110), DELTA))["c.total"] == 2
    collector.accepted()
    assert collector.empty
    assert collector.collect(at(120), DELTA) == []


def test_what_is_not_known_any_more_is_not_pushed() -> None:
    level, sum_ = Measure(Kind.LEVEL, "open", 5), Measure(Kind.TOTAL, "done", 3)
    both, ended = Counting(level, sum_), Counting(Measure(Kind.LEVEL, "size", 7), Measure(Kind.TOTAL, "all", 9))
    collector = collector_of(both, ended)
    assert values(collector.collect(at(110), DELTA)) == {"open": 5, "done": 3, "size": 7, "all": 9}
    collector.accepted()
    both.now = [sum_]
    collector.remove(ended, keep=True)
    assert values(collector.collect(at(120), DELTA)) == {"done": 0, "all": 0}
    collector.accepted()
    assert values(collector.collect(at(130), DELTA)) == {"done": 0}


def test_clients_that_ended_are_not_kept_for_ever() -> None:
    collector = Collector()
    for n in range(300):
        source = Counting(Measure(Kind.METER, "c", 1), resource=(("group_member_id", str(n)),))
        collector.add(source, at(100))
        collector.remove(source, keep=n >= 150)
    found = [resource.attributes[0][1] for resource in collector.collect(at(110), DELTA)]
    assert found == [str(n) for n in range(200, 300)]


def test_only_what_is_wanted_is_collected() -> None:
    collector = collector_of(Counting(Measure(Kind.METER, "c", 2), Measure(Kind.LEVEL, "d", 1)))
    wanted = DELTA._replace(prefixes=(f"{P}c.total", "nothing"))
    assert values(collector.collect(at(110), wanted)) == {"c.total": 2}
    assert collector.collect(at(110), DELTA._replace(prefixes=("nothing",))) == []


# --- OTLP ------------------------------------------------------------------------------------------------------------

texts = st.text(min_size=1, max_size=20)
numbers = st.integers(-(2**63), 2**63 - 1)
attributes = st.lists(st.tuples(texts, texts | numbers), max_size=3).map(tuple)
times = st.integers(1, 2**64 - 1)
points = st.builds(Point, numbers | st.floats(allow_nan=False), times, st.just(0) | times, attributes)
metrics = st.builds(Metric, texts, st.lists(points, max_size=3), st.booleans(), st.booleans())
resources = st.builds(ResourceMetrics, attributes, st.lists(metrics, max_size=4))


def pairs(found: Any) -> list[tuple[str, str | int]]:
    def value(pair: KeyValue) -> str | int:
        return pair.value.int_value if pair.value.WhichOneof("value") == "int_value" else pair.value.string_value

    return [(pair.key, value(pair)) for pair in found]


@given(st.lists(resources, max_size=3))
def test_opentelemetry_reads_what_is_written(given: list[ResourceMetrics]) -> None:
    written = encode_metrics(given, "scope", "1.2")
    parsed = MetricsData.FromString(written)
    assert parsed.SerializeToString() == written, "byte for byte what the library writes"
    assert len(parsed.resource_metrics) == len(given)
    for expected, found in zip(given, parsed.resource_metrics, strict=True):
        assert pairs(found.resource.attributes) == list(expected.attributes)
        (scope,) = found.scope_metrics
        assert (scope.scope.name, scope.scope.version) == ("scope", "1.2")
        assert len(scope.metrics) == len(expected.metrics)
        for metric, read in zip(expected.metrics, scope.metrics, strict=True):
            check_metric(metric, read)


def check_metric(metric: Metric, read: Any) -> None:
    assert read.name == metric.name
    assert read.WhichOneof("data") == ("sum" if metric.is_sum else "gauge")
    data = read.sum if metric.is_sum else read.gauge
    if metric.is_sum:
        assert read.sum.is_monotonic
        kind = "DELTA" if metric.delta else "CUMULATIVE"
        assert read.sum.aggregation_temporality == AggregationTemporality.Value(f"AGGREGATION_TEMPORALITY_{kind}")
    for point, found in zip(metric.points, data.data_points, strict=True):
        which = "as_int" if isinstance(point.value, int) else "as_double"
        assert found.WhichOneof("value") == which, "a value of 0 is there, too"
        assert getattr(found, which) == point.value
        assert (found.time_unix_nano, found.start_time_unix_nano) == (point.time_ns, point.start_ns)
        assert pairs(found.attributes) == list(point.attributes)


# --- payloads --------------------------------------------------------------------------------------------------------


def many(count: int) -> list[ResourceMetrics]:
    return [
        ResourceMetrics((("group_id", str(half)),), [Metric(f"{half}.{n}", [Point(n, 1)]) for n in range(count // 2)])
        for half in range(2)
    ]


def names(data: bytes) -> list[str]:
    parsed = MetricsData.FromString(data)
    return [metric.name for each in parsed.resource_metrics for metric in each.scope_metrics[0].metrics]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_payload_is_as_large_as_the_broker_takes_it_at_most(codec: str) -> None:
    def plain(data: bytes) -> bytes:
        return data if codec == "none" else decompress(codec, data, 10**6)

    whole = build_payload(many(400), codec, 0)
    assert (whole.dropped, whole.codec) == (0, codec)
    assert len(names(plain(whole.data))) == 400
    cut = build_payload(many(400), codec, len(whole.data) // 3)
    assert len(cut.data) <= len(whole.data) // 3
    kept = names(plain(cut.data))
    assert kept == names(plain(whole.data))[: len(kept)], "the first ones are kept"
    assert len(kept) + cut.dropped == 400
    assert len(kept) > 30


def test_nothing_to_push_is_no_bytes_whatever_the_codec() -> None:
    for resources in ([], many(2)):
        payload = build_payload(resources, "zstd", 3)
        assert (payload.data, payload.codec) == (b"", "none")
