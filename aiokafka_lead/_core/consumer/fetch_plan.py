"""Which partitions are fetched from which broker, and when a request goes out.

Every broker has one request of its session under way as long as it has partitions to fetch; without records the broker
holds it for ``fetch_max_wait_ms``. A partition that becomes fetchable meanwhile (a seek, a new leader, a buffer that
was read) need not wait for that: it goes out *beside* the session, in a request without one on a connection of its
own. The session's next request has it, too, whether or not the other one is back: of two answers about the same offset
the second is void, and that is cheaper than to have a partition wait until both requests are back.

The planner looks only at partitions that were touched since it last ran, so that thousands of idle ones cost nothing.

Memory: what is buffered and what is asked for stay within ``fetch_max_bytes``, except that a broker always answers with
one batch, however large. Each partition has at most two answers waiting, and the second is asked for while the first is
not larger than ``max_partition_fetch_bytes``.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Container, Iterable, Iterator
from itertools import count
from typing import NamedTuple
from uuid import UUID

from ...types import TopicPartition
from ..metadata.types import NO_LEADER, ClusterSnapshot
from .fetch_request import FIRST_VERSION_WITH_DIVERGING_EPOCH
from .fetch_session import (
    FetchSession,
    MergedSession,
    SessionRequest,
    names_by_id,
    version_to_send,
)
from .fetch_state import FetchState
from .followers import may_serve
from .partition_fetch import PartitionFetch
from .partition_state import PartitionState
from .positions import Positions
from .prefetch import Prefetch
from .suspects import Suspects

__all__ = ["FetchLimits", "FetchPlanner", "PlannedFetch"]

ANSWERS_AHEAD = 2
"""Answers of one partition that may wait to be read."""

BESIDE_AFTER_S = 0.01
"""A session's request under way for this long waits for records at the broker, rather than for the network."""


class FetchLimits(NamedTuple):
    """Sizes in bytes, from the options of these names."""

    fetch_max_bytes: int
    max_partition_fetch_bytes: int


class PlannedFetch(NamedTuple):
    """A request to send now, and what its answer has to be read against."""

    node_id: int
    version: int
    beside: bool
    """Outside of the broker's session."""
    request: SessionRequest
    asked: dict[TopicPartition, PartitionFetch]
    """Every partition that the answer may be about."""
    names: dict[UUID, str]
    """Topics by id, for answers that name them so."""
    max_bytes: int
    sent_at: float


class _Node:
    """One broker's fetches."""

    __slots__ = ("beside", "changed", "main", "members", "names", "session", "starved", "suspects", "wait_until")

    def __init__(self, session: FetchSession) -> None:
        self.session = session
        self.members: dict[TopicPartition, PartitionState] = {}
        """Partitions to fetch from this broker; those that got records last stand last, so that none starves."""
        self.changed: dict[TopicPartition, None] = {}
        """Partitions that came, went or moved on since the session's last request."""
        self.main: PlannedFetch | None = None
        """The session's request under way."""
        self.beside: PlannedFetch | None = None
        self.names: dict[UUID, str] = {}
        """Topics of the session by id."""
        self.suspects = Suspects()
        self.starved = False
        """Its last request was held back for want of memory."""
        self.wait_until = 0.0
        """After an answer that makes no sense: no request before this."""

    @property
    def asked_bytes(self) -> int:
        """The most that the answers under way can hold."""
        return sum(planned.max_bytes for planned in (self.main, self.beside) if planned is not None)


def _starved_first(item: tuple[int, _Node]) -> bool:
    return not item[1].starved


