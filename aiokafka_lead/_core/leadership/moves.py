"""Measures leader changes: the clock of one partition, and the counters of producers and consumers.

Compiled through ``moves.pxd`` if a compiler is available.
"""

from __future__ import annotations


class LeaderMoveCounters:
    """Counters common to producers and consumers."""

    __slots__ = ("leader_move_ms_last", "leader_move_ms_max", "leader_move_ms_total", "leader_moves")

    def __init__(self) -> None:
        self.leader_moves = 0
        self.leader_move_ms_total = 0.0
        self.leader_move_ms_max = 0.0
        self.leader_move_ms_last = 0.0

    def leader_moved(self, took_s: float) -> None:
        """Count a move to another leader, this long after the former one refused."""
        took_ms = took_s * 1000
        self.leader_moves += 1
        self.leader_move_ms_total += took_ms
        self.leader_move_ms_last = took_ms
        self.leader_move_ms_max = max(self.leader_move_ms_max, took_ms)


class MoveClock:
    """Times a partition's change of leader: from the first refusal until another broker serves it."""

    __slots__ = ("_refused_by", "_since")

    def __init__(self) -> None:
        self._since = 0.0
        """Time of its leader's first refusal; 0 if there was none."""
        self._refused_by = -1
        """The broker that refused then."""

    def refused(self, node_id: int, now: float) -> None:
        """Record that the broker does not lead the partition, or cannot be reached."""
        if not self._since:
            self._since = now
            self._refused_by = node_id

    def served(self, node_id: int, at: float, counters: LeaderMoveCounters) -> None:
        """Record that the broker serves the partition, which ends a move if another one refused before.

        The same broker, elected again, is not another leader and is not counted.
        """
        if not self._since:
            return
        if node_id != self._refused_by:
            counters.leader_moved(max(0.0, at - self._since))
        self._since = 0.0

    def stop(self) -> None:
        """Stop the clock: from now on the move's duration depends on the application."""
        self._since = 0.0
