"""Fetch planning: which partitions to fetch from which broker, and when to send each request.

For every broker with partitions to fetch, one request of its fetch session is in flight. While there are no records,
the broker holds this request for up to ``fetch_max_wait_ms``. A partition that becomes fetchable meanwhile (after a
seek, after a new leader was elected, or when the application has read its buffered records) does not wait for that
request. It is fetched *beside the session*: in a request without a session, on a separate connection. The session's
next request includes the partition even if the request beside the session is unanswered. If both responses contain the
same offset, the second is ignored, which is cheaper than waiting for both.

The planner examines only the partitions that have changed since its last run, so thousands of idle partitions cost no
time.

Memory: buffered data and the data of pending requests together stay within ``fetch_max_bytes``, except that a broker
always returns at least one batch, however large. Each partition has at most two unread responses. The second is
requested only if the first is not larger than ``max_partition_fetch_bytes``.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Iterator
from itertools import count
from uuid import UUID

from ..._values import NamedTuple
from ...types import TopicPartition
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .fetch_session import (
    FIRST_VERSION_WITH_DIVERGING_EPOCH,
    FetchSession,
    MergedSession,
    SessionRequest,
    names_by_id,
    version_to_send,
)
from .followers import may_serve
from .partition_state import FetchState, PartitionState
from .position import PartitionFetch
from .positions import Positions
from .prefetch import Prefetch

ANSWERS_AHEAD = 2
"""Maximum number of unread responses per partition."""

BESIDE_AFTER_S = 0.01
"""Seconds after which a pending session request is assumed to be waiting for records at the broker."""


class FetchLimits(NamedTuple):
    """Size limits of fetches and of fetched data, in bytes. The fields have the names of the options."""

    fetch_max_bytes: int
    max_partition_fetch_bytes: int


class PlannedFetch(NamedTuple):
    """A request to send now, with the data needed to read its response."""

    node_id: int
    version: int
    beside: bool
    """True if the request is sent beside the broker's session (see the module)."""
    request: SessionRequest
    asked: dict[TopicPartition, PartitionFetch]
    """All partitions that the response may contain."""
    names: dict[UUID, str]
    """Topic names by topic id, for responses that identify topics by id."""
    max_bytes: int
    sent_at: float


class _Node:
    """Tracks the partitions fetched from one broker, its session, and the pending requests to it."""

    __slots__ = ("beside", "changed", "main", "members", "names", "session", "starved", "suspects", "wait_until")

    def __init__(self, session: FetchSession) -> None:
        self.session = session
        self.members: dict[TopicPartition, PartitionState] = {}
        """Partitions to fetch from this broker.

        A partition with new records moves to the end, so that no partition starves.
        """
        self.changed: dict[TopicPartition, None] = {}
        """Partitions that were added, removed or advanced since the session's last request."""
        self.main: PlannedFetch | None = None
        """The session's pending request, or None."""
        self.beside: PlannedFetch | None = None
        self.names: dict[UUID, str] = {}
        """Topic names by topic id, for the session."""
        self.suspects = Suspects()
        self.starved = False
        """True if the last request was delayed for lack of memory."""
        self.wait_until = 0.0
        """Earliest time of the next request. Set after an invalid response."""

    @property
    def asked_bytes(self) -> int:
        """Return the maximum total size in bytes of the responses that are pending from this broker."""
        return sum(planned.max_bytes for planned in (self.main, self.beside) if planned is not None)


def _starved_first(item: tuple[int, _Node]) -> bool:
    return not item[1].starved


