"""What each leader move has cost a client, from what was seen of a round of ``each_move``."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .traces import MoveTrace, Trace

TABLES = {
    "over_floor": "from the last acknowledgement to the next, less the brokers' own time",
    "over_leaderless": "from the last acknowledgement to the next, less the time without a leader",
    "behind": "from the first acknowledgement of a client that knew the move at once to this one's",
    "consumed": "from the acknowledgement to the consumer's hands, of a new leader's first record",
}
"""What the tables of a report are about."""
SHARES = (0.5, 0.9, 0.99)
HEADER = ["client", "moves", "leaderless, p50", "brokers' own, p50", "p50", "p90", "p99"]
"""Of each of them; the last are of `SHARES`, with their confidence intervals."""


class Move(NamedTuple):
    """The leader of the partition was to change."""

    at: float
    """Wall-clock second at which it was asked for."""
    leader: int
    """The index of the new leader among the brokers that the prober asks."""


class Figures(NamedTuple):
    """One move, in milliseconds."""

    leaderless: float
    """No broker led the partition."""
    floor: float
    """No broker acknowledged the prober's records."""
    gap: float
    """No record of the client's was acknowledged."""
    behind: float | None
    """From the first acknowledgement of a client that knew the move at once to this client's."""
    consumed: float | None
    """From the acknowledgement of the first record after the move to the consumer's hands."""

    @property
    def over_floor(self) -> float:
        return self.gap - self.floor

    @property
    def over_leaderless(self) -> float:
        return self.gap - self.leaderless


Answers = Sequence[tuple[float, int, float]]
"""[Second of an answer, the index of the broker that gave it as leader, second of the question.]"""


class Round(NamedTuple):
    """What was seen of one client's moves."""

    moves: Sequence[Move]
    samples: Sequence[tuple[int, float, float]]
    """Of each record its number, the second of its send, and the milliseconds to its acknowledgement."""
    led: Answers
    """Of the prober that asks who leads the partition."""
    wrote: Answers
    """Of the prober that writes to it."""
    seen: Mapping[int, float]
    """When the consumer had which record."""

    @property
    def ends(self) -> list[float]:
        """By move, when the next one was asked for: the last acknowledgement, after the last one."""
        last = max((sent + ms / 1000 for _, sent, ms in self.samples), default=0.0)
        return [*(move.at for move in self.moves[1:]), last]


def figures(round_: Round) -> list[Figures]:
    """What each move has cost; those of which the prober or the load did not see the end are left out."""
    acknowledged = sorted((sent + ms / 1000, number) for number, sent, ms in round_.samples)
    times = [at for at, _ in acknowledged]
    found = []
    for this, until in zip(round_.moves, round_.ends, strict=True):
        leaderless, floor = (between(answers, this, until) for answers in (round_.led, round_.wrote))
        first, last = max(1, bisect_left(times, this.at)), bisect_left(times, until)
        if leaderless is None or floor is None or first >= last:
            continue
        gap, at = max((times[index] - times[index - 1], index) for index in range(first, last))
        read = round_.seen.get(acknowledged[at][1])
        consumed = None if read is None else 1000 * max(0.0, read - times[at])
        known = at_once(round_.wrote, this, until)
        behind = None if known is None else 1000 * (times[at] - known)
        found.append(Figures(leaderless, floor, 1000 * gap, behind, consumed))
    return found


def record_traces(round_: Round, run: str, client: str) -> Iterator[Trace]:
    """What became of every record."""
    for number, sent, ms in round_.samples:
        seen = round_.seen.get(number)
        times = [sent, sent + ms / 1000, *([] if seen is None else [seen])]
        yield Trace(run, client, "leader moves", number, *map(_us, times))


def move_traces(round_: Round, run: str, client: str, condition: str, backoff_ms: int) -> Iterator[MoveTrace]:
    """What the brokers needed for every move."""
    for this, until in zip(round_.moves, round_.ends, strict=True):
        took = [between(answers, this, until) for answers in (round_.led, round_.wrote)]
        leaderless, floor = (None if ms is None else round(1000 * ms) for ms in took)
        known = at_once(round_.wrote, this, until)
        at_once_us = None if known is None else _us(known)
        yield MoveTrace(run, client, condition, backoff_ms, _us(this.at), _us(until), leaderless, floor, at_once_us)


def _us(second: float) -> int:
    return round(1e6 * second)


def between(answers: Answers, this: Move, until: float) -> float | None:
    """The milliseconds from the old leader's last answer to the new one's first."""
    new = [at for at, leader, _ in answers if leader == this.leader and this.at <= at < until]
    old = [at for at, leader, _ in answers if leader != this.leader and at < until]
    return 1000 * max(0.0, new[0] - old[-1]) if new and old else None


def at_once(answers: Answers, this: Move, until: float) -> float | None:
    """The second of the new leader's first answer to a question of the time after the old one's last answer."""
    old = [at for at, leader, _ in answers if leader != this.leader and at < until]
    new = [at for at, leader, asked in answers if leader == this.leader and old and old[-1] <= asked < until]
    return min(new, default=None)
