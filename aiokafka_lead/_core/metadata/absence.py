"""Missing topics and partitions: when to look for them, when to warn, and when to give one up.

Brokers hear of a new topic or partition at different times, so that one answer without it means little; see `believed`.
It may be created at any time, without notice: so the client looks for it until it exists or is no longer needed, at
growing intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..._values import NamedTuple
from ...types import TopicPartition
from ..backoff import Backoff
from .topics import WARN_EVERY_S, believed
from .types import ClusterSnapshot

LOOK_AT_LEAST_EVERY_MS = 10_000.0

Absent = TopicPartition | str
"""A missing partition, or a topic without any."""


class Look(NamedTuple):
    """The results of one look."""

    refresh: bool
    """True if newer metadata is needed."""
    warn_of: list[Absent]
    """Missing topics and partitions to warn about now."""
    until: float | None
    """Time of the next look if no event occurs before; None if nothing is missing."""


@dataclass(slots=True)
class _Absence:
    since: float
    """Time at which it was first found missing."""
    answers_before: int
    """Number of answers before that time."""
    warn_at: float | None = None
    """Time of the next warning; None before the first."""


class Absences:
    """Topics and partitions that have been missing for a while; decides from the time and the number of answers."""

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = Backoff(backoff.first_ms, max(backoff.longest_ms, LOOK_AT_LEAST_EVERY_MS), backoff.rng)
        self._absences: dict[Absent, _Absence] = {}
        self._asked = 0
        """Number of refreshes requested since something new was found missing."""
        self._ask_at = 0.0

    def __bool__(self) -> bool:
        """Return True if anything was missing at the last look."""
        return bool(self._absences)

    @property
    def confirmed(self) -> tuple[str, ...]:
        """Names of the topics and partitions that are still missing after a warning."""
        return tuple(sorted(str(what) for what, absence in self._absences.items() if absence.warn_at is not None))

    def hurry(self, now: float) -> None:
        """Look for everything as if newly missing, because a call waits for it."""
        self._asked, self._ask_at = 0, now

    def look(self, now_absent: Iterable[Absent], answers: int, now: float) -> Look:
        """Update with all missing topics and partitions; ``answers`` counts the answers about all topics so far."""
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
    """Partitions that one broker does not know, and other brokers may not know either."""

    def __init__(self) -> None:
        self._refused: dict[TopicPartition, tuple[float, int]] = {}
        """Time of the first refusal, and number of other brokers' answers without the partition."""

    def judge(self, refused: Iterable[TopicPartition], counts: Mapping[str, int], now: float) -> set[TopicPartition]:
        """Return the partitions to give up. ``counts`` has each topic's number of partitions from another answer.

        It is 0 for an unknown topic; topics that the answer does not cover are left out.
        """
        missing = set()
        for tp in refused:
            count = counts.get(tp.topic)
            if count is None:
                continue
            if tp.partition < count:
                self._refused.pop(tp, None)  # the refusing broker lags
                continue
            since, answers = self._refused.get(tp, (now, 0))
            self._refused[tp] = since, answers + 1
            if believed(answers + 1, now - since):
                missing.add(tp)
        return missing


def absent(topics: Iterable[str], partitions: Iterable[TopicPartition], snapshot: ClusterSnapshot) -> Iterable[Absent]:
    """Yield missing topics and partitions, as far as the cluster was asked: a topic once, without its partitions."""
    topics = {name for name in topics if name in snapshot.topics and not snapshot.partition_count(name)}
    yield from topics
    for tp in partitions:
        if tp.topic not in topics and snapshot.lacks(*tp):
            yield tp
