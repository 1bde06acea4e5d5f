"""Statistics of samples, Markdown tables, and a picture of latency over time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import NamedTuple

RESAMPLES = 2_000
"""Number of resamples of a bootstrap."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which a share (0 to 1) of the sorted values lies, or NaN if there are no values."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.nan


def latency_row(values: Sequence[float]) -> list[float]:
    """Return p50, p99, p99.9 and max."""
    ordered = sorted(values)
    return [percentile(ordered, share) for share in (0.5, 0.99, 0.999, 1.0)]


class Estimate(NamedTuple):
    """Figure with its 95% confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        value, low, high = (f"{each:.{0 if abs(each) >= 1000 else 1 if abs(each) >= 1 else 2}f}" for each in self)
        return f"{value} [{low}, {high}]"


Statistic = Callable[[Sequence[float]], float]
"""Function that computes a statistic of sorted values."""


def quantile(share: float) -> Statistic:
    """Return the statistic for a quantile from 0 to 1."""
    return lambda ordered: percentile(ordered, share)


def resampled(values: Sequence[float], statistic: Statistic, seed: int = 1) -> list[float]:
    """Return the statistic in each bootstrap resample of the values. The same seed gives the same resamples."""
    draw, ordered = random.Random(seed), sorted(values)
    return [statistic(sorted(draw.choices(ordered, k=len(ordered)))) for _ in range(RESAMPLES)]


def estimate(values: Sequence[float], statistic: Statistic) -> Estimate:
    """Return the statistic of the values, with its interval from a percentile bootstrap."""
    return within(statistic(sorted(values)), resampled(values, statistic))


def within(value: float, resamples: Sequence[float]) -> Estimate:
    """Return a figure with the interval that contains 95% of its resamples."""
    ordered = sorted(resamples)
    return Estimate(value, percentile(ordered, 0.025), percentile(ordered, 0.975))


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Format a Markdown table. The first column is left-aligned, and all other columns are right-aligned."""
    cells = [[_cell(value) for value in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]

    def line(row: Sequence[str]) -> str:
        first, *others = zip(row, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]) + " |"

    dashes = ["-" * (width + 1) + ("-" if column == 0 else ":") for column, width in enumerate(widths)]
    rule = f"|{'|'.join(dashes)}|"
    return "\n".join([line(cells[0]), rule, *map(line, cells[1:])])


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


COLOURS = ("#1f9159", "#c9871f", "#c9463a", "#6274cc", "#858585")
GRID = 'stroke="#888" stroke-opacity="0.35"'
"""Style of lines in the background."""
_DARK = "@media (prefers-color-scheme: dark) {svg {color: #ddd; fill: #ddd} .page {fill: #1e2129}}"
_STYLE = f"<style>svg {{color: #222; fill: #222}} .page {{fill: #fff}} {_DARK}</style>"
_WIDTH, _PANEL, _LEFT, _TOP = 920, 150, 70, 40


def canvas(title: str, width: int, height: int, left: int = 16) -> list[str]:
    """Return the first lines of an SVG that supports dark mode. The caller adds the closing ``</svg>``."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        f'{_STYLE}<rect class="page" width="{width}" height="{height}"/>',
        f'<text x="{left}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]


def latency_picture(
    title: str, series: Mapping[str, Sequence[tuple[float, float]]], marks: Sequence[float] = ()
) -> str:
    """Return an SVG with a panel for each client, and a dot for each sample (seconds, ms) on a logarithmic scale.

    ``marks`` are times of events in seconds, which become thin vertical lines in every panel.
    """
    seconds = max((at for samples in series.values() for at, _ in samples), default=1.0)
    highest = max((ms for samples in series.values() for _, ms in samples), default=1.0)
    decades = (-1, max(1, math.ceil(math.log10(max(highest, 1.0)))))
    height = _TOP + len(series) * _PANEL + 30
    out = canvas(title, _WIDTH, height, _LEFT)

    def x(at: float) -> float:
        return _LEFT + at / seconds * (_WIDTH - _LEFT - 20)

    for index, (name, samples) in enumerate(series.items()):
        top, bottom = _TOP + index * _PANEL + 18, _TOP + (index + 1) * _PANEL - 8

        def y(ms: float, top: float = top, bottom: float = bottom) -> float:
            share = (math.log10(max(ms, 10 ** decades[0])) - decades[0]) / (decades[1] - decades[0])
            return bottom - share * (bottom - top)

        out.append(f'<text x="{_LEFT}" y="{top - 5}" fill="{COLOURS[index % len(COLOURS)]}">{escape(name)}</text>')
        for decade in range(decades[0], decades[1] + 1):
            level = y(10**decade)
            out.append(f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{level:.1f}" y2="{level:.1f}" {GRID}/>')
            out.append(f'<text x="{_LEFT - 6}" y="{level + 4:.1f}" text-anchor="end">{10**decade:g} ms</text>')
        for mark in marks:
            place = f'x1="{x(mark):.1f}" x2="{x(mark):.1f}" y1="{top}" y2="{bottom}"'
            out.append(f'<line {place} stroke="#58c" stroke-opacity="0.3"/>')
        out.append(f'<path stroke="{COLOURS[index % len(COLOURS)]}" stroke-width="2" d="{_dots(samples, x, y)}"/>')
    out.append(f'<text x="{_WIDTH - 20}" y="{height - 10}" text-anchor="end">{seconds:.0f} s</text></svg>')
    return "\n".join(out)


def _dots(samples: Sequence[tuple[float, float]], x: Callable[[float], float], y: Callable[[float], float]) -> str:
    """Return a path with a dot for every sample. Touching dots within a column of two pixels become one stroke."""
    columns: dict[int, set[int]] = {}
    for at, ms in samples:
        columns.setdefault(2 * round(x(at) / 2), set()).add(round(y(ms)))
    strokes = []
    for column, rows in sorted(columns.items()):
        touching: list[int] = []
        for row in sorted(rows):
            if touching and row > touching[-1] + 2:
                strokes.append(f"M{column} {touching[0]}V{touching[-1] + 2}")
                touching.clear()
            touching.append(row)
        strokes.append(f"M{column} {touching[0]}V{touching[-1] + 2}")
    return "".join(strokes)
