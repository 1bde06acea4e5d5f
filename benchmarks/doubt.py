"""Time that each client needs to recover from brokers and other servers that permanently give wrong answers.

``python -m benchmarks doubt [--clients lead confluent aiokafka] [--only WORDS] [--rounds 1] [--csv FILE]`` prints the
seconds from a fault to the first progress after it. Each client runs in a separate process, with its default options,
on its own embedded cluster. Progress means that a record written after the fault is read or acknowledged, unless the
row says otherwise. Instead of seconds, a cell may contain:

- ``> 30``: there was no progress within the time limit;
- ``-``: the client does not have the feature;
- ``lost``: the client gave up records;
- ``ended``: the client's loop raised an error, which would end a program.

A second table shows how many requests per second a client sends while every broker refuses all of them, each after
10 ms. The benchmark takes five minutes. It needs gcc, for host names with several addresses.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import math
import sys
import traceback
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from .doubts.rows import rates, waits
from .doubts.trial import ABSENT, Outcome, Row, Trial
from .stats import table

CLIENTS = {"lead": "aiokafka_lead", "confluent": "confluent-kafka", "aiokafka": "aiokafka"}
AT_ONCE = 6
"""Number of concurrent trials, which mostly wait."""
SAME_S = 0.2
"""Differences below this number of seconds are ignored, because records are written every 50 ms."""
Found = dict[Row, dict[str, list[Outcome]]]
"""Outcomes by row and client, in the order of the rounds."""


async def meet(client: str, row: Row, bound_s: float) -> Outcome:
    """Run one client in one row, and return its outcome."""
    if client in row.not_in:
        return ABSENT
    try:
        async with Trial(client, bound_s) as trial:
            return await row.scenario(trial)
    except Exception:
        print(f"{row.what}, {client}: the trial failed", file=sys.stderr)
        traceback.print_exc()
        return Outcome(None, "failed")


async def measure(chosen: Sequence[Row], options: argparse.Namespace) -> Found:
    """Run every client in every row, several concurrently."""
    found: Found = {row: defaultdict(list) for row in chosen}
    places = asyncio.Semaphore(options.at_once)

    async def one(row: Row, client: str) -> None:
        async with places:
            outcome = await meet(client, row, options.bound_s)
        found[row][client].append(outcome)
        print(f"{row.what}, {client}: {outcome}", file=sys.stderr, flush=True)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(options.rounds):
            for row in chosen:
                for client in options.clients:
                    tasks.create_task(one(row, client))
    return found


def median(outcomes: Sequence[Outcome]) -> Outcome:
    """Return the median outcome. Outcomes without progress count as the longest."""
    ordered = sorted(outcomes, key=lambda outcome: math.inf if outcome.seconds is None else outcome.seconds)
    return ordered[len(ordered) // 2]


def slower(found: Found) -> list[str]:
    """Return a line for each row in which this client is slower than another."""
    said = []
    for row, by_client in found.items():
        middle = {client: median(outcomes) for client, outcomes in by_client.items()}
        ours = middle.pop("lead", ABSENT)
        others = {client: each.seconds for client, each in middle.items() if each.seconds is not None}
        if ours is ABSENT or not others:
            continue
        best = min(others, key=lambda client: others[client])
        if ours.seconds is None or ours.seconds > others[best] + SAME_S:
            said.append(f"{row.what}: {ours}, {CLIENTS[best]} {others[best]:.2f}")
    return said


def show(title: str, found: Found, clients: Sequence[str]) -> None:
    """Print a table of medians."""
    header = ["", *(CLIENTS[client] for client in clients)]
    print(f"\n{title}\n")
    print(
        table(header, [[row.what, *(str(median(each[client])) for client in clients)] for row, each in found.items()])
    )


def write_csv(path: Path, found: Found) -> None:
    """Write every outcome, one per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["what", "client", "round", "seconds", "instead"])
        for row, by_client in found.items():
            for client, outcomes in by_client.items():
                for number, each in enumerate(outcomes, 1):
                    seconds = "" if each.seconds is None else f"{each.seconds:.3f}"
                    writer.writerow([row.what, client, number, seconds, each.instead])


async def run(options: argparse.Namespace) -> None:
    """Run the trials, and print both tables."""

    def chosen(known: Sequence[Row]) -> list[Row]:
        return [row for row in known if not options.only or any(word in row.what for word in options.only)]

    found, asked = await measure(chosen(waits()), options), await measure(chosen(rates()), options)
    if found:
        show("Seconds from a fault to the first progress after it", found, options.clients)
        print("\nSlower than another client:", *(slower(found) or ["nowhere"]), sep="\n- ")
    if asked:
        show("Requests per second while every broker refuses", asked, options.clients)
    write_csv(options.csv, {**found, **asked})


def main(arguments: list[str]) -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(
        "benchmarks doubt", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", nargs="+", choices=list(CLIENTS), default=list(CLIENTS))
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="WORDS", help="run only rows with one of these in their name"
    )
    parser.add_argument("--rounds", type=int, default=1, help="runs of each row; the tables show medians")
    parser.add_argument("--bound-s", type=float, default=30)
    parser.add_argument("--at-once", type=int, default=AT_ONCE, help="number of concurrent trials")
    parser.add_argument("--csv", type=Path, default=Path("build/benchmarks/doubt.csv"))
    asyncio.run(run(parser.parse_args(arguments)))
