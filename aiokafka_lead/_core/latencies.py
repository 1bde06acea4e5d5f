"""Histograms of durations.

This code runs for every batch and request. If a compiler is available, it is compiled through ``latencies.pxd``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ..types import LATENCY_BOUNDS_MS

if TYPE_CHECKING:
    from ..metrics import LatencyHistogram

_FIRST_BOUND_MS = LATENCY_BOUNDS_MS[0]


class Latencies:
    """A histogram of durations.

    Durations are counted per batch or request, because counting each record would be too slow.
    """

    __slots__ = ("_counts", "_peak_ms", "_sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._sum_ms = 0.0
        self._peak_ms = 0.0

    def add(self, seconds: float) -> None:
        """Add one duration to the histogram."""
        took_ms = seconds * 1000
        self._sum_ms += took_ms
        if took_ms > self._peak_ms:
            self._peak_ms = took_ms
        # Most throttle times, and many latencies, are below the first bound, so it is tested before the search.
        at = 0 if took_ms <= _FIRST_BOUND_MS else bisect_left(LATENCY_BOUNDS_MS, took_ms)
        self._counts[at] += 1

    def snapshot(self) -> LatencyHistogram:
        """Return the counts so far, as an immutable histogram."""
        from ..metrics import LatencyHistogram  # imported here because few programs take a snapshot

        return LatencyHistogram(tuple(self._counts), self._sum_ms)

    def take_peak_ms(self) -> float:
        """Return the longest duration in milliseconds since the last call, or 0. There must be only one caller."""
        peak_ms, self._peak_ms = self._peak_ms, 0.0
        return peak_ms


class LatenciesByNode(dict[int, Latencies]):
    """The latencies of each broker, by node id. A broker's histogram is created on first access."""

    def __missing__(self, node_id: int) -> Latencies:
        found = self[node_id] = Latencies()
        return found

    def snapshot(self) -> dict[int, LatencyHistogram]:
        """Return the current counts by node id. Safe to call from another thread."""
        return {node_id: latencies.snapshot() for node_id, latencies in list(self.items())}
