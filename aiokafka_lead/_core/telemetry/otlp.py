"""Encoding metrics as OpenTelemetry's protobuf message ``MetricsData`` (opentelemetry-proto 1.x).

Only the metrics that clients push are covered: gauges and sums of numbers. The field numbers are from
``metrics.proto``, ``common.proto`` and ``resource.proto``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from ..._options.version import __version__
from ..._records.compression import compress
from ..._values import NamedTuple
from .measures import Attributes

_DELTA, _CUMULATIVE = 1, 2
"""Values of ``AggregationTemporality``."""

_VARINT, _FIXED64, _BYTES = 0, 1, 2
"""Wire types of protobuf."""


class Point(NamedTuple):
    """A value at one time. An int is encoded as an int, and a float as a double."""

    value: float
    time_ns: int
    """Time in nanoseconds since 1970."""
    start_ns: int = 0
    """Start of the interval that the value covers, in nanoseconds since 1970. It is 0 for a current value."""
    attributes: Attributes = ()


class Metric(NamedTuple):
    """The points of one metric, which is a monotonic sum or a gauge."""

    name: str
    points: Sequence[Point]
    is_sum: bool = False
    delta: bool = False
    """For sums: True if the value covers one interval, False if it covers the time since ``start_ns``."""


class ResourceMetrics(NamedTuple):
    """The metrics of one client, with the attributes that identify it."""

    attributes: Attributes
    metrics: Sequence[Metric]


def encode_metrics(resources: Iterable[ResourceMetrics], scope: str, version: str) -> bytes:
    """Encode a ``MetricsData`` message. Without metrics, the result is empty.

    ``scope`` is the name of the instrumentation library, and ``version`` is its version.
    """
    instrumentation = _message(1, _text(1, scope) + _text(2, version))
    parts = []
    for resource in resources:
        metrics = b"".join(_message(2, _metric(metric)) for metric in resource.metrics)
        described = _message(1, _attributes(1, resource.attributes))
        parts.append(_message(1, described + _message(2, instrumentation + metrics)))
    return b"".join(parts)


def _metric(metric: Metric) -> bytes:
    points = b"".join(_message(1, _point(point)) for point in metric.points)
    if not metric.is_sum:
        return _text(1, metric.name) + _message(5, points)
    temporality = _DELTA if metric.delta else _CUMULATIVE
    return _text(1, metric.name) + _message(7, points + _number(2, temporality) + _number(3, 1))


def _point(point: Point) -> bytes:
    start = b"" if not point.start_ns else _tag(2, _FIXED64) + struct.pack("<Q", point.start_ns)
    time = _tag(3, _FIXED64) + struct.pack("<Q", point.time_ns)
    # Encode the value even if it is 0, because one of the two value fields must be present.
    if isinstance(point.value, int):
        value = _tag(6, _FIXED64) + struct.pack("<q", point.value)
    else:
        value = _tag(4, _FIXED64) + struct.pack("<d", point.value)
    return start + time + value + _attributes(7, point.attributes)


def _attributes(field: int, attributes: Attributes) -> bytes:
    """Encode each attribute as a ``KeyValue`` with an ``AnyValue``."""
    parts = []
    for key, value in attributes:
        any_value = _number(3, value) if isinstance(value, int) else _text(1, value)
        parts.append(_message(field, _text(1, key) + _message(2, any_value)))
    return b"".join(parts)


def _message(field: int, content: bytes) -> bytes:
    return _tag(field, _BYTES) + _varint(len(content)) + content


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode("utf-8", "replace"))


def _number(field: int, number: int) -> bytes:
    return _tag(field, _VARINT) + _varint(number & 0xFFFF_FFFF_FFFF_FFFF)


def _tag(field: int, wire_type: int) -> bytes:
    return _varint(field << 3 | wire_type)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


SCOPE = "aiokafka_lead"


class Payload(NamedTuple):
    """The encoded metrics of a PushTelemetry request."""

    data: bytes
    codec: str
    dropped: int
    """Number of metrics omitted because they did not fit."""


def build_payload(resources: Sequence[ResourceMetrics], codec: str, max_bytes: int) -> Payload:
    """Encode and compress metrics.

    If the result is larger than ``max_bytes``, the last metrics are omitted. 0 means no limit. An empty payload is not
    compressed, because compression would only add bytes.
    """
    count = whole = sum(len(resource.metrics) for resource in resources)
    while True:
        kept = _first(resources, count)
        data = encode_metrics(kept, SCOPE, __version__)
        used = codec if data else "none"
        if used != "none":
            data = compress(used, data)
        if not max_bytes or len(data) <= max_bytes or not count:
            return Payload(data, used, whole - count)
        count = min(count - 1, count * max_bytes // len(data))


def _first(resources: Sequence[ResourceMetrics], count: int) -> list[ResourceMetrics]:
    """Return the first ``count`` metrics, still grouped by resource."""
    kept = []
    for resource in resources:
        metrics = resource.metrics[:count]
        if metrics:
            kept.append(ResourceMetrics(resource.attributes, metrics))
        count -= len(metrics)
    return kept