class FetchPlanner:
    """Decides; the fetcher calls `plan`, sends, then calls `answered` or `failed` for each request."""

    def __init__(self, positions: Positions, prefetch: Prefetch, limits: FetchLimits, *, merged: bool = False) -> None:
        """``merged``: a request can be taken back at no cost, and takes the place of any beside the session."""
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
        """Partitions whose position has to be found or confirmed; the fetcher takes them out."""
        self.leaderless: dict[PartitionState, None] = {}
        """Partitions that are to be fetched, if only their leader were known."""
        self.starved = False
        """Whether `plan` held a request back for want of memory."""

    # --- membership --------------------------------------------------------------------------------------------------

    def place(self, snapshot: ClusterSnapshot, now: float) -> None:
        """Have each touched partition, and each whose time has come, fetched from the right broker, or not at all."""
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
        """Whether the broker's session has this partition as it is to be fetched: records were read, say."""
        tp = state.tp
        if tp in node.changed or node.members.get(tp) is not state:
            return False
        return node.session.known.get(tp) == self._fetch_of(state, snapshot)

    def _home(self, state: PartitionState, snapshot: ClusterSnapshot, now: float) -> int | None:
        """The broker to fetch this partition from now, or None."""
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
        """The partitions that are fetched from this broker."""
        return self._nodes[node_id].members.values()

    def sent_at(self, node_id: int) -> float | None:
        """When the session's request under way to this broker was sent; None if there is none."""
        node = self._nodes.get(node_id)
        return None if node is None or node.main is None else node.main.sent_at

    def ask_anew(self) -> None:
        """Have every partition asked for again, though its session may have it."""
        for node in self._nodes.values():
            node.changed.update(dict.fromkeys(node.members))

    def _look_again(self, state: PartitionState, at: float) -> None:
        # A partition is looked at whenever it moves on; without this check each time would leave a timer behind.
        if not state.timer_at or at < state.timer_at:
            state.timer_at = at
            heapq.heappush(self._timers, (at, next(self._timer_ids), state))

    def _look_up(self, state: PartitionState) -> None:
        if not state.looked_up and state.error is None:
            self.lookups[state] = None

    def _is_held(self, state: PartitionState) -> bool:
        """Whether a partition with a position is not to be fetched now though it could be."""
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
        """Brokers that a request should go to now, and whether beside the session; first those that had no memory.

        Else brokers without records, which come back again and again, could keep the memory from the others.
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
        """The request to send to this broker now, or None; it counts as sent."""
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
        if session.begins_anew(ids):  # else FETCH_SESSION_TOPIC_ID_ERROR
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
        """Brokers before Fetch 12 do not notice that a position diverges: ask after a change of leader (KIP-320)."""
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
        """What the next answer may hold, or None if there is no room for it now.

        Each broker gets an equal share, and one share stays free for whatever becomes fetchable meanwhile. That share
        is what a request beside the session gets, but not those of brokers that are asked for nothing yet. A broker
        that all partitions have left holds no share, though it may still answer: nobody waits for those records.
        """
        limits = self._limits
        used, shares, idle = self._prefetch.total_bytes, 1, 0
        for node in self._nodes.values():
            if node.members:
                used += node.asked_bytes
                shares += 1
                idle += node.main is None
        share = max(1, limits.fetch_max_bytes // shares)
        if used and used + share * (1 + idle if beside else 1) > limits.fetch_max_bytes:
            return None
        return min(share, partitions * limits.max_partition_fetch_bytes)

    def make_room(self, wanted: Container[TopicPartition] | None) -> None:
        """A reader of these partitions (None: of all) waits: give up what is buffered of others, if memory is short."""
        if self.starved:
            self.starved = False
            self._prefetch.evict(wanted)

    # --- answers -----------------------------------------------------------------------------------------------------

    def answered(self, planned: PlannedFetch) -> FetchSession | None:
        """An answer arrived; the session that it belongs to, if any, has still to take it in."""
        node = self._take(planned)
        node.suspects.cleared(planned.asked)
        return None if planned.request.sessionless else node.session

    def failed(self, planned: PlannedFetch) -> list[PartitionState]:
        """No answer arrived; the partitions that the request was for."""
        node = self._take(planned)
        if not planned.request.sessionless:
            node.session.failed()
        return [state for tp in planned.asked if (state := self._positions.get(tp)) is not None]

    def too_large(self, planned: PlannedFetch) -> PartitionState | None:
        """The answer was too large to be read, and has failed; the partition that it is because of, if that is certain.

        What merges fetches finds it out by itself, and then answers as if it had been asked for alone.
        """
        if not self._merged:
            culprit = self._nodes[planned.node_id].suspects.accuse(planned.asked)
        else:
            culprit = next(iter(planned.asked)) if planned.request.sessionless else None
        return None if culprit is None else self._positions.get(culprit)

    def recall(self, node_id: int) -> None:
        """Take back the session's request under way: another one is to be planned."""
        planned = self._nodes[node_id].main
        if planned is not None:
            self._take(planned)

    def wait(self, node_id: int, until: float) -> None:
        """Send this broker nothing before then."""
        self._nodes[node_id].wait_until = until

    def _take(self, planned: PlannedFetch) -> _Node:
        node = self._nodes[planned.node_id]
        if planned.beside:
            node.beside = None
        else:
            node.main = None
        return node

    def next_time(self, now: float) -> float | None:
        """When `place` and `waiting_nodes` have to be asked again, whatever happens.

        What could be done already waits for something else: a connection, or memory.
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

    # --- the end -----------------------------------------------------------------------------------------------------

    def closing(self) -> Iterator[tuple[int, SessionRequest]]:
        """Requests that close the sessions, by broker."""
        for node_id, node in self._nodes.items():
            request = node.session.close()
            if request is not None:
                yield node_id, request
