"""Runs simulations: ``python -m tests.sim --runs 5000``. To replay a run that failed, pass its seed: ``--seed N``.

With ``--transactions 2`` (or 1), producers send in transactions of that version, and with ``--pipelines`` in pipelines.
With ``--lies`` brokers answer wrongly.
"""

from __future__ import annotations

import argparse
import gc
import math
import sys
import time
import traceback
from collections import Counter, defaultdict

from .lying_run import LyingReport, LyingRun
from .run import Report, Run
from .transactional_run import TransactionalRun


def main() -> int:
    """Run each seed; return the number of failed seeds as the exit status, at most 100."""
    parser = argparse.ArgumentParser("tests.sim", description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after so long")
    parser.add_argument("--transactions", type=int, choices=[1, 2], help="the version of transactions")
    parser.add_argument("--pipelines", action="store_true", help="of transactions")
    parser.add_argument("--lies", action="store_true", help="of brokers")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.runs) if options.seed is None else [options.seed]
    failed: list[int] = []
    reports: list[Report] = []
    lying: list[LyingReport] = []
    outcomes: Counter[str | None] = Counter()
    gc.freeze()  # otherwise each collection traverses all imported modules
    began, used = time.monotonic(), time.process_time()
    for seed in seeds:
        if time.monotonic() - began > options.seconds:
            break
        try:
            if options.lies:
                lying.append(LyingRun(seed).play())
            elif options.transactions is None:
                reports.append(Run(seed).play())
            else:
                run = TransactionalRun(seed, v2=options.transactions == 2, pipelines=options.pipelines)
                outcomes += run.play().outcomes
        except Exception as error:
            failed.append(seed)
            traceback.print_exc(limit=-4)
            sys.stderr.write(f"seed {seed} failed: {error!r}\n")
    if reports:
        sys.stdout.write(_summary(reports, failed, time.process_time() - used))
    if lying:
        sys.stdout.write(_summary_of_lies(lying, failed, time.process_time() - used))
    if outcomes:
        sys.stdout.write(f"transactions: {dict(outcomes)}; {len(failed)} runs failed {failed[:20]}\n")
    return min(len(failed), 100)


def _summary(reports: list[Report], failed: list[int], cpu_s: float) -> str:
    settled = sorted(report.settled_s for report in reports)
    busiest = [max(column) for column in zip(*(report.busiest for report in reports), strict=True)]
    return (
        f"{len(reports)} runs held, {len(failed)} failed {failed[:20]}; {cpu_s:.0f} s of CPU\n"
        f"records {sum(report.records for report in reports)}, hints {sum(report.hints for report in reports)}, "
        f"rebootstraps {sum(r.rebootstraps for r in reports)}, rewinds {sum(r.rewinds for r in reports)}\n"
        f"settled within {settled[len(settled) // 2]:.2f} s (median), {settled[-1]:.2f} s (longest)\n"
        f"most in a second: {busiest[0]} metadata requests, {busiest[1]} connects to an address, "
        f"{busiest[2]} refusals of a partition's batches, {busiest[3]} errors of its fetches\n"
    )


def _summary_of_lies(reports: list[LyingReport], failed: list[int], cpu_s: float) -> str:
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for report in reports:
        for stall in report.stalls:
            seconds[stall.lie, stall.what.split()[0]].append(stall.seconds)
    lines = [f"{len(reports)} runs held, {len(failed)} failed {failed[:20]}; {cpu_s:.0f} s of CPU\n"]
    for (lie, what), found in sorted(seconds.items()):
        found.sort()
        lines.append(
            f"{lie:28} {what:6} {len(found):6} partitions stood still for {found[len(found) // 2]:.2f} s (p50), "
            f"{found[len(found) * 99 // 100]:.2f} s (p99), {found[-1]:.2f} s (longest)\n"
        )
    produce, fetch, metadata = (max(column) for column in zip(*(report.vain for report in reports), strict=True))
    lines.append(
        f"most in a second: {produce} Produce, {fetch} Fetch in vain to a broker, {metadata} Metadata to all\n"
    )
    return "".join(lines)


if __name__ == "__main__":
    sys.exit(main())
