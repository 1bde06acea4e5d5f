"""Histograms of durations.

Hot: compiled through ``latencies.pxd`` if a compiler is available, else plain Python.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from ..types import LATENCY_BOUNDS_MS

if TYPE_CHECKING:
    from ..metrics import LatencyHistogram

_FIRST_BOUND_MS = LATENCY_BOUNDS_MS[0]


class Latencies:
    """A histogram of durations of batches or requests. Counting each record would be too slow."""

    __slots__ = ("_counts", "_peak_ms", "_sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(LATENCY_BOUNDS_MS) + 1)
        self._sum_ms = 0.0
        self._peak_ms = 0.0

    def add(self, seconds: float) -> None:
        """Add a duration."""
        took_ms = seconds * 1000
        self._sum_ms += took_ms
        if took_ms > self._peak_ms:
            self._peak_ms = took_ms
        # Most throttle times, and many latencies, are below the first bound.
        at = 0 if took_ms <= _FIRST_BOUND_MS else bisect_left(LATENCY_BOUNDS_MS, took_ms)
        self._counts[at] += 1

    def snapshot(self) -> LatencyHistogram:
        """Return the current counts."""
        from ..metrics import LatencyHistogram  # imported with the first snapshot: few programs take one

        return LatencyHistogram(tuple(self._counts), self._sum_ms)

    def take_peak_ms(self) -> float:
        """Return the longest duration since the last call, for a single caller; 0 if there was none."""
        peak_ms, self._peak_ms = self._peak_ms, 0.0
        return peak_ms


class LatenciesByNode(dict[int, Latencies]):
    """Latencies of each broker by node id, created on first access."""

    def __missing__(self, node_id: int) -> Latencies:
        found = self[node_id] = Latencies()
        return found

    def snapshot(self) -> dict[int, LatencyHistogram]:
        """Return the current counts; may be called from another thread."""
        return {node_id: latencies.snapshot() for node_id, latencies in list(self.items())}
