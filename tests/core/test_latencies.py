"""Histograms of latencies: every duration is counted in exactly one bucket."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from aiokafka_lead._core.latencies import Latencies
from aiokafka_lead.types import LATENCY_BOUNDS_MS


@given(st.lists(st.floats(0, 100)))
def test_each_length_is_counted_once(lengths: list[float]) -> None:
    latencies = Latencies()
    for seconds in lengths:
        latencies.add(seconds)
    found = latencies.snapshot()
    assert found.count == len(lengths)
    assert math.isclose(found.sum_ms, sum(lengths) * 1000, abs_tol=1e-6)
    below = 0
    for bound, count in zip(found.bounds_ms, found.counts, strict=False):
        below += count
        assert below == sum(seconds * 1000 <= bound for seconds in lengths)


def test_quantiles_are_bounds() -> None:
    latencies = Latencies()
    assert (latencies.snapshot().mean_ms, latencies.snapshot().quantile_ms(0.5)) == (0.0, LATENCY_BOUNDS_MS[0])
    for seconds in (0.001, 0.004, 0.004, 99.0):
        latencies.add(seconds)
    found = latencies.snapshot()
    assert [found.quantile_ms(share) for share in (0.25, 0.5, 0.75, 1.0)] == [1.0, 5.0, 5.0, math.inf]
    assert found.mean_ms == found.sum_ms / 4
