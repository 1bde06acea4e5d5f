"""Cost of each leader move for a client, computed from the observations in a round of ``each_move``."""

from __future__ import annotations

import csv
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .traces import MoveTrace, Trace

TABLES = {
    "over_floor": "from the last acknowledgement to the next, minus the brokers' own time",
    "over_leaderless": "from the last acknowledgement to the next, minus the time without a leader",
    "behind": "from the first acknowledgement to an ideal client to the first to this client",
    "consumed": "from the acknowledgement of the new leader's first record until the consumer receives it",
}
"""Subjects of a report's tables."""
SHARES = (0.5, 0.9, 0.99)
IDLE = "idle brokers"
"""Name of the condition of idle brokers."""
SETTLING_S = 0.1
"""Seconds after a client's first acknowledgement by the new leader in which a pause still counts as part of the move.

Later pauses have other causes, such as a broker's garbage collection.
"""
HEADER = ["client", "moves", "leaderless, p50", "brokers' own, p50", "p50", "p90", "p99"]
"""Header of each table; the last columns are the percentiles `SHARES`, with confidence intervals."""


CSV_FIELDS = {
    "condition": "condition",
    "client": "client",
    "backoff_ms": "backoff_ms",
    "leaderless_ms": "leaderless",
    "brokers_own_ms": "floor",
    "gap_ms": "gap",
    "behind_ms": "behind",
    "consumed_ms": "consumed",
}
"""The columns of a file of moves, and their names in the JSON of ``each_move``."""


class Move(NamedTuple):
    """Requested change of the partition's leader."""

    at: float
    """Wall-clock time of the request in seconds."""
    leader: int
    """Index of the new leader among the brokers to which the prober sends requests."""


class Figures(NamedTuple):
    """Times of a move in milliseconds."""

    leaderless: float
    """Time in which no broker led the partition."""
    floor: float
    """Time in which no broker acknowledged the prober's records."""
    gap: float
    """Longest time without an acknowledgement to the client, as far as the move has caused it."""
    behind: float | None
    """Time between the first acknowledgements to an ideal client, which learns of the move immediately, and to this."""
    consumed: float | None
    """Time from the acknowledgement of the first record after the move until the consumer receives the record."""

    @property
    def over_floor(self) -> float:
        return self.gap - self.floor

    @property
    def over_leaderless(self) -> float:
        return self.gap - self.leaderless


Answers = Sequence[tuple[float, int, float]]
"""Responses of leaders: the time of the response, the index of the broker, and the time of the request, in seconds."""


class Round(NamedTuple):
    """Observations of one client during its moves."""

    moves: Sequence[Move]
    samples: Sequence[tuple[int, float, float]]
    """Number of each record, the time at which it was sent in seconds, and the milliseconds to its acknowledgement."""
    led: Answers
    """Responses to the prober that requests offsets, which only a leader returns."""
    wrote: Answers
    """Responses to the prober that writes records."""
    seen: Mapping[int, float]
    """Time in seconds at which the consumer received each record, by number."""

    @property
    def ends(self) -> list[float]:
        """Return the end of each move: the time of the next move, or for the last move of the last acknowledgement."""
        last = max((sent + ms / 1000 for _, sent, ms in self.samples), default=0.0)
        return [*(move.at for move in self.moves[1:]), last]


class Change(NamedTuple):
    """Observations of a prober during a move, in seconds."""

    stopped: float
    """Time of the old leader's last response."""
    started: float
    """Time of the new leader's first response, which may be before the old leader's last."""

    @property
    def ms(self) -> float:
        """Return the time without a response, in milliseconds."""
        return 1000 * max(0.0, self.started - self.stopped)


def figures(round_: Round) -> list[Figures]:
    """Return the times of all moves, except moves whose end the prober or the client has not seen."""
    acknowledged = sorted((sent + ms / 1000, number) for number, sent, ms in round_.samples)
    times = [at for at, _ in acknowledged]
    found = []
    for this, until in zip(round_.moves, round_.ends, strict=True):
        led, wrote = (change(answers, this, until) for answers in (round_.led, round_.wrote))
        longest = None if wrote is None else longest_gap(times, this, wrote, until)
        if led is None or wrote is None or longest is None:
            continue
        gap, at = longest
        read = round_.seen.get(acknowledged[at][1])
        consumed = None if read is None else 1000 * max(0.0, read - times[at])
        known = at_once(round_.wrote, this, until)
        behind = None if known is None else 1000 * (times[at] - known)
        found.append(Figures(led.ms, wrote.ms, 1000 * gap, behind, consumed))
    return found


def read_csv(text: str) -> Iterator[dict[str, Any]]:
    """Yield the moves of a CSV file, in the form of the JSON of ``each_move``."""
    for row in csv.DictReader(text.splitlines()):
        texts = {field: row[column] for column, field in CSV_FIELDS.items()}
        figures = {field: float(texts[field]) if texts[field] else None for field in Figures._fields}
        yield {**texts, **figures, "backoff_ms": int(texts["backoff_ms"])}


def longest_gap(times: Sequence[float], this: Move, wrote: Change, until: float) -> tuple[float, int] | None:
    """Return the longest time in seconds between two acknowledgements around a move, and the index of the second.

    The gap ends after the old leader has stopped, and begins at most `SETTLING_S` after the client's first
    acknowledgement since the new leader has started. Returns None if the client gets no acknowledgement before the next
    move.
    """
    first, last = max(1, bisect_left(times, max(this.at, min(wrote)))), bisect_left(times, until)
    again = bisect_left(times, max(wrote))
    if again >= last:
        return None
    begins = times[again] + SETTLING_S
    return max((times[at] - times[at - 1], at) for at in range(first, last) if times[at - 1] <= begins)


def record_traces(round_: Round, run: str, client: str) -> Iterator[Trace]:
    """Yield the times of every record."""
    for number, sent, ms in round_.samples:
        seen = round_.seen.get(number)
        times = [sent, sent + ms / 1000, *([] if seen is None else [seen])]
        yield Trace(run, client, "leader moves", number, *map(_us, times))


def move_traces(round_: Round, run: str, client: str, condition: str, backoff_ms: int) -> Iterator[MoveTrace]:
    """Yield the times of every move at the brokers."""
    for this, until in zip(round_.moves, round_.ends, strict=True):
        led, wrote = (change(answers, this, until) for answers in (round_.led, round_.wrote))
        known = at_once(round_.wrote, this, until)
        yield MoveTrace(
            run,
            client,
            condition,
            backoff_ms,
            _us(this.at),
            _us(until),
            None if led is None else round(1000 * led.ms),
            None if wrote is None else _us(wrote.stopped),
            None if wrote is None else _us(wrote.started),
            None if known is None else _us(known),
        )


def _us(second: float) -> int:
    return round(1e6 * second)


def change(answers: Answers, this: Move, until: float) -> Change | None:
    """Return the old leader's last response and the new leader's first, or None if either is missing."""
    new = [at for at, leader, _ in answers if leader == this.leader and this.at <= at < until]
    old = [at for at, leader, _ in answers if leader != this.leader and at < until]
    return Change(old[-1], new[0]) if new and old else None


def at_once(answers: Answers, this: Move, until: float) -> float | None:
    """Return the time of the first response to a request that was sent to the new leader after the old had stopped."""
    old = [at for at, leader, _ in answers if leader != this.leader and at < until]
    new = [at for at, leader, asked in answers if leader == this.leader and old and old[-1] <= asked < until]
    return min(new, default=None)
