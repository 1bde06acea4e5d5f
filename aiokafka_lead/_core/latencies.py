"""Histograms of durations.

Hot: compiled through ``latencies.pxd`` if a compiler is available, else plain Python.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

__all__ = ["BOUNDS_MS", "Latencies", "LatenciesByNode", "LatencyHistogram"]

BOUNDS_MS = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10000.0, 30000.0)
"""The upper bounds of all counts but the last."""

_FIRST_BOUND_MS = BOUNDS_MS[0]


@dataclass(frozen=True, slots=True)
class LatencyHistogram:
    """A histogram of durations in milliseconds."""

    counts: tuple[int, ...]
    """Number of durations up to ``bounds_ms[0]``, above it and up to ``bounds_ms[1]``, and so on; the last count is of
    durations above all bounds."""
    sum_ms: float
    """Sum of all durations."""
    bounds_ms: tuple[float, ...] = BOUNDS_MS

    @property
    def count(self) -> int:
        """Number of durations."""
        return sum(self.counts)

    @property
    def mean_ms(self) -> float:
        """Mean duration; 0 if there is none."""
        return self.sum_ms / self.count if self.count else 0.0

    def quantile_ms(self, share: float) -> float:
        """Return the bound below which this share (for example 0.99) of the durations is, or infinity."""
        left = share * self.count
        for bound, count in zip(self.bounds_ms, self.counts, strict=False):
            left -= count
            if left <= 0:
                return bound
        return float("inf")


class Latencies:
    """Counts durations of batches and requests, but not of records, which would be too slow."""

    __slots__ = ("_counts", "_peak_ms", "_sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0.0
        self._peak_ms = 0.0

    def add(self, seconds: float) -> None:
        """Add a duration."""
        took_ms = seconds * 1000
        self._sum_ms += took_ms
        if took_ms > self._peak_ms:
            self._peak_ms = took_ms
        # Most throttle times, and many latencies, are below the first bound.
        at = 0 if took_ms <= _FIRST_BOUND_MS else bisect_left(BOUNDS_MS, took_ms)
        self._counts[at] += 1

    def snapshot(self) -> LatencyHistogram:
        """Return the current counts."""
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
