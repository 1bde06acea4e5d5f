"""Brokers that answer wrongly: each partition proceeds within 2 s once some broker can tell the truth."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from ..suites import crossed
from .lies import Nemesis
from .lying_run import LyingRun

RUNS = 24
AT_ONCE = 4


@pytest.mark.parametrize("first", crossed(range(0, RUNS, AT_ONCE), first=2))
def test_rule_33_partitions_go_on_soon_after_the_truth_can_be_had(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            report = LyingRun(seed).play()
        except Exception as error:
            error.add_note(f"replay it with: python -m tests.sim --lies --seed {seed}")
            raise
        assert report.records > 100


def test_a_seed_replays() -> None:
    assert astuple(LyingRun(7).play()) == astuple(LyingRun(7).play())


def test_the_nemesis_has_followers_to_lie_about_where_leaders_name_one() -> None:
    runs = [LyingRun(seed) for seed in range(8)]
    assert {run.cluster.nearest is None for run in runs} == {True, False}
    for run in runs:
        lies = Nemesis(run.timeline, run.cluster, set).lies
        assert ("follower is frozen" in lies) == (run.cluster.nearest is not None)
