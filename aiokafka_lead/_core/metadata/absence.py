"""Topics and partitions that the cluster does not have: when to look for those that are to be read, when to warn, and
when to give up what a broker refuses.

Brokers learn of a new topic or partition one after the other, so that one answer without it means little; see
`believed`. It may be made at any time, without notice: so it is looked for until it is there or not wanted any more,
less and less often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ...types import TopicPartition
from ..backoff import Backoff
from .topics import WARN_EVERY_S, believed
from .types import ClusterSnapshot

__all__ = ["Absences", "Look", "MissingPartitions", "absent"]

LOOK_AT_LEAST_EVERY_MS = 10_000.0

Absent = TopicPartition | str
"""A partition, or a topic without any."""


class Look(NamedTuple):
    """What follows from one look."""

    refresh: bool
    """Ask for newer metadata."""
    warn_of: list[Absent]
    """What is worth a warning now."""
    until: float | None
    """When to look again, whatever happens; None: nothing is absent."""


@dataclass(slots=True)
class _Absence:
    since: float
    """When it was first found to be absent."""
    answers_before: int
    """How many answers there had been then."""
    warn_at: float | None = None
    """When to warn again; None before the first time."""


class Absences:
    """What has been absent for a while. Takes the time and the number of answers, and decides."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = Backoff(backoff.first_ms, max(backoff.longest_ms, LOOK_AT_LEAST_EVERY_MS), backoff.rng)
        self._absences: dict[Absent, _Absence] = {}
        self._asked = 0
        """Refreshes asked for since something new was found to be absent."""
        self._ask_at = 0.0

    def __bool__(self) -> bool:
        """Whether anything was absent at the last look."""
        return bool(self._absences)

    @property
    def confirmed(self) -> tuple[str, ...]:
        """The names of what still is absent after a warning about it."""
        return tuple(sorted(str(what) for what, absence in self._absences.items() if absence.warn_at is not None))

    def hurry(self, now: float) -> None:
        """A call waits for what is absent: look for everything as if it were new."""
        self._asked, self._ask_at = 0, now

    def look(self, now_absent: Iterable[Absent], answers: int, now: float) -> Look:
        """What follows from what is absent now; ``answers`` counts those about all topics in use so far."""
        former, self._absences = self._absences, {}
        for what in now_absent:
            known = former.get(what)
            if known is None:
                known = _Absence(now, answers)
                self.hurry(now)
            self._absences[what] = known
        if not self._absences:
            return Look(refresh=False, warn_of=[], until=None)
        warn_of: list[Absent] = []
        for what, absence in self._absences.items():
            is_absent = believed(answers - absence.answers_before, now - absence.since)
            if is_absent and (absence.warn_at is None or now >= absence.warn_at):
                absence.warn_at = now + WARN_EVERY_S
                warn_of.append(what)
        refresh = now >= self._ask_at
        if refresh:
            self._asked += 1
            self._ask_at = now + self._backoff.delay_s(self._asked)
        return Look(refresh, warn_of, self._ask_at)


class MissingPartitions:
    """Partitions that one broker does not know, and which of them the others do not know either."""

    def __init__(self) -> None:
        self._refused: dict[TopicPartition, tuple[float, int]] = {}
        """Since when, and how many answers of others did not have it."""

    def judge(self, refused: Iterable[TopicPartition], counts: Mapping[str, int], now: float) -> set[TopicPartition]:
        """Return those to give up. ``counts``: one more answer, how many partitions each topic has; 0 of one that it
        does not know, and nothing of one about which it says nothing."""
        missing = set()
        for tp in refused:
            count = counts.get(tp.topic)
            if count is None:
                continue
            if tp.partition < count:
                self._refused.pop(tp, None)  # the broker that refuses lags
                continue
            since, answers = self._refused.get(tp, (now, 0))
            self._refused[tp] = since, answers + 1
            if believed(answers + 1, now - since):
                missing.add(tp)
        return missing


def absent(topics: Iterable[str], partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot) -> Iterable[Absent]:
    """Which of these the cluster does not have, as far as it was asked: a topic once, and not its partitions too."""
    topics = {name for name in topics if name in snapshot.topics and not snapshot.partition_count(name)}
    yield from topics
    for tp in partitions:
        if tp.topic not in topics and snapshot.lacks(*tp):
            yield tp
