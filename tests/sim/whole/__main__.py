"""Runs whole clients, and prints seeds that fail: ``python -m tests.sim.whole --runs 100 [--first N] [--seed N]``.

By default applications of every kind, under a nemesis. ``--play`` plays something else: ``transactions`` or
``pipelines`` of tests/transactions, ``coordinators`` that lie, ``bent``, absurd answers, ``hostile``, the campaign of
tests/hostile, or a single event. It needs a process of its own, in which time is virtual.
"""

from __future__ import annotations

from . import plain  # isort: skip  # noqa: F401

import argparse
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from tests.hostile.campaign import run_case
from tests.simulated.reached import Reached, counting, nothing_reached, summary
from tests.transactions.trouble import trouble

from .bent import bent
from .campaign import Report, held_stop, whole
from .coordinators import Waits, coordinators
from .stage import each_alone, on_virtual_time

TRANSACTIONS = 25
"""Number of each writer's transactions in a run."""


async def transactions(seed: int, *, pipelines: bool = False) -> None:
    """Play transactions of version 1 or 2; raise AssertionError if readers do not agree with writers."""
    history = await trouble(seed, TRANSACTIONS, 1 + seed % 2, pipelines=pipelines)
    findings = history.findings()
    assert not findings, findings


PLAYS: dict[str, Callable[[int], Awaitable[Any]]] = {
    "whole": whole,
    "transactions": transactions,
    "pipelines": lambda seed: transactions(seed, pipelines=True),
    "coordinators": coordinators,
    "bent": bent,
    "held stop": held_stop,
    "hostile": lambda seed: run_case(seed, threads=False),
}


def main() -> int:
    """Play each seed; return the number of failed seeds as the exit status, at most 100."""
    parser = argparse.ArgumentParser("tests.sim.whole", description=__doc__)
    parser.add_argument("--play", choices=list(PLAYS), default="whole")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.runs) if options.seed is None else [options.seed]
    failed: list[int] = []
    reports: list[Report] = []
    waits: list[Waits] = []
    reached = nothing_reached()
    held, used = 0, os.times()
    for seed, found, error in each_alone(seeds, partial(_play, PLAYS[options.play])):
        if found is None:
            failed.append(seed)
            sys.stderr.write(f"{error}seed {seed} failed\n")
            continue
        report, taken = found
        held += 1
        reports += [report] if isinstance(report, Report) else []
        waits += [report] if isinstance(report, Waits) else []
        for machine, counts in taken.items():
            reached[machine] += counts
    cpu_s = os.times().children_user - used.children_user
    sys.stdout.write(f"{held} runs held, {len(failed)} failed {failed[:20]}; {cpu_s:.0f} s of CPU\n")
    if reports:
        sys.stdout.write(_summary(reports))
    if waits:
        sys.stdout.write(_summary_of_waits(waits))
    sys.stdout.write(summary(reached))
    return min(len(failed), 100)


def _play(play: Callable[[int], Awaitable[Any]], seed: int) -> tuple[Any, Reached]:
    with counting() as reached:
        return on_virtual_time(seed, play), reached


def _summary(reports: list[Report]) -> str:
    settled = sorted(report.settled_s for report in reports)
    caused = sum((report.caused for report in reports), Counter[str]())
    errors = sum((report.errors for report in reports), Counter[str]())
    return (
        f"records {sum(report.records for report in reports)}, clients {sum(report.lives for report in reports)}\n"
        f"settled within {settled[len(settled) // 2]:.2f} s (median), {settled[-1]:.2f} s (longest); "
        f"longest stop {max(report.longest_stop_s for report in reports):.2f} s\n"
        f"faults: {dict(caused.most_common())}\nerrors of applications: {dict(errors.most_common())}\n"
    )


def _summary_of_waits(waits: list[Waits]) -> str:
    """Return a line for each lie and each thing waited for."""
    longest: dict[tuple[str, str], list[float]] = defaultdict(list)
    for run in waits:
        for key, seconds in run.longest.items():
            longest[key].append(seconds)
    return "".join(
        f"{lie:12} {what:10} {len(found):4} runs, {sorted(found)[len(found) // 2]:.2f} s (median), {max(found):.2f} s\n"
        for (lie, what), found in sorted(longest.items())
    )


if __name__ == "__main__":
    sys.exit(main())
