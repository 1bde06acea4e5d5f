"""Reading from followers (KIP-392): which followers to use, and when to return to a partition's leader (rule 34).

If a fetch contains the client's rack, the leader names a follower in that rack instead of sending records, even if the
client cannot reach that follower. The client therefore remembers a follower that it has abandoned. While a leader keeps
naming that follower, the client omits its rack from fetches to this leader.
"""

from __future__ import annotations

from collections.abc import Callable

from ..._values import NamedTuple
from ...types import TopicPartition
from ..metadata.types import ClusterSnapshot
from ..trust import Trust

CONNECTS_WITHIN_S = 0.5
"""Seconds after which a follower without a connection is abandoned. The leader has the same records."""


def may_serve(node_id: int, tp: TopicPartition, snapshot: ClusterSnapshot) -> bool:
    """Return True if the broker is in the metadata, and its replica of the partition is not listed as offline."""
    partition = snapshot.partition(*tp)
    return partition is not None and node_id in snapshot.brokers and node_id not in partition.offline_replicas


class _Left(NamedTuple):
    since: float
    until: float


class Followers:
    """Tracks the followers to which leaders redirect one consumer. Times are in monotonic seconds."""

    def __init__(
        self, max_age_s: float, patience_s: float, max_wait_s: float, reached_since: Callable[[int, float], bool]
    ) -> None:
        """Start without any follower.

        A follower that cannot be used is abandoned for ``max_age_s``. A follower may hold a fetch for at most
        ``max_wait_s``. ``reached_since(node, time)`` returns True if a connection to the node became ready at this time
        or later.
        """
        self._max_age_s = max_age_s
        self._patience_s = patience_s
        # The leader has the same records and is answering, so do not wait for the request timeout.
        self._answers_within_s = max_wait_s + patience_s / 2
        self._reached_since = reached_since
        self.named: set[int] = set()
        """All followers that leaders have named so far."""
        self._connecting: dict[int, float] = {}
        """Time at which the client began to wait for each follower's connection."""
        self._unreachable: dict[int, _Left] = {}
        self._refusals: dict[tuple[int, TopicPartition], Trust] = {}
        self._useless: dict[tuple[int, TopicPartition], _Left] = {}
        """Followers abandoned because of their responses, by partition."""
        self._ignored: dict[int, set[tuple[int, TopicPartition]]] = {}
        """For each leader, the abandoned followers that it has named again."""

    # --- connections to followers ------------------------------------------------------------------------------------

    def connecting(self, node_id: int, now: float, *, failed: bool) -> bool:
        """Record that a follower is not connected. Return True if it must be abandoned.

        It is abandoned at once if the attempt to connect has ``failed``, and otherwise when connecting takes too long.
        """
        since = self._connecting.setdefault(node_id, now)
        return failed or now >= since + CONNECTS_WITHIN_S

    def connected(self, node_id: int) -> None:
        """Record that the follower is connected, so it is not abandoned for a slow connection."""
        if self._connecting:
            self._connecting.pop(node_id, None)

    def late_at(self, sent_at: float) -> float:
        """Return the deadline for a fetch sent at this time. A follower that misses it is stuck or unreachable."""
        return sent_at + self._answers_within_s

    def next_time(self) -> float | None:
        """Return the time at which `connecting` should be called again if no event occurs before, or None."""
        return min(self._connecting.values()) + CONNECTS_WITHIN_S if self._connecting else None

    def leave(self, node_id: int, now: float) -> None:
        """Abandon a follower for ``max_age_s``, or until a connection to it becomes ready."""
        self._connecting.pop(node_id, None)
        self._unreachable[node_id] = _Left(now, now + self._max_age_s)

    # --- responses of followers --------------------------------------------------------------------------------------

    def refused(self, node_id: int, tp: TopicPartition, now: float) -> None:
        """Count an error or a lost connection instead of a partition's records. Too many abandon the follower.

        It is then abandoned for this partition only, for ``max_age_s``.
        """
        key = (node_id, tp)
        trust = self._refusals.setdefault(key, Trust())
        if trust.refused(now, now, self._patience_s):
            del self._refusals[key]
            self._useless[key] = _Left(now, now + self._max_age_s)

    def served(self, node_id: int, tp: TopicPartition) -> None:
        """Record a response without an error. Earlier errors with this partition no longer count."""
        if node_id in self.named:
            self._unreachable.pop(node_id, None)
            self._refusals.pop((node_id, tp), None)

    # --- redirection by leaders --------------------------------------------------------------------------------------

    def follows(self, leader_id: int, node_id: int, tp: TopicPartition, now: float, *, known: bool = True) -> bool:
        """Return True if the partition should be read from the follower that its leader has named.

        Returns False for a follower that was abandoned before. A follower that is not in the metadata (``known`` is
        False, see `may_serve`) is abandoned briefly, to give the metadata time to catch up. Meanwhile, fetches from the
        leader omit the client's rack, so the leader sends records.
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
        """Return True if fetches from this leader should omit the rack.

        That is the case while the leader keeps naming a follower that was abandoned.
        """
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
