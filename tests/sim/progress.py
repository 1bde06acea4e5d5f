"""Measures how long partitions make no progress although they could."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulated.partition import Partition
from tests.simulated.timeline import Timeline

from .cluster import Cluster
from .reader import Reader
from .writer import Writer

LOOK_EVERY_S = 0.02


class Stall(NamedTuple):
    """The longest time without progress of a partition's records, or reads, during one lie."""

    lie: str
    what: str
    seconds: float
    until: float
    """End of the stall, in virtual time."""


class _Standing:
    """One partition of one client."""

    def __init__(self) -> None:
        self.done = 0
        self.since: float | None = None
        """Time since which it could have proceeded; None if it cannot, or is idle."""
        self.truth: tuple[int, int] = (-1, -1)
        """Leader and epoch at that time."""
        self.longest_s = 0.0
        self.until = 0.0


class Progress:
    """Watches a writer and a reader.

    A partition stalls while it has pending work and makes no progress, although its leader is reachable and working,
    and some broker would name that leader. Another election restarts the time.
    """

    def __init__(self, timeline: Timeline, cluster: Cluster, writer: Writer, reader: Reader) -> None:
        self._timeline = timeline
        self._cluster = cluster
        self.writer = writer
        self.reader = reader
        self._lie = ""
        self._standing: dict[tuple[str, int], _Standing] = {}
        self.stalls: list[Stall] = []
        self._look_again()

    def begin(self, lie: str) -> None:
        """Begin the next lie; note the result of the previous one."""
        for (what, partition), standing in self._standing.items():
            if self._lie and standing.until:
                self.stalls.append(Stall(self._lie, f"{what} {partition}", standing.longest_s, standing.until))
        self._lie = lie
        self._standing.clear()
        self._look()

    def _look_again(self) -> None:
        self.reader.take(10_000)
        self._look()
        self._timeline.later(LOOK_EVERY_S, self._look_again)

    def _look(self) -> None:
        for partition in self._cluster.partitions:
            index, serves = partition.index, self._cluster.serves(partition)
            acknowledged, read = self.writer.acknowledged(index), self.reader.position(self.reader.tps[index])
            self._note(("writes to", index), partition, acknowledged, len(self.writer.sent[index]), serves)
            self._note(("reads of", index), partition, read, partition.end, serves)

    def _note(self, key: tuple[str, int], partition: Partition, done: int, due: int, serves: bool) -> None:
        standing = self._standing.setdefault(key, _Standing())
        now, truth = self._timeline.now, (partition.leader, partition.epoch)
        went_on = done > standing.done
        if standing.since is not None and (went_on or standing.truth == truth):
            stood = now - standing.since, now
            standing.longest_s, standing.until = max((standing.longest_s, standing.until), stood)
        standing.done = done
        if not serves or done >= due:
            standing.since = None
        elif went_on or standing.since is None or standing.truth != truth:
            standing.since, standing.truth = now, truth
