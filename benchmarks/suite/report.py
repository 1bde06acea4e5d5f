"""Tables with ratios and spreads, and bar charts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import cycle

from ..stats import canvas, table
from .rounds import Sample, Spread, spreads

_OURS = ("#1f9159", "#4fae7c", "#8fcfae", "#c3e6d3")
_THEIRS = ("#b3382c", "#d98a80", "#4c5fb8", "#8f9bd6", "#777777")
_WIDTH, _LEFT, _BAR = 760, 190, 17


def cost_table(samples: Sequence[Sample], ours: str = "aiokafka_lead") -> str:
    """Return a table of the CPU and wall times by case and contender, with ratios of the medians to this client."""
    cpu, wall = spreads(samples, "cpu_us"), spreads(samples, "per_second", max)
    busy = spreads(samples, "machine_busy")
    rows: list[list[object]] = []
    for (case, contender), figure in cpu.items():
        own = cpu.get((case, ours))
        speed = wall[case, contender]
        rows.append(
            [
                f"{case}: {contender}",
                f"{figure.middle:.3f}",
                f"{figure.best:.3f}-{figure.worst:.3f}",
                _ratio(figure, own),
                f"{speed.middle / 1000:,.0f}k",
                _ratio(speed, wall.get((case, ours))),
                f"{busy[case, contender].middle:.0%}",
            ]
        )
    return table(["CPU us per record", "median", "spread", "ratio", "records/s", "ratio", "machine busy"], rows)


def _ratio(figure: Spread, own: Spread | None) -> str:
    return "-" if own is None or not own.middle else f"{figure.middle / own.middle:.2f}"


def bars(title: str, unit: str, figures: Mapping[tuple[str, str], Spread]) -> str:
    """Return an SVG with a group of bars for each case: the medians of contenders, with lines from best to worst."""
    cases = list(dict.fromkeys(case for case, _ in figures))
    colours = _colours(dict.fromkeys(contender for _, contender in figures))
    height = 60 + sum(24 + _BAR * sum(key[0] == case for key in figures) for case in cases)
    out = canvas(title, _WIDTH, height)
    y = 40
    for case in cases:
        group = {contender: spread for (name, contender), spread in figures.items() if name == case}
        scale = (_WIDTH - _LEFT - 110) / (max(map(max, group.values())) or 1.0)
        out.append(f'<text x="16" y="{y + 12}" font-weight="bold">{escape(case)}</text>')
        y += 18
        for contender, spread in group.items():
            colour = colours[contender]
            middle = y + _BAR / 2
            best, worst = _LEFT + spread.best * scale, _LEFT + spread.worst * scale
            end = max(best, worst) + 6
            bar = f'width="{spread.middle * scale:.1f}" height="{_BAR - 4}"'
            out += [
                f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(contender)}</text>',
                f'<rect x="{_LEFT}" y="{y + 2}" {bar} fill="{colour}"/>',
                f'<line x1="{best:.1f}" x2="{worst:.1f}" y1="{middle}" y2="{middle}" stroke="currentColor"/>',
                f'<text x="{end:.1f}" y="{y + 11}">{_number(spread.middle)} {escape(unit)}</text>',
            ]
            y += _BAR
        y += 6
    return "\n".join([*out, "</svg>"])


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _colours(contenders: Iterable[str]) -> dict[str, str]:
    """Return a colour for each contender. All variants of this client are green."""
    ours, theirs = cycle(_OURS), cycle(_THEIRS)
    return {name: next(ours if name.startswith(("aiokafka_lead", "aiokafka-lead")) else theirs) for name in contenders}
