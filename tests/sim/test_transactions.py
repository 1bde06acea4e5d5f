"""Transactions through storms: no aborted read, no lost write, none torn. A seed that fails replays alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import astuple

import pytest

from ..suites import crossed
from .transactional_run import TransactionalRun

AT_ONCE = 2


@pytest.mark.parametrize("pipelines", [False, True], ids=["producers", "pipelines"])
@pytest.mark.parametrize("v2", [True, False], ids=["v2", "v1"])
@pytest.mark.parametrize("first", crossed(range(0, 8, AT_ONCE)))
def test_what_readers_see_agrees_with_what_writers_learn(first: int, v2: bool, pipelines: bool) -> None:
    for seed in range(first, first + AT_ONCE):
        try:
            report = TransactionalRun(seed, v2=v2, pipelines=pipelines).play()
        except Exception as error:
            options = f"--transactions {2 if v2 else 1}{' --pipelines' if pipelines else ''} --seed {seed}"
            error.add_note(f"replay it with: python -m tests.sim {options}")
            raise
        assert report.outcomes["committed"] > 10
        assert report.overlapping > 10 or not pipelines


def test_a_seed_replays() -> None:
    assert astuple(TransactionalRun(7, v2=True).play()) == astuple(TransactionalRun(7, v2=True).play())


def test_storms_are_no_breeze() -> None:
    reports = [TransactionalRun(seed, v2=seed % 2 == 0).play() for seed in range(100, 108)]
    outcomes = sum((report.outcomes for report in reports), Counter[str | None]())
    assert outcomes["aborted"] > 10
    assert sum(report.coordinator_moves for report in reports) > 10
    assert sum(report.rotations for report in reports) > 2
