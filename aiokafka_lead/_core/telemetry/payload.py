"""The body of a push: what was collected, compressed, and no larger than the broker takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..._options.version import __version__
from ..._records.compression import compress
from .otlp import ResourceMetrics, encode_metrics

__all__ = ["Payload", "build_payload"]

SCOPE = "aiokafka_lead"


class Payload(NamedTuple):
    """What goes out."""

    data: bytes
    codec: str
    dropped: int
    """How many metrics were left out for want of room."""


def build_payload(resources: Sequence[ResourceMetrics], codec: str, max_bytes: int) -> Payload:
    """At most ``max_bytes`` (0: no bound) of metrics, the last ones left out where all are more.

    Nothing at all is not compressed, as it would be some bytes then, which a receiver would have to read.
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
    """The metrics at the beginning, up to this number."""
    kept = []
    for resource in resources:
        metrics = resource.metrics[:count]
        if metrics:
            kept.append(ResourceMetrics(resource.attributes, metrics))
        count -= len(metrics)
    return kept
