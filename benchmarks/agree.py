"""Compare several runs of ``each_move``, and this client with other clients and with its leader hints turned off.

``python -m benchmarks agree RUN RUN ...``: each RUN is the JSON file of a run of ``each_move``, or the CSV file of a
published run (``benchmarks/results/each_move.csv``). For each condition and backoff, three tables show each client's
time, the ratio of this client's time to every other client's time, and the difference in milliseconds.

The time of a move is the client's time minus the brokers' own time for the same move. With ``--measure behind``, the
time of an ideal client is subtracted instead, which learns of the move immediately and waits in the same queues of busy
brokers. The columns are the runs, and all moves together. Each figure has a 95% confidence interval (percentile
bootstrap over moves, drawn for each client separately). Runs agree if their intervals overlap. If the interval of the
other client's figure contains 0, there is no ratio.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

from .leader_gaps import read_csv
from .leader_move import CLIENTS
from .stats import Estimate, Statistic, estimate, quantile, resampled, table, within

OURS = "lead"
MEASURES = {"over": "beyond the brokers' own time", "behind": "behind an ideal client"}
STATISTICS: Mapping[str, Statistic] = {
    "mean": fmean,
    "p50": quantile(0.5),
    "p90": quantile(0.9),
    "p99": quantile(0.99),
}

Moves: TypeAlias = Mapping[str, Sequence[float]]
"""Time of each move beyond the brokers' time, in milliseconds, by client."""
Case: TypeAlias = tuple[str, int]
"""A condition, and the retry backoff in milliseconds."""
Run: TypeAlias = Mapping[Case, Moves]
Figure: TypeAlias = Callable[[Moves, str, Statistic], Estimate | None]
"""Function that returns a statistic of a client for a table, or None if it cannot be computed."""


def read(path: Path, measure: str = "over") -> Run:
    """Read the moves of a run with one of `MEASURES`. Raises ValueError for a file without moves."""
    found: dict[Case, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    text = path.read_text()
    try:
        for move in read_csv(text) if path.suffix == ".csv" else json.loads(text):
            # Without the response time of Metadata, which differs between runs.
            case = move["condition"].partition(",")[0], move["backoff_ms"]
            over = move["gap"] - move["floor"] if measure == "over" else move["behind"]
            if over is not None:
                found[case][move["client"]].append(over)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is not a run of each_move: {error!r}") from None
    if not found:
        raise ValueError(f"{path} has no moves")
    return found


def taken(moves: Moves, client: str, statistic: Statistic) -> Estimate | None:
    """Return the statistic of a client's time."""
    return estimate(moves[client], statistic) if moves.get(client) else None


def ratio(moves: Moves, client: str, statistic: Statistic) -> Estimate | None:
    """Return the ratio of this client's time to the time of another client."""
    pairs = _pairs(moves, client, statistic)
    if not pairs or within(0, [theirs for _, theirs in pairs]).low <= 0:
        return None
    ours, theirs = (statistic(sorted(moves[one])) for one in (OURS, client))
    return within(ours / theirs, [own / other for own, other in pairs if other > 0])


def less(moves: Moves, client: str, statistic: Statistic) -> Estimate | None:
    """Return the milliseconds by which this client is faster than another client."""
    pairs = _pairs(moves, client, statistic)
    if not pairs:
        return None
    ours, theirs = (statistic(sorted(moves[one])) for one in (OURS, client))
    return within(theirs - ours, [other - own for own, other in pairs])


def _pairs(moves: Moves, client: str, statistic: Statistic) -> list[tuple[float, float]]:
    """Return pairs of this client's and another client's statistic in each resample. Empty if either has no moves."""
    if client == OURS or not moves.get(OURS) or not moves.get(client):
        return []
    return list(zip(resampled(moves[OURS], statistic), resampled(moves[client], statistic, seed=2), strict=True))


FIGURES: Mapping[str, Figure] = {
    "time of each client, ms": taken,
    "time of this client, as a multiple of the other client's": ratio,
    "time of the other client minus time of this client, ms": less,
}


def pooled(runs: Sequence[Run], case: Case) -> Moves:
    """Return the moves of all runs."""
    found: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        for client, moves in run.get(case, {}).items():
            found[client] += moves
    return found


def rows(runs: Sequence[Run], case: Case, figure: Figure) -> list[list[object]]:
    """Return a row for each client and statistic: the figure of each run, their agreement, and the figure overall."""
    everything = pooled(runs, case)
    found: list[list[object]] = []
    for client in [one for one in CLIENTS if one in everything]:
        for name, statistic in STATISTICS.items():
            whole = figure(everything, client, statistic)
            if whole is not None:
                figures = [figure(run.get(case, {}), client, statistic) for run in runs]
                found.append(
                    [f"{CLIENTS[client]}, {name}", *(each or "" for each in figures), _verdict(figures), whole]
                )
    return found


def _verdict(figures: Sequence[Estimate | None]) -> str:
    """Return "yes" if all intervals overlap, otherwise "NO"; "" if fewer than two runs have an interval."""
    known = [each for each in figures if each is not None]
    if len(known) < 2:
        return ""
    return "yes" if max(each.low for each in known) <= min(each.high for each in known) else "NO"


def main(arguments: list[str]) -> None:
    """Read the runs, and print the tables."""
    parser = argparse.ArgumentParser(
        "benchmarks agree", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--measure", choices=list(MEASURES), default="over", help="time of a move, as described above")
    options = parser.parse_args(arguments)
    try:
        runs = [read(path, options.measure) for path in options.runs]
    except (OSError, ValueError) as error:
        parser.error(str(error))
    header = ["", *(f"run {number}" for number in range(1, len(runs) + 1)), "agree", "all moves"]
    for case in sorted({case for run in runs for case in run}):
        count = sum(len(moves) for moves in pooled(runs, case).values())
        for title, figure in FIGURES.items():
            where = f"{case[0]}, backoff {case[1]} ms, {count:,} moves, {MEASURES[options.measure]}"
            print(f"\n{where}: {title} [95% interval]\n")
            print(table(header, rows(runs, case, figure)))
