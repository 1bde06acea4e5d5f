"""Pushed metrics of clients, read with OpenTelemetry's own classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric, MetricsData

PREFIX = "org.apache.kafka."


class Pushed(NamedTuple):
    """One value of a push."""

    name: str
    """Without `PREFIX`."""
    value: float
    resource: Mapping[str, str | int]
    attributes: Mapping[str, str | int]
    is_sum: bool
    delta: bool
    seconds: float
    """From its start to its time; meaningless for a gauge."""


def read(metrics: bytes, *, of_java: bool = False) -> list[Pushed]:
    """Return every value of a push."""
    return list(_values(MetricsData.FromString(metrics), "" if of_java else "aiokafka_lead"))


def _values(data: MetricsData, who: str) -> Iterator[Pushed]:
    for resource in data.resource_metrics:
        about = _pairs(resource.resource.attributes)
        for scope in resource.scope_metrics:
            assert scope.scope.name == who
            for metric in scope.metrics:
                yield from _points(metric, about)


def _points(metric: Metric, about: Mapping[str, str | int]) -> Iterator[Pushed]:
    assert metric.name.startswith(PREFIX)
    is_sum = metric.WhichOneof("data") == "sum"
    delta = is_sum and metric.sum.aggregation_temporality == AggregationTemporality.Value(
        "AGGREGATION_TEMPORALITY_DELTA"
    )
    for point in metric.sum.data_points if is_sum else metric.gauge.data_points:
        value = getattr(point, point.WhichOneof("value") or "")
        seconds = (point.time_unix_nano - point.start_time_unix_nano) / 1e9
        name = metric.name.removeprefix(PREFIX)
        yield Pushed(name, value, about, _pairs(point.attributes), is_sum, delta, seconds)


def _pairs(attributes: Iterable[KeyValue]) -> dict[str, str | int]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "") for pair in attributes}


def totals(pushes: Iterable[Any], topic: str | None = None) -> dict[str, float]:
    """Return the sums over all pushes, which are deltas: of a topic, or of all together."""
    found: dict[str, float] = {}
    for push in pushes:
        for each in read(push.metrics):
            if each.is_sum and each.attributes.get("topic") == topic:
                assert each.delta
                found[each.name] = found.get(each.name, 0) + each.value
    return found
