"""Thousands of small disasters: every record once, in order, within the memory limit, and on time."""

from __future__ import annotations

import os

import pytest

from ..suites import crossed
from .consumer_sim import LARGEST_BATCH, LIMITS, LONG_POLL_MS, Simulation

RUNS = int(os.environ.get("CONSUMER_SIM_RUNS", "20"))
STORM_S = 8.0
CALM_WITHIN_S = 4.0


@pytest.mark.parametrize("seed", crossed(range(RUNS), first=8))
def test_every_record_once_in_order_whatever_happens(seed: int) -> None:
    simulation = Simulation(seed)
    simulation.accidents()
    simulation.produce()
    simulation.application()
    simulation.run(STORM_S)
    assert simulation.most_bytes <= LIMITS.fetch_max_bytes + LARGEST_BATCH * len(simulation.brokers)
    assert simulation.requests < 400 * STORM_S

    simulation.calm = True
    for node_id in simulation.brokers:
        simulation.restart(node_id)
    assert simulation.run(CALM_WITHIN_S + LONG_POLL_MS / 1000, simulation.all_read), f"stuck: {simulation.expected}"
    assert sum(partition.end for partition in simulation.partitions.values()) > 500


@pytest.mark.parametrize("seed", range(8))
def test_a_leader_that_moves_costs_less_than_the_long_poll(seed: int) -> None:
    """Rule 22: the moved partition does not wait for the long poll of its new broker's other partitions."""
    simulation = Simulation(seed)
    simulation.calm = True
    simulation.hints = 1.0
    simulation.application()
    simulation.run(1.0)
    for _ in range(20):
        tp = simulation.rng.choice(simulation.tps)
        simulation.elect(tp)
        simulation.append(tp, 1)
        assert simulation.run(0.25, simulation.all_read)
        simulation.run(simulation.rng.uniform(0, 0.5))


def test_a_seed_replays() -> None:
    counts = []
    for _ in range(2):
        simulation = Simulation(3)
        simulation.accidents()
        simulation.produce()
        simulation.application()
        simulation.run(2.0)
        counts.append((simulation.requests, dict(simulation.expected), simulation.most_bytes))
    assert counts[0] == counts[1]
