"""Members of consumer groups of the new protocol (KIP-848), the assignors, and the steps to target assignments.

Java: ``ConsumerGroupMember``, ``CurrentAssignmentBuilder``, ``UniformAssignor`` and ``RangeAssignor``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from enum import Enum, auto
from typing import NamedTuple
from uuid import UUID

from .clock import TimerHandle
from .members import JoinRequest

LEAVES = -1
"""Member epoch of a heartbeat that leaves the group."""

LEAVES_FOR_A_WHILE = -2
"""Member epoch of a heartbeat by which a static member leaves but keeps its partitions until its session expires."""

Slot = tuple[UUID, int]
"""A topic's id and a partition."""


class Beat(NamedTuple):
    """A heartbeat. Absent fields are None. If ``owned`` is present, it contains all partitions of the member."""

    member_id: str
    epoch: int
    instance_id: str | None
    rack: str | None
    rebalance_timeout_ms: int | None
    topics: frozenset[str] | None
    pattern: str | None
    assignor: str | None
    owned: frozenset[Slot] | None
    client_id: str
    client_host: str


class BeatResult(NamedTuple):
    """The response to a heartbeat. ``assignment`` is None if it is unchanged."""

    member_id: str
    epoch: int
    assignment: frozenset[Slot] | None


class MemberState(Enum):
    """A member's progress towards its target assignment."""

    STABLE = auto()
    UNREVOKED = auto()
    """The member must first give up partitions."""
    UNRELEASED = auto()
    """The member is waiting for partitions that other members own."""


