"""Draw the pictures of the documentation from the published results: ``python -m benchmarks pictures``.

Costs and rates come from the tables in docs/benchmarks.md. The benchmark ``leader_move`` draws the pictures of
latencies during leader moves.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from html import escape
from itertools import dropwhile, takewhile
from pathlib import Path
from statistics import median

from .leader_gaps import IDLE, read_csv
from .leader_move import CLIENTS
from .stats import COLOURS, GRID, canvas, percentile
from .suite.report import bars
from .suite.rounds import Spread

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
COSTS = ("produce, `await send()`", "produce, 1 KB with zstd", "consume, record objects", "consume, `async for`")
RATES = ("produce, `await send()`", "produce, zstd", "produce, 1 KB with zstd", "consume, record objects")
"""Prefixes of the names of the rows to draw."""
_WIDTH, _LEFT, _ROW = 760, 170, 46
_DECADES = (0, 3)
"""Powers of ten at the ends of the scale, 1 and 1,000 ms."""


def main(arguments: list[str]) -> None:
    """Write every picture."""
    argparse.ArgumentParser(prog="python -m benchmarks pictures", description=__doc__).parse_args(arguments)
    for name, picture in pictures().items():
        (RESULTS / name).write_text(picture)
        print(RESULTS / name)


def pictures() -> dict[str, str]:
    """Return SVG pictures by file name."""
    moves = moves_of(RESULTS / "each_move.csv")
    rates: dict[str, dict[str, list[float]]] = json.loads((RESULTS / "transactions.json").read_text())
    per_second = {
        (case, client): Spread(max(found), median(found), min(found))
        for case, clients in rates.items()
        for client, found in clients.items()
    }
    count = max(map(len, moves.values()))
    title = f"Cost of each of {count} leader moves on real Kafka, beyond the time without a leader"
    return {
        "each_move.svg": strips(title, moves),
        "transactions.svg": bars("Sequential transactions of 12 records", "a second", per_second),
        "costs.svg": bars("Client CPU time per record (100 bytes unless stated)", "us", shown("CPU and memory", COSTS)),
        "rates.svg": bars("Thousands of records per second", "", shown("Records a second", RATES)),
    }


def moves_of(path: Path) -> dict[str, list[float]]:
    """Return the time of each move without the leaderless time, by client, with idle brokers and default backoff."""
    found: dict[str, list[float]] = defaultdict(list)
    for move in read_csv(path.read_text()):
        if move["condition"] == IDLE and move["backoff_ms"] == 100:
            found[CLIENTS[move["client"]].replace("_", "-")].append(move["gap"] - move["leaderless"])
    return dict(sorted(found.items(), key=lambda client: percentile(sorted(client[1]), 0.5)))


def shown(section: str, beginnings: Sequence[str]) -> dict[tuple[str, str], Spread]:
    """Return the figures in the first table of a section in docs/benchmarks.md, by row and client."""
    text = re.split(f"^#+ {section}$", PAGE.read_text(), maxsplit=1, flags=re.MULTILINE)[1]
    lines = takewhile(lambda line: line.startswith("|"), dropwhile(lambda line: line[:1] != "|", text.splitlines()))
    (_, *clients), _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    found: dict[tuple[str, str], Spread] = {}
    for begin in beginnings:
        name, *figures = next(row for row in rows if row[0].startswith(begin))
        for client, figure in zip(clients, figures, strict=True):
            if figure and client != "pure Python":
                label = {"its AIO": "confluent-kafka AIO"}.get(client, client)
                found[re.sub("`|, every .*", "", name), label] = Spread(*[float(figure.replace(",", ""))] * 3)
    return found


def strips(title: str, series: Mapping[str, Sequence[float]]) -> str:
    """Return an SVG with a row for each client: a dot for each value on a logarithmic scale, and p50 and p99."""
    bottom = 40 + _ROW * len(series)
    out = canvas(title, _WIDTH, bottom + 30)

    def x(ms: float) -> float:
        share = (math.log10(max(ms, 10 ** _DECADES[0])) - _DECADES[0]) / (_DECADES[1] - _DECADES[0])
        return _LEFT + min(share, 1.0) * (_WIDTH - _LEFT - 40)

    for decade in range(_DECADES[0], _DECADES[1] + 1):
        at = x(10**decade)
        out.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="40" y2="{bottom}" {GRID}/>')
        label = f"{'to ' if decade == _DECADES[0] else ''}{10**decade:,} ms"
        out.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{label}</text>')
    for index, (name, values) in enumerate(series.items()):
        middle = 40 + _ROW * index + _ROW // 2
        colour = COLOURS[0] if name.startswith("aiokafka-lead") else COLOURS[4]
        out.append(f'<text x="16" y="{middle + 4}">{escape(name)}</text>')
        dots = "".join(f'<circle cx="{x(ms):.1f}" cy="{middle}" r="4"/>' for ms in values)
        out.append(f'<g fill="{colour}" fill-opacity="0.3">{dots}</g>')
        for label, share, above in (("p50", 0.5, True), ("p99", 0.99, False)):
            ms = percentile(sorted(values), share)
            top, end = middle - 9, middle + 9
            out.append(f'<path d="M{x(ms):.1f} {top}V{end}" stroke="currentColor" stroke-width="2"/>')
            height = top - 3 if above else end + 11
            out.append(
                f'<text x="{x(ms):.1f}" y="{height}" text-anchor="middle" font-size="10">{label} {ms:.0f}</text>'
            )
    return "\n".join([*out, "</svg>"])
