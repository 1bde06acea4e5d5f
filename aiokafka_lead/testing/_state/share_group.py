"""A share group's members and their assignments (KIP-932; Java: ``ShareGroup``, ``GroupMetadataManager``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from ...errors import FencedMemberEpochError, GroupMaxSizeReachedError, UnknownMemberIdError
from .clock import Clock, TimerHandle
from .configs import GroupConfigs
from .consumer_members import LEAVES, Candidate, Slot, Target
from .share_deliveries import ShareStates

if TYPE_CHECKING:
    from .cluster import ClusterState


def simple(members: Sequence[Candidate], before: Mapping[str, Set[Slot]]) -> Target:
    """Assign partitions with few changes and evenly.

    The numbers of members of any two partitions differ by at most one. If all members want the same topics, all
    partitions are distributed together. Otherwise, each topic is distributed separately.
    """
    target: dict[str, set[Slot]] = {member.member_id: set() for member in members}
    slots = sorted(
        {(topic, index) for each in members for topic, count in each.wanted.items() for index in range(count)}
    )
    if all(member.wanted == members[0].wanted for member in members):
        _share(slots, [member.member_id for member in members], before, target)
    else:
        for topic in sorted({topic for topic, _ in slots}):
            seekers = [member.member_id for member in members if topic in member.wanted]
            _share([slot for slot in slots if slot[0] == topic], seekers, before, target)
    return {member_id: frozenset(given) for member_id, given in target.items()}


def _share(
    slots: Sequence[Slot], seekers: Sequence[str], before: Mapping[str, Set[Slot]], target: dict[str, set[Slot]]
) -> None:
    """Distribute partitions among the members that want them, and add each member's share to ``target``."""
    if not slots:
        return
    sharing = -(-len(seekers) // len(slots))
    places = sharing * len(slots)
    # The shares differ by at most one.
    wanted = {
        member_id: -(-places * (place + 1) // len(seekers)) + (-places * place // len(seekers))
        for place, member_id in enumerate(seekers)
    }
    holders: dict[Slot, set[str]] = {slot: set() for slot in slots}
    for member_id in seekers:
        kept = sorted(slot for slot in before.get(member_id, ()) if slot in holders)
        for slot in kept:
            if wanted[member_id] > 0 and len(holders[slot]) < sharing:
                holders[slot].add(member_id)
                wanted[member_id] -= 1
    hungry = [member_id for member_id in seekers if wanted[member_id] > 0]
    turn = 0
    for slot in slots:
        passed = 0
        while hungry and len(holders[slot]) < sharing and passed < len(hungry):
            turn %= len(hungry)
            member_id = hungry[turn]
            if member_id in holders[slot]:
                turn += 1
                passed += 1
                continue
            holders[slot].add(member_id)
            wanted[member_id] -= 1
            passed = 0
            if wanted[member_id]:
                turn += 1
            else:
                hungry.remove(member_id)
    for slot, given in holders.items():
        for member_id in given:
            target[member_id].add(slot)


PROTOCOL_TYPE = "share"


class ShareBeat(NamedTuple):
    """A heartbeat. Absent fields are None."""

    member_id: str
    epoch: int
    rack: str | None
    topics: frozenset[str] | None
    client_id: str
    client_host: str


class ShareBeatResult(NamedTuple):
    """The response to a heartbeat. ``assignment`` is None if it is unchanged."""

    epoch: int
    assignment: frozenset[Slot] | None


class ShareMember:
    """A member. It reaches its target immediately, because it never has to wait for partitions."""

    __slots__ = (
        "assigned",
        "client_host",
        "client_id",
        "deadline",
        "epoch",
        "member_id",
        "previous_epoch",
        "rack",
        "session_timer",
        "topics",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.rack: str | None = None
        self.client_id = ""
        self.client_host = ""
        self.topics: frozenset[str] = frozenset()
        self.epoch = 0
        self.previous_epoch = 0
        self.assigned: frozenset[Slot] = frozenset()
        # End of its session without a further request, and the timer that checks it.
        self.deadline = float("inf")
        self.session_timer: TimerHandle | None = None

    def cancel_timers(self) -> None:
        if self.session_timer is not None:
            self.session_timer.cancel()
            self.session_timer = None


class ShareGroup:
    """The members and the target assignment of a share group.

    The state of a partition is kept from its first assignment on.

    The first heartbeat of a member already gets partitions. A real coordinator responds to it without partitions,
    because the share coordinator must initialize their state first. Here, this takes no time.
    """

    def __init__(
        self,
        group_id: str,
        clock: Clock,
        configs: GroupConfigs,
        cluster: ClusterState,
        states: ShareStates,
        max_size: int | None,
    ) -> None:
        self.group_id = group_id
        self._clock = clock
        self._configs = configs
        self._cluster = cluster
        self._states = states
        self._max_size = max_size
        self.epoch = 0
        # The epoch of the target assignment.
        self.target_epoch = 0
        self.members: dict[str, ShareMember] = {}
        self._target: Mapping[str, frozenset[Slot]] = {}
        # The topics of the members' subscriptions at the last check.
        self._subscribed: dict[UUID, int] = {}

    @property
    def state_name(self) -> str:
        """Name of the state in ShareGroupDescribe."""
        return "Stable" if self.members else "Empty"

    def heartbeat(self, beat: ShareBeat) -> ShareBeatResult:
        """Process a heartbeat, by which a member joins, stays, changes its subscription or leaves.

        Raises the errors of the response.
        """
        if beat.epoch == LEAVES:
            self.remove(self._known(beat.member_id))
            return ShareBeatResult(LEAVES, None)
        member = self._joining(beat.member_id) if beat.epoch == 0 else self._checked(beat)
        had = member.assigned
        changed = self._update(member, beat)
        self._advance(member, changed=changed)
        self._heard_of(member)
        tell = beat.epoch == 0 or beat.topics is not None or member.assigned != had
        return ShareBeatResult(member.epoch, member.assigned if tell else None)

    def _joining(self, member_id: str) -> ShareMember:
        known = self.members.get(member_id)
        if known is not None:
            return known
        if self._max_size is not None and len(self.members) >= self._max_size:
            raise GroupMaxSizeReachedError(
                f"The share group has reached its maximum capacity of {self._max_size} members."
            )
        member = self.members[member_id] = ShareMember(member_id)
        return member

    def _known(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise UnknownMemberIdError(f"Member {member_id} is not a member of group {self.group_id}.")
        return member

    def _checked(self, beat: ShareBeat) -> ShareMember:
        member = self._known(beat.member_id)
        if beat.epoch > member.epoch or (beat.epoch < member.epoch and beat.epoch != member.previous_epoch):
            raise FencedMemberEpochError(f"member {beat.member_id} is at epoch {member.epoch}, not {beat.epoch}")
        return member

    def _update(self, member: ShareMember, beat: ShareBeat) -> bool:
        """Store the data of a heartbeat. Return True if the subscription has changed."""
        before = member.topics
        member.client_id, member.client_host = beat.client_id, beat.client_host
        if beat.rack is not None:
            member.rack = beat.rack
        if beat.topics is not None:
            member.topics = beat.topics
        return before != member.topics

    # --- epochs and the target ---------------------------------------------------------------------------------------

    def _advance(self, member: ShareMember, *, changed: bool) -> None:
        """Advance the epoch after a change, compute its target, and assign that to the member."""
        subscribed = self._topics_wanted()
        if changed or subscribed != self._subscribed:
            self.epoch += 1
            self._subscribed = subscribed
        if self.epoch > self.target_epoch:
            self._states.add(
                self.group_id, ((topic, index) for topic, count in subscribed.items() for index in range(count))
            )
            candidates = [Candidate(each.member_id, None, self._wanted(each)) for each in self.members.values()]
            self._target = simple(candidates, self._target)
            self.target_epoch = self.epoch
        if member.epoch != self.target_epoch:
            member.previous_epoch, member.epoch = member.epoch, self.target_epoch
        member.assigned = self._target.get(member.member_id, frozenset())

    def _wanted(self, member: ShareMember) -> dict[UUID, int]:
        found = (self._cluster.topics.get(name) for name in member.topics)
        return {topic.topic_id: len(topic.partitions) for topic in found if topic is not None}

    def _topics_wanted(self) -> dict[UUID, int]:
        return {topic: count for each in self.members.values() for topic, count in self._wanted(each).items()}

    # --- sessions and the end of membership --------------------------------------------------------------------------

    def _heard_of(self, member: ShareMember) -> None:
        """Restart the session timeout of a member that has sent a request.

        The timer is not moved, because it checks the deadline when it fires.
        """
        timeout_ms = self._configs.share(self.group_id).session_timeout_ms
        member.deadline = self._clock.now() + timeout_ms / 1000
        if member.session_timer is None:
            member.session_timer = self._clock.call_at(member.deadline, lambda: self._look_at_session(member))

    def _look_at_session(self, member: ShareMember) -> None:
        member.session_timer = None
        if self.members.get(member.member_id) is not member:
            return
        if self._clock.now() < member.deadline:
            member.session_timer = self._clock.call_at(member.deadline, lambda: self._look_at_session(member))
        else:
            self.remove(member)

    def remove(self, member: ShareMember) -> None:
        """Remove a member that has left or timed out. The group gets a new epoch."""
        if self.members.pop(member.member_id, None) is None:
            return
        member.cancel_timers()
        self._target = {known: slots for known, slots in self._target.items() if known != member.member_id}
        self.epoch += 1
        self._subscribed = self._topics_wanted()

    def coordinator_moved(self) -> None:
        """Restart all sessions, because another coordinator has taken over."""
        for member in self.members.values():
            self._heard_of(member)

    def close(self) -> None:
        """Cancel every timer, because the group is being deleted."""
        for member in self.members.values():
            member.cancel_timers()