class ConsumerMember:
    """A member of a consumer group, using either protocol.

    Invariant: no partition is in ``assigned`` or ``revoking`` of two members of a group.
    """

    __slots__ = (
        "assigned",
        "assignor",
        "classic",
        "client_host",
        "client_id",
        "deadline",
        "epoch",
        "instance_id",
        "join_timer",
        "member_id",
        "pattern",
        "previous_epoch",
        "rack",
        "rebalance_timeout_ms",
        "rebalance_timer",
        "revoking",
        "session_timer",
        "state",
        "sync_timer",
        "topics",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.instance_id: str | None = None
        self.rack: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.rebalance_timeout_ms = 0
        self.topics: frozenset[str] = frozenset()
        # A regular expression for whole names of topics, in addition to ``topics``.
        self.pattern = ""
        self.assignor: str | None = None
        self.epoch = 0
        self.previous_epoch = 0
        self.state = MemberState.STABLE
        # Partitions with the epoch of their assignment, from which commits are accepted (KIP-1251).
        self.assigned: dict[Slot, int] = {}
        self.revoking: frozenset[Slot] = frozenset()
        # Its join request, if it uses the classic protocol.
        self.classic: JoinRequest | None = None
        # End of its session without a further request, and the timer that checks it.
        self.deadline = float("inf")
        self.session_timer: TimerHandle | None = None
        # Limits the time for giving up partitions and, for classic members, for rejoining and syncing.
        self.rebalance_timer: TimerHandle | None = None
        self.join_timer: TimerHandle | None = None
        self.sync_timer: TimerHandle | None = None

    def succeed(self, old: ConsumerMember) -> None:
        """Replace a static member that has another id."""
        self.instance_id, self.rack, self.assignor = old.instance_id, old.rack, old.assignor
        self.topics, self.pattern, self.rebalance_timeout_ms = old.topics, old.pattern, old.rebalance_timeout_ms
        self.state, self.assigned, self.revoking = old.state, old.assigned, old.revoking

    def update(self, beat: Beat) -> bool:
        """Store the data of a heartbeat. Return True if the subscription has changed."""
        before = self.topics, self.pattern
        self.client_id, self.client_host = beat.client_id, beat.client_host
        self.classic = None
        if beat.instance_id is not None:
            self.instance_id = beat.instance_id
        if beat.rack is not None:
            self.rack = beat.rack
        if beat.rebalance_timeout_ms is not None:
            self.rebalance_timeout_ms = beat.rebalance_timeout_ms
        if beat.topics is not None:
            self.topics = beat.topics
        if beat.pattern is not None:
            self.pattern = beat.pattern
        if beat.assignor is not None:
            self.assignor = beat.assignor
        return before != (self.topics, self.pattern)

    def is_reconciled(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def set_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.previous_epoch, self.epoch = self.epoch, epoch

    def reconcile(
        self, target_epoch: int, target: Set[Slot], owned: Set[Slot] | None, is_free: Callable[[Slot], bool]
    ) -> None:
        """Move one step towards the target: first give up partitions, then get free partitions.

        ``owned`` contains the partitions that the member has reported.
        """
        if self.is_reconciled(target_epoch):
            return
        epoch = self.epoch
        if self.state is MemberState.UNREVOKED:
            if owned is None or owned & self.revoking:
                return
            epoch += 1
        kept = {slot: since for slot, since in self.assigned.items() if slot in target}
        gone = self.assigned.keys() - kept.keys()
        if gone and (owned is None or owned & gone):
            self.set_epoch(epoch)
            self.state, self.assigned, self.revoking = MemberState.UNREVOKED, kept, frozenset(gone)
            return
        missing = target - kept.keys()
        free = [slot for slot in missing if is_free(slot)]
        self.set_epoch(target_epoch)
        self.state = MemberState.STABLE if len(free) == len(missing) else MemberState.UNRELEASED
        self.assigned, self.revoking = kept | dict.fromkeys(sorted(free), target_epoch), frozenset()

    def cancel_timers(self) -> None:
        for timer in (self.session_timer, self.rebalance_timer, self.join_timer, self.sync_timer):
            if timer is not None:
                timer.cancel()
        self.session_timer = self.rebalance_timer = self.join_timer = self.sync_timer = None


class Candidate(NamedTuple):
    """A member, as seen by a server-side assignor."""

    member_id: str
    instance_id: str | None
    wanted: Mapping[UUID, int]
    """Subscribed topics, with the number of their partitions."""


Target = dict[str, frozenset[Slot]]
"""Assignment of each member, by its id."""

DEFAULT_ASSIGNOR = "uniform"


def _slots(topics: Mapping[UUID, int]) -> list[Slot]:
    return [(topic, index) for topic in sorted(topics) for index in range(topics[topic])]


def _in_order(members: Sequence[Candidate]) -> list[Candidate]:
    """Sort the members: first static members by instance id, then the others by member id."""
    return sorted(members, key=lambda member: (member.instance_id is None, member.instance_id or member.member_id))


def uniform(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign evenly with few moves. Members with too many partitions give some to the members with the fewest."""
    given: dict[str, set[Slot]] = {}
    free: set[Slot] = set()
    seekers: dict[UUID, list[str]] = {}
    alike: dict[int, set[Slot]] = {}  # members with the same subscription share the topics
    for member in _in_order(members):
        wanted = alike.get(id(member.wanted))
        if wanted is None:
            wanted = alike[id(member.wanted)] = set(_slots(member.wanted))
            free |= wanted
        given[member.member_id] = set(before.get(member.member_id, ())) & wanted
        for topic in member.wanted:
            seekers.setdefault(topic, []).append(member.member_id)
    free -= set[Slot]().union(*given.values())
    loads = {member_id: len(slots) for member_id, slots in given.items()}

    def give(slot: Slot, member_id: str) -> None:
        given[member_id].add(slot)
        loads[member_id] += 1

    for slot in sorted(free):
        give(slot, min(seekers[slot[0]], key=loads.__getitem__))
    moving = True
    while moving:
        moving = False
        for rich in sorted(given, key=lambda member_id: -loads[member_id]):
            if loads[rich] <= min(loads.values()) + 1:
                break
            for slot in sorted(given[rich], reverse=True):
                poor = min(seekers[slot[0]], key=loads.__getitem__)
                if loads[poor] + 1 < loads[rich]:
                    given[rich].remove(slot)
                    loads[rich] -= 1
                    give(slot, poor)
                    moving = True
    return {member_id: frozenset(slots) for member_id, slots in given.items()}


def ranges(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign consecutive partitions of each topic to members in order. If uneven, the first ones get one more."""
    given: dict[str, set[Slot]] = {member.member_id: set() for member in members}
    topics = {topic: count for member in members for topic, count in member.wanted.items()}
    for topic, count in topics.items():
        seekers = [member.member_id for member in _in_order(members) if topic in member.wanted]
        share, extras = divmod(count, len(seekers))
        start = 0
        for place, member_id in enumerate(seekers):
            end = start + share + (place < extras)
            given[member_id].update((topic, index) for index in range(start, end))
            start = end
    return {member_id: frozenset(slots) for member_id, slots in given.items()}


SERVER_ASSIGNORS: Mapping[str, Callable[[Sequence[Candidate], Mapping[str, Set[Slot]]], Target]] = {
    DEFAULT_ASSIGNOR: uniform,
    "range": ranges,
}