class FetchPlanner:
    """Plans the fetches of one consumer.

    The fetcher calls `plan`, sends the request, and then calls `answered` or `failed`.
    """

    def __init__(self, positions: Positions, prefetch: Prefetch, limits: FetchLimits, *, merged: bool = False) -> None:
        """Plan within ``limits``.

        With ``merged``, the fetches of several consumers are merged (see `merged_fetch`). A pending request can then be
        withdrawn, so no request is sent beside the session.
        """
        self._positions = positions
        self._prefetch = prefetch
        self._limits = limits
        self._merged = merged
        self._new_session = MergedSession if merged else FetchSession
        self._beside_after_s = 0.0 if merged else BESIDE_AFTER_S
        self._nodes: dict[int, _Node] = {}
        self._timers: list[tuple[float, int, PartitionState]] = []
        self._timer_ids = count()
        self.lookups: dict[PartitionState, None] = {}
        """Partitions whose position must be looked up or validated. The fetcher removes them."""
        self.leaderless: dict[PartitionState, None] = {}
        """Partitions to fetch whose leader is unknown."""
        self.starved = False
        """True if `plan` delayed a request for lack of memory."""

    # --- assigning partitions to brokers -----------------------------------------------------------------------------

    def place(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Assign each touched or due partition to the broker to fetch it from, or to none."""
        timers = self._timers
        positions = self._positions
        while timers and timers[0][0] <= now:
            state = heapq.heappop(timers)[2]
            state.timer_at = 0.0
            positions.touched[state] = None
        touched, positions.touched = positions.touched, {}
        for state in touched:
            home = self._home(state, snapshot, now)
            if home is None or home != state.home or not self._is_asked_for(state, self._nodes[home], snapshot):
                self._move(state, home)

    def _is_asked_for(self, state: PartitionState, node: _Node, snapshot: ClusterSnapshot) -> bool:
        """Return True if the broker's session already includes this partition at its current offset."""
        tp = state.tp
        if tp in node.changed or node.members.get(tp) is not state:
            return False
        return node.session.known.get(tp) == self._fetch_of(state, snapshot)

    def _home(self, state: PartitionState, snapshot: ClusterSnapshot, now: float) -> int | None:
        """Return the broker from which to fetch this partition now, or None."""
        self.leaderless.pop(state, None)
        if not self._positions.owns(state):
            self.lookups.pop(state, None)
            return None
        leader, leader_epoch = snapshot.leader(*state.tp)
        until = state.patience.waits_until(now, leader_epoch)
        if until:
            self._look_again(state, until)
            return None
        if state.state is FetchState.INITIALIZING:
            self._look_up(state)
            return None
        if state.error is not None or state.looked_up or self._is_held(state):
            return None
        if leader == NO_LEADER or leader not in snapshot.brokers:
            self.leaderless[state] = None
            return None
        if state.state is not FetchState.FETCHING:
            self._look_up(state)
            return None
        if state.preferred_replica < 0:
            return leader
        if now >= state.preferred_until or not may_serve(state.preferred_replica, state.tp, snapshot):
            state.preferred_replica = -1
            return leader
        self._look_again(state, state.preferred_until)
        return state.preferred_replica

    def members(self, node_id: int) -> Collection[PartitionState]:
        """Return the partitions that are fetched from this broker."""
        return self._nodes[node_id].members.values()

    def sent_at(self, node_id: int) -> float | None:
        """Return the time at which the session's pending request to this broker was sent, or None.

        None means that no request is pending.
        """
        node = self._nodes.get(node_id)
        return None if node is None or node.main is None else node.main.sent_at

    def ask_anew(self) -> None:
        """Include every partition in the next requests, even if the brokers' sessions already have it."""
        for node in self._nodes.values():
            node.changed.update(dict.fromkeys(node.members))

    def _look_again(self, state: PartitionState, at: float) -> None:
        # A partition is examined whenever it advances. Without this check, each time would add another timer.
        if not state.timer_at or at < state.timer_at:
            state.timer_at = at
            heapq.heappush(self._timers, (at, next(self._timer_ids), state))

    def _look_up(self, state: PartitionState) -> None:
        if not state.looked_up and state.error is None:
            self.lookups[state] = None

    def _is_held(self, state: PartitionState) -> bool:
        """Return True if a partition must not be fetched now: it is paused, or enough of its data is buffered."""
        if state.state is not FetchState.FETCHING:
            return False
        if state.still:
            return True
        if not state.fetched:
            return False
        if not state.read_ahead or len(state.fetched) >= ANSWERS_AHEAD:
            return True
        return state.buffered_bytes > self._limits.max_partition_fetch_bytes

    def _move(self, state: PartitionState, home: int | None) -> None:
        tp = state.tp
        if state.home is not None:
            old = self._nodes[state.home]
            if old.members.get(tp) is state:
                del old.members[tp]
            # The next request of the old session must remove the partition.
            old.changed[tp] = None
        state.home = home
        if home is not None:
            node = self._nodes.get(home)
            if node is None:
                node = self._nodes[home] = _Node(self._new_session())
            node.members[tp] = state
            node.changed[tp] = None

    # --- requests ----------------------------------------------------------------------------------------------------

    def waiting_nodes(self, now: float) -> list[tuple[int, bool]]:
        """Return the brokers that need a request now, each with True if the request is sent beside the session.

        Brokers whose last request lacked memory come first. Otherwise, brokers without records, whose requests end
        soon, could take all memory.
        """
        found: list[tuple[int, bool]] = []
        for node_id, node in sorted(self._nodes.items(), key=_starved_first):
            if not node.members or now < node.wait_until:
                continue
            if node.main is None:
                found.append((node_id, False))
            elif node.beside is None and now >= node.main.sent_at + self._beside_after_s and self._came(node):
                found.append((node_id, True))
        return found

    @staticmethod
    def _came(node: _Node) -> bool:
        return any(tp in node.members for tp in node.changed)

    def plan(
        self, node_id: int, version: int, snapshot: ClusterSnapshot, now: float, *, beside: bool
    ) -> PlannedFetch | None:
        """Return the request to send to this broker now, or None. A returned request counts as sent."""
        node = self._nodes[node_id]
        if version < FIRST_VERSION_WITH_DIVERGING_EPOCH:
            self._validate_first(node, snapshot)
        members = node.members
        max_bytes = self._max_bytes(len(members), beside=beside)
        node.starved = max_bytes is None
        if max_bytes is None or not members:
            self.starved = self.starved or node.starved
            return None
        suspect = None if beside else node.suspects.next(members)
        if beside or suspect is not None:
            alone = node.changed if suspect is None else [suspect]
            asked = {tp: self._fetch_of(members[tp], snapshot) for tp in alone if tp in members}
            by_id = names_by_id(asked, version)
            request = SessionRequest.beside(asked)
            names = {fetch.topic_id: tp.topic for tp, fetch in asked.items()}
        else:
            request, by_id = self._session_request(node, version, snapshot)
            asked = node.session.known
            names = node.names
        planned = PlannedFetch(node_id, version_to_send(version, by_id), beside, request, asked, names, max_bytes, now)
        if beside:
            node.beside = planned
        else:
            node.main = planned
        return planned

    def _session_request(self, node: _Node, version: int, snapshot: ClusterSnapshot) -> tuple[SessionRequest, bool]:
        session = node.session
        members = node.members
        candidates: Iterable[TopicPartition] = members if session.is_full else node.changed
        fetches = {tp: self._fetch_of(members[tp], snapshot) for tp in candidates if tp in members}
        ids = names_by_id(fetches, version)
        if session.begins_anew(ids):  # without a new session, the broker would answer FETCH_SESSION_TOPIC_ID_ERROR
            session.failed()
            return self._session_request(node, version, snapshot)
        if session.is_full:
            node.names = {}
            request = session.full(fetches, ids)
        else:
            request = session.incremental(fetches, [tp for tp in node.changed if tp not in members])
        for tp, fetch in fetches.items():
            node.names[fetch.topic_id] = tp.topic
        node.changed.clear()
        return request, ids

    def _validate_first(self, node: _Node, snapshot: ClusterSnapshot) -> None:
        """Request validation of positions for brokers before Fetch 12, which do not detect diverging logs (KIP-320)."""
        for tp in list(node.changed):
            state = node.members.get(tp)
            if state is None or state.fetch_epoch < 0:
                continue
            leader_epoch = snapshot.leader(*tp)[1]
            if leader_epoch > state.validated_epoch and state.preferred_replica < 0:
                state.validate()
                self.lookups[state] = None
                self._move(state, None)

    @staticmethod
    def _fetch_of(state: PartitionState, snapshot: ClusterSnapshot) -> PartitionFetch:
        leader_epoch = snapshot.leader(*state.tp)[1]
        return PartitionFetch(snapshot.topic_id(state.tp.topic), state.fetch_offset, state.fetch_epoch, leader_epoch)

    def _max_bytes(self, partitions: int, *, beside: bool) -> int | None:
        """Return the maximum size in bytes of the next response, or None if there is no memory for it now.

        Each broker gets an equal share of the memory, and one share is reserved for partitions that become fetchable
        later. A request beside the session may use the reserved share, but not the shares of brokers without a pending
        request. A broker without partitions has no share, even while a response from it is pending, because its records
        are not needed.
        """
        limits = self._limits
        used, shares, idle = self._prefetch.total_bytes, 1, 0
        for node in self._nodes.values():
            if node.members:
                used += node.asked_bytes
                shares += 1
                idle += node.main is None
        share = max(1, limits.fetch_max_bytes // shares)
        # If nothing is buffered, always fetch. Otherwise a low limit would stop all reading.
        if used and used + share * (1 + idle if beside else 1) > limits.fetch_max_bytes:
            return None
        return min(share, partitions * limits.max_partition_fetch_bytes)

    def make_room(self, wanted: Container[TopicPartition] | None) -> None:
        """Drop data that is not being read if a request lacks memory.

        ``wanted`` contains the partitions for which a reader is waiting, which keep their data. None means all
        partitions. Dropped data is fetched again later.
        """
        if self.starved:
            self.starved = False
            self._prefetch.evict(wanted)

    # --- responses ---------------------------------------------------------------------------------------------------

    def answered(self, planned: PlannedFetch) -> FetchSession | None:
        """Record the response to a request. Return the session that must process it.

        Returns None for a request beside the session.
        """
        node = self._take(planned)
        node.suspects.cleared(planned.asked)
        return None if planned.request.sessionless else node.session

    def failed(self, planned: PlannedFetch) -> list[PartitionState]:
        """Record that a request failed. Return its partitions that are still assigned."""
        node = self._take(planned)
        if not planned.request.sessionless:
            node.session.failed()
        return [state for tp in planned.asked if (state := self._positions.get(tp)) is not None]

    def too_large(self, planned: PlannedFetch) -> PartitionState | None:
        """Record that the response to ``planned`` was too large, and return the partition responsible.

        Returns None while that partition is unknown, in which case the partitions are fetched one by one. Merged
        fetches search for the partition themselves and report it as the only partition of a failed request.
        """
        if not self._merged:
            culprit = self._nodes[planned.node_id].suspects.accuse(planned.asked)
        else:
            culprit = next(iter(planned.asked)) if planned.request.sessionless else None
        return None if culprit is None else self._positions.get(culprit)

    def recall(self, node_id: int) -> None:
        """Forget the session's pending request to this broker, so that another request can be planned."""
        planned = self._nodes[node_id].main
        if planned is not None:
            self._take(planned)

    def wait(self, node_id: int, until: float) -> None:
        """Send no request to this broker before the time ``until``."""
        self._nodes[node_id].wait_until = until

    def _take(self, planned: PlannedFetch) -> _Node:
        node = self._nodes[planned.node_id]
        if planned.beside:
            node.beside = None
        else:
            node.main = None
        return node

    def next_time(self, now: float) -> float | None:
        """Return the time at which to call `place` and `waiting_nodes` again, or None. An event may require it earlier.

        Brokers to which a request could be sent now are ignored. They wait for an event, such as a connection or free
        memory.
        """
        times = [self._timers[0][0]] if self._timers else []
        for node in self._nodes.values():
            if not node.members:
                continue
            if node.wait_until > now:
                times.append(node.wait_until)
            elif node.main is not None and node.beside is None and self._came(node):
                times.append(node.main.sent_at + self._beside_after_s)
        return min((time for time in times if time > now), default=None)

    # --- closing the sessions ----------------------------------------------------------------------------------------

    def closing(self) -> Iterator[tuple[int, SessionRequest]]:
        """Yield each broker with the request that closes its session."""
        for node_id, node in self._nodes.items():
            request = node.session.close()
            if request is not None:
                yield node_id, request


class Suspects:
    """The partitions of one broker that must be fetched one by one, because a batch may be too large to receive.

    A broker sends the first batch whole, however large it is. The client does not read a frame that is too large, so
    any of the requested partitions may be the cause. The client fetches them one by one until it has found the
    partition, and continues to read all other partitions.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left: dict[TopicPartition, None] = {}

    def accuse(self, asked: Collection[TopicPartition]) -> TopicPartition | None:
        """Record that the response for these partitions was too large, and return the cause if it is certain.

        The cause is certain if the partition was fetched alone because of an earlier large response. Otherwise, returns
        None, and `next` returns the partitions to fetch alone. A single large response proves nothing, because its
        length may be garbage.
        """
        if len(asked) == 1 and not self._left.keys().isdisjoint(asked):
            self._left.clear()
            return next(iter(asked))
        self._left.update(dict.fromkeys(asked))
        return None

    def next(self, wanted: Container[TopicPartition]) -> TopicPartition | None:
        """Return the next partition that must be fetched alone, or None. It is one of ``wanted``."""
        while self._left:
            tp = next(iter(self._left))
            if tp in wanted:
                return tp
            del self._left[tp]
        return None

    def cleared(self, asked: Collection[TopicPartition]) -> None:
        """Record that a response for these partitions was read, so they are not the cause."""
        if self._left:
            for tp in asked:
                self._left.pop(tp, None)
