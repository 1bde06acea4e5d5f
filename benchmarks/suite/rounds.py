"""Rounds, in each of which the contenders of a case run in turn, so a busy machine slows all of them equally."""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ..stats import percentile
from . import brokers
from .workload import Workload

TIMEOUT_S = 120


_NAMES = {
    "lead": "aiokafka_lead",
    "lead_pipeline": "aiokafka_lead pipeline",
    "lead_outside": "aiokafka_lead outside",
    "confluent_aio": "confluent AIO",
    "kafka_python": "kafka-python",
}


class Contender(NamedTuple):
    """Client with its method, event loop and other settings."""

    client: str
    loop: str = "asyncio"
    pure: bool = False
    speed: float = 1.0
    """Factor for the number of records of a slow client, so its turn does not take too long."""

    @property
    def label(self) -> str:
        """Return the contender's label in tables."""
        name = _NAMES.get(self.client, self.client)
        how = [*([self.loop] if self.loop != "asyncio" else []), *(["pure"] if self.pure else [])]
        return f"{name} ({', '.join(how)})" if how else name


OURS = [
    Contender("lead"),
    Contender("lead", "uvloop"),
    Contender("lead", "trio"),
    Contender("lead", pure=True, speed=0.1),
]
PEERS = [
    Contender("aiokafka", speed=0.15),
    Contender("aiokafka", "uvloop", speed=0.15),
    Contender("confluent", speed=0.3),
    Contender("confluent_aio", speed=0.1),
    Contender("kafka_python", speed=0.05),
]


class Case(NamedTuple):
    """Measurement of several contenders."""

    name: str
    contenders: Sequence[Contender]
    workload: Callable[[Contender, brokers.Brokers], Workload]
    warm_up: Sequence[Contender] = ()
    """Contenders that warm up brokers in the first round; empty for all contenders of the case."""


class Sample(NamedTuple):
    """Result of one turn of a contender."""

    case: str
    contender: str
    figures: Any
    """Figures by name, or a list of the latencies of single records."""

    def quantiles(self, *percents: float) -> Sample:
        """Return the same turn with figures such as ``p50`` in place of the list of latencies."""
        ordered = sorted(self.figures)
        return self._replace(figures={f"p{percent:g}": percentile(ordered, percent / 100) for percent in percents})


def parser(name: str, doc: str | None) -> argparse.ArgumentParser:
    """Return an argument parser with the options that all comparisons have in common."""
    made = argparse.ArgumentParser(
        f"python -m benchmarks {name}", description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--on", choices=["sink", "kafka", "both"], default="both")
    made.add_argument("--kafka", metavar="HOST:PORT", help="a running cluster (default: start one)")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--records", type=int, default=300_000, help="records in a turn; slower clients get fewer")
    made.add_argument("--case", default="", help="run only cases with this text in their name")
    made.add_argument("--client", default="", help="run only contenders with this text in their name")
    made.add_argument("--out", type=Path, default=Path("build/benchmarks"))
    made.add_argument("--join", action="store_true", help="add the results to those of earlier runs")
    return made


def places(options: argparse.Namespace) -> list[AbstractContextManager[brokers.Brokers]]:
    """Return the brokers with which to measure."""
    made: list[AbstractContextManager[brokers.Brokers]] = []
    if options.on in ("sink", "both"):
        made.append(brokers.sink())
    if options.on in ("kafka", "both"):
        made.append(brokers.kafka(options.kafka))
    return made


def play(cases: Iterable[Case], place: brokers.Brokers, options: argparse.Namespace) -> list[Sample]:
    """Run all rounds of all cases, each in a new order. With cold brokers, an additional first round does not count.

    If a contender fails, it is named on standard error, and this turn has no figures.
    """
    samples = []
    warm = not place.is_cold
    for case in cases:
        if options.case not in case.name:
            continue
        contenders = [contender for contender in case.contenders if options.client in contender.label]
        if not contenders:
            continue
        for number in range(1 if warm else 0, options.rounds + 1):
            turn = f"round {number}" if number else "to warm up"
            found = {}
            turns = contenders if number or not case.warm_up else case.warm_up
            for contender in random.sample(turns, len(turns)):
                found[contender] = measure(case.workload(contender, place))
                print(f"{case.name}, {turn}: {contender.label}", file=sys.stderr)
            if number:
                samples += [Sample(case.name, one.label, found[one]) for one in contenders if found[one] is not None]
        warm = True
    return samples


def measure(workload: Workload) -> Any | None:
    """Run a turn in a separate process, and return its figures, or None if it fails."""
    command = [sys.executable, "-m", "benchmarks.suite.worker", workload.to_json()]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH"), "."]))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired:
        print(f"{workload.client}: not finished within {TIMEOUT_S} s", file=sys.stderr)
        return None
    if done.returncode:
        print(f"{workload.client}: {done.stderr[-1500:]}", file=sys.stderr)
        return None
    return json.loads(done.stdout)


class Spread(NamedTuple):
    """Best, median and worst value of a figure in all rounds."""

    best: float
    middle: float
    worst: float


def spreads(samples: Iterable[Sample], figure: str, best: Callable[..., float] = min) -> dict[tuple[str, str], Spread]:
    """Return the spread of a figure by case and contender."""
    found: dict[tuple[str, str], list[float]] = {}
    for sample in samples:
        found.setdefault((sample.case, sample.contender), []).append(sample.figures.get(figure, math.nan))
    worst = max if best is min else min
    return {key: Spread(best(values), median(values), worst(values)) for key, values in found.items()}


def joined(options: argparse.Namespace, name: str, samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples, or with ``--join`` the saved samples and these."""
    written = options.out / f"{name}.json"
    if not options.join or not written.exists():
        return list(samples)
    return [*(Sample(**sample) for sample in json.loads(written.read_text())), *samples]


def save(options: argparse.Namespace, name: str, samples: Sequence[Sample], pictures: Mapping[str, str]) -> None:
    """Save samples as JSON, and pictures as SVG."""
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"{name}.json").write_text(json.dumps([sample._asdict() for sample in samples], indent=1))
    for kind, picture in pictures.items():
        (options.out / f"{name}-{kind}.svg").write_text(picture)
    print(f"written: {options.out / name}.json and pictures", file=sys.stderr)
