"""Decides which followers to read from (KIP-392), and when a partition goes back to its leader (rule 34).

A leader names a follower in the client's rack, and sends no records to a client that reports its rack, whether or not
the client can reach that follower. So an abandoned follower is remembered, and a leader that keeps naming it gets
fetches without a rack.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._values import NamedTuple
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot
from ..trust import Trust

CONNECTS_WITHIN_S = 0.5
"""Seconds after which a follower without connection is abandoned: its leader has the same records, and responds."""


def may_serve(node_id: int, tp: TopicPartition, snapshot: ClusterSnapshot) -> bool:
    """Return True if the broker is in the metadata, and its replica of the partition is not listed as offline."""
    partition = snapshot.partition(*tp)
    return partition is not None and node_id in snapshot.brokers and node_id not in partition.offline_replicas


class _Left(NamedTuple):
    since: float
    until: float


class Followers:
    """Tracks the followers to which leaders redirect one consumer. Times are monotonic seconds."""

    def __init__(
        self, max_age_s: float, patience_s: float, max_wait_s: float, reached_since: Callable[[int, float], bool]
    ) -> None:
        """Abandon followers for ``max_age_s``. ``max_wait_s`` is the longest time that a follower may hold a fetch.

        ``reached_since`` returns True if a connection to a node became ready at this time or later.
        """
        self._max_age_s = max_age_s
        self._patience_s = patience_s
        self._answers_within_s = max_wait_s + patience_s / 2  # its leader has the same records, and answers now
        self._reached_since = reached_since
        self.named: set[int] = set()
        """The followers that leaders have named so far."""
        self._connecting: dict[int, float] = {}
        """Time at which the wait for each follower's connection began."""
        self._unreachable: dict[int, _Left] = {}
        self._refusals: dict[tuple[int, TopicPartition], Trust] = {}
        self._useless: dict[tuple[int, TopicPartition], _Left] = {}
        """Followers that came into doubt by their answers for one partition."""
        self._ignored: dict[int, set[tuple[int, TopicPartition]]] = {}
        """Abandoned followers that each leader has named again."""

    # --- reaching them -----------------------------------------------------------------------------------------------

    def connecting(self, node_id: int, now: float, *, failed: bool) -> bool:
        """Record that a follower is not connected; return True if it must be abandoned, at once if it ``failed``."""
        since = self._connecting.setdefault(node_id, now)
        return failed or now >= since + CONNECTS_WITHIN_S

    def connected(self, node_id: int) -> None:
        """Record that there is a connection."""
        if self._connecting:
            self._connecting.pop(node_id, None)

    def late_at(self, sent_at: float) -> float:
        """Return the deadline for a fetch sent at this time; a follower that misses it is frozen or isolated."""
        return sent_at + self._answers_within_s

    def next_time(self) -> float | None:
        """Return the next time to call `connecting` if no event occurs before."""
        return min(self._connecting.values()) + CONNECTS_WITHIN_S if self._connecting else None

    def leave(self, node_id: int, now: float) -> None:
        """Abandon a follower until it has been reached again, or ``max_age_s`` has passed."""
        self._connecting.pop(node_id, None)
        self._unreachable[node_id] = _Left(now, now + self._max_age_s)

    # --- their answers -----------------------------------------------------------------------------------------------

    def refused(self, node_id: int, tp: TopicPartition, now: float) -> None:
        """Count an error, or a lost connection, instead of records of this partition."""
        key = (node_id, tp)
        trust = self._refusals.setdefault(key, Trust())
        if trust.refused(now, now, self._patience_s):
            del self._refusals[key]
            self._useless[key] = _Left(now, now + self._max_age_s)

    def served(self, node_id: int, tp: TopicPartition) -> None:
        """Record an answer without an error, which restores trust."""
        if node_id in self.named:
            self._unreachable.pop(node_id, None)
            self._refusals.pop((node_id, tp), None)

    # --- following a leader ------------------------------------------------------------------------------------------

    def follows(self, leader_id: int, node_id: int, tp: TopicPartition, now: float, *, known: bool = True) -> bool:
        """Return True if the partition should be read from the follower that its leader has named.

        A follower that is not ``known`` to metadata (see `may_serve`) is abandoned until metadata may have caught up.
        """
        key = (node_id, tp)
        self.named.add(node_id)
        if self._is_left(key, now):
            pass
        elif known:
            return True
        else:
            self._useless[key] = _Left(now, now + self._patience_s)
        self._ignored.setdefault(leader_id, set()).add(key)
        return False

    def hides_rack(self, leader_id: int, now: float) -> bool:
        """Return True if fetches from this leader should not contain the rack."""
        ignored = self._ignored.get(leader_id)
        if not ignored:
            return False
        ignored.intersection_update([key for key in ignored if self._is_left(key, now)])
        return bool(ignored)

    def _is_left(self, key: tuple[int, TopicPartition], now: float) -> bool:
        node_id, _ = key
        unreachable = self._unreachable.get(node_id)
        if unreachable is not None:
            if now < unreachable.until and not self._reached_since(node_id, unreachable.since):
                return True
            del self._unreachable[node_id]
        useless = self._useless.get(key)
        if useless is not None:
            if now < useless.until:
                return True
            del self._useless[key]
        return False
