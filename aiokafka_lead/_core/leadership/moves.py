"""How long it takes to go on with another leader: the clock of one partition, and what producers and consumers count.

Compiled through ``moves.pxd`` where a compiler is.
"""

from __future__ import annotations

__all__ = ["LeaderMoveCounters", "MoveClock"]


class LeaderMoveCounters:
    """What producers and consumers count alike."""

    __slots__ = ("leader_move_ms_last", "leader_move_ms_max", "leader_move_ms_total", "leader_moves")

    def __init__(self) -> None:
        self.leader_moves = 0
        self.leader_move_ms_total = 0.0
        self.leader_move_ms_max = 0.0
        self.leader_move_ms_last = 0.0

    def leader_moved(self, took_s: float) -> None:
        """Another leader took over, so long after the former one refused."""
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
        """When its leader first refused; 0 while none has."""
        self._refused_by = -1
        """The broker that refused then."""

    def refused(self, node_id: int, now: float) -> None:
        """The broker does not lead the partition, or cannot be reached."""
        if not self._since:
            self._since = now
            self._refused_by = node_id

    def served(self, node_id: int, at: float, counters: LeaderMoveCounters) -> None:
        """The broker serves the partition, as of this time: a move is over, if another one refused before.

        The same broker, elected anew, is no other leader: nothing is counted then.
        """
        if not self._since:
            return
        if node_id != self._refused_by:
            counters.leader_moved(max(0.0, at - self._since))
        self._since = 0.0

    def stop(self) -> None:
        """How long the move takes is up to the application now."""
        self._since = 0.0
