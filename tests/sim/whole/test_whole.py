"""Whole clients on virtual time, in a separate process: some seeds of each play, and the replay of a seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.suites import crossed

ROOT = Path(__file__).parents[3]
RUNS = int(os.environ.get("WHOLE_RUNS", "6"))


def played(*arguments: str, program: Sequence[str] = ("-m", "tests.sim.whole")) -> str:
    """Return what the program prints."""
    done = subprocess.run(
        [sys.executable, *program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=170,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


FIRST = [
    ("whole", max(1, RUNS // 2)),
    ("transactions", 1),
    ("pipelines", 1),
    ("coordinators", 10),
    ("bent", 3),
    ("hostile", 2),
    ("held stop", 1),
]
PLAYS = [
    *FIRST,
    ("whole", RUNS),
    ("transactions", 2),
    ("pipelines", 2),
    ("coordinators", 40),
    ("bent", 20),
    ("hostile", 4),
]


@pytest.mark.parametrize(("play", "runs"), crossed(PLAYS, first=len(FIRST)))
def test_each_seed_holds(play: str, runs: int) -> None:
    assert f"{runs} runs held" in played("--play", play, "--runs", str(runs))


def test_a_seed_replays() -> None:
    elsewhere = (
        "import runpy; ballast = [bytearray(37 * (i % 11)) for i in range(999)];"
        "runpy.run_module('tests.sim.whole', run_name='__main__')"
    )
    first = played("--seed", "7").partition("\n")[2]
    assert "faults: {'" in first
    # Nothing may depend on the addresses of objects, since a line for debugging already changes them.
    assert played("--seed", "7", program=("-c", elsewhere)).partition("\n")[2] == first
