"""How long things took, counted by length.

Hot: this module is compiled through ``latencies.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from bisect import bisect_left

from ..metrics import BOUNDS_MS, LatencyHistogram

__all__ = ["Latencies", "LatenciesByNode"]

_FIRST_BOUND_MS = BOUNDS_MS[0]


class Latencies:
    """Counts as it goes: it is meant for batches and requests, not for records."""

    __slots__ = ("_counts", "_peak_ms", "_sum_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_MS) + 1)
        self._sum_ms = 0.0
        self._peak_ms = 0.0

    def add(self, seconds: float) -> None:
        """Something took so long."""
        took_ms = seconds * 1000
        self._sum_ms += took_ms
        if took_ms > self._peak_ms:
            self._peak_ms = took_ms
        # Most throttle times, and many latencies, are below the first bound.
        at = 0 if took_ms <= _FIRST_BOUND_MS else bisect_left(BOUNDS_MS, took_ms)
        self._counts[at] += 1

    def snapshot(self) -> LatencyHistogram:
        """The counts of this moment."""
        return LatencyHistogram(tuple(self._counts), self._sum_ms)

    def take_peak_ms(self) -> float:
        """The longest since this was asked last, by the only one that asks; 0 if there was none."""
        peak_ms, self._peak_ms = self._peak_ms, 0.0
        return peak_ms


class LatenciesByNode(dict[int, Latencies]):
    """Those of each broker, by node id; a broker that was not asked for before begins at none."""

    def __missing__(self, node_id: int) -> Latencies:
        found = self[node_id] = Latencies()
        return found

    def snapshot(self) -> dict[int, LatencyHistogram]:
        """The counts of this moment; may be called from another thread."""
        return {node_id: latencies.snapshot() for node_id, latencies in list(self.items())}
