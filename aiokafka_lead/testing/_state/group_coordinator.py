"""All groups of the cluster: consumer groups of either protocol (KIP-848), and share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

from ... import errors
from .classic_members import PROTOCOL_TYPE, ClassicMembers, read_assignment, read_subscription, write_assignment
from .clock import Clock
from .configs import GroupConfigs
from .consumer_group import ConsumerGroup
from .consumer_members import ConsumerMember, Slot
from .group import Group
from .members import GroupOptions, JoinRequest, JoinResult, SyncResult
from .offsets import Key, Offsets, slot_of
from .share_deliveries import ShareStates
from .share_group import ShareGroup
from .topics import Topic

if TYPE_CHECKING:
    from .cluster import ClusterState


def move_to_consumer(old: Group, new: ConsumerGroup, cluster: ClusterState) -> None:
    """Convert the members of a classic group, with their partitions, to settled members of the new group.

    Raises GroupIdNotFoundError, and changes no group, if the members cannot be read as consumers.
    """
    try:
        if old.protocol_type != PROTOCOL_TYPE:
            raise errors.GroupIdNotFoundError(f"group {old.group_id} is not a group of consumers")
        moved = [(member, _as_consumer(old, member.member_id, cluster)) for member in old.members.values()]
    except errors.MalformedMessageError as error:
        raise errors.GroupIdNotFoundError(f"group {old.group_id} cannot be read: {error}") from None
    old.answer_all(errors.RebalanceInProgressError())
    old.close()
    new.epoch = new.target_epoch = old.generation
    new.static.update(old.static)
    for before, member in moved:
        new.members[member.member_id] = member
        new.target[member.member_id] = frozenset(member.assigned)
        new.heard_of(member, before.request.session_timeout_ms)


def _as_consumer(group: Group, member_id: str, cluster: ClusterState) -> ConsumerMember:
    before = group.members[member_id]
    subscription = read_subscription(before.metadata_for(group.protocol))
    member = ConsumerMember(member_id)
    member.instance_id, member.rack = before.request.instance_id, subscription.rack_id
    member.client_id, member.client_host = before.request.client_id, before.request.client_host
    member.rebalance_timeout_ms = before.request.rebalance_timeout_ms
    member.topics = frozenset(subscription.topics)
    member.classic = before.request
    member.epoch = member.previous_epoch = group.generation
    member.assigned = dict.fromkeys(read_assignment(before.assignment, cluster), group.generation)
    return member


def move_to_classic(old: ConsumerGroup, new: Group, cluster: ClusterState) -> None:
    """Convert the members of the group, with their partitions, to a classic group, and start a rebalance.

    All of them must use the classic protocol.
    """
    old.close()
    members = [
        (member.member_id, member.classic, write_assignment(member.assigned, cluster, 0))
        for member in old.members.values()
        if member.classic is not None
    ]
    new.take_over(old.epoch, PROTOCOL_TYPE, members)


class ClassicApi(Protocol):
    """The operations of members that use the classic protocol, in a group of either kind."""

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None: ...
    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        protocol_type: str | None,
        protocol: str | None,
        assignments: dict[str, bytes],
        reply: Callable[[SyncResult], None],
    ) -> None: ...
    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> None: ...
    def leave(self, member_id: str, instance_id: str | None) -> str: ...


class GroupCoordinator:
    """Holds the groups of a cluster by id.

    A group is created with its first member or offset, and exists while it has members or offsets. Invariant: no id is
    in two of ``groups``, ``consumers`` and ``shares``.
    """

    def __init__(self, clock: Clock, options: GroupOptions, cluster: ClusterState) -> None:
        self._clock = clock
        self.options = options
        self._cluster = cluster
        # Groups of the classic protocol.
        self.groups: dict[str, Group] = {}
        # Groups of the new protocol, possibly with members of the classic protocol.
        self.consumers: dict[str, ConsumerGroup] = {}
        self.shares: dict[str, ShareGroup] = {}
        self.share_states = ShareStates()
        self.configs = GroupConfigs(options)
        self.offsets = Offsets()

    def to_join(self, group_id: str, request: JoinRequest) -> ClassicApi:
        """Return the group to join. If a new member names a group that does not exist, create it."""
        limits = self.options
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            raise errors.InvalidSessionTimeoutError(
                f"the session timeout {request.session_timeout_ms} ms is outside "
                f"{limits.min_session_timeout_ms}..{limits.max_session_timeout_ms}"
            )
        if group_id in self.shares:
            raise errors.InconsistentGroupProtocolError(f"group {group_id} is a share group")
        consumers = self.consumers.get(group_id)
        if consumers is not None:
            if consumers.members:
                return ClassicMembers(consumers, self._cluster)
            del self.consumers[group_id]
        group = self.groups.get(group_id)
        if group is None:
            if request.member_id:
                raise errors.UnknownMemberIdError(f"there is no group {group_id}")
            group = self.groups[group_id] = Group(group_id, self._clock, self.options)
        return group

    def of_member(self, group_id: str) -> ClassicApi:
        """Return the group of a member of the classic protocol. Raises UnknownMemberIdError if it does not exist."""
        consumers = self.consumers.get(group_id)
        if consumers is not None:
            return ClassicMembers(consumers, self._cluster)
        group = self.groups.get(group_id)
        if group is None:
            raise errors.UnknownMemberIdError(f"there is no group {group_id}")
        return group

    def of_consumer(self, group_id: str, *, joining: bool) -> ConsumerGroup:
        """Return the group of a member of the new protocol. Joining converts a classic group."""
        found = self.consumers.get(group_id)
        if found is not None:
            return found
        classic = self.groups.get(group_id)
        if not joining or group_id in self.shares:
            raise errors.GroupIdNotFoundError(f"there is no consumer group {group_id}")
        created = ConsumerGroup(
            group_id, self._clock, self.options, self.configs, self._cluster, self._only_classic_left
        )
        if classic is not None:
            if classic.members:
                move_to_consumer(classic, created, self._cluster)
            else:
                classic.close()
            del self.groups[group_id]
        self.consumers[group_id] = created
        return created

    def _only_classic_left(self, group: ConsumerGroup) -> None:
        classic = self.groups[group.group_id] = Group(group.group_id, self._clock, self.options)
        del self.consumers[group.group_id]
        move_to_classic(group, classic, self._cluster)

    def share_group(self, group_id: str, *, create: bool = False) -> ShareGroup:
        """Return a share group. With ``create``, a missing group is created. Raises GroupIdNotFoundError."""
        found = self.shares.get(group_id)
        if found is not None:
            return found
        if self.known(group_id):
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a share group.")
        if not create:
            raise errors.GroupIdNotFoundError(f"Share group {group_id} not found.")
        found = self.shares[group_id] = ShareGroup(
            group_id, self._clock, self.configs, self._cluster, self.share_states, self.options.share_max_size
        )
        return found

    def alter_share_offsets(self, group_id: str, offsets: Mapping[Slot, int]) -> None:
        """Set the start offsets of a share group without members. Create the group if it is missing."""
        if self.share_group(group_id, create=True).members:
            raise errors.NonEmptyGroupError("The group is not empty.")
        for slot, offset in offsets.items():
            self.share_states.reset(group_id, slot, offset)

    def empty_share_group(self, group_id: str) -> ShareGroup:
        """Return a share group whose offsets may be deleted. Raises GroupIdNotFoundError and NonEmptyGroupError."""
        group = self.share_group(group_id)
        if group.members:
            raise errors.NonEmptyGroupError("The group is not empty.")
        return group

    def check_commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        *,
        version: int = 0,
        transactional: bool = False,
    ) -> Callable[[Key], None] | None:
        """Raise an error if the member may not commit offsets of the group.

        If the decision depends on the partition, returns a function that checks a partition.
        """
        if group_id in self.shares:
            raise errors.GroupIdNotFoundError(f"Group {group_id} is not a consumer group.")
        consumers = self.consumers.get(group_id)
        if consumers is not None:
            return consumers.check_commit(member_id, generation, version, transactional=transactional)
        group = self.groups.get(group_id)
        if group is not None:
            group.check_commit(member_id, instance_id, generation, transactional=transactional)
        elif generation >= 0 and self.known(group_id):
            raise errors.UnknownMemberIdError(f"group {group_id} has no members")
        elif generation >= 0:
            raise errors.GroupIdNotFoundError(f"there is no group {group_id}")
        return None

    def check_fetch(self, group_id: str, member_id: str | None, epoch: int) -> None:
        """Raise an error if a member of the new protocol may not fetch the committed offsets of its group."""
        consumers = self.consumers.get(group_id)
        if consumers is not None:
            consumers.check_fetch(member_id, epoch)

    def known(self, group_id: str) -> bool:
        kinds = (self.groups, self.consumers, self.shares)
        return any(group_id in kind for kind in kinds) or bool(self.offsets.of(group_id))

    def all_ids(self) -> list[str]:
        return sorted({*self.groups, *self.consumers, *self.shares, *self.offsets.groups()})

    def delete(self, group_id: str) -> None:
        """Delete a group without members, with its offsets."""
        if not self.known(group_id):
            raise errors.GroupIdNotFoundError(f"there is no group {group_id}")
        group = self.groups.get(group_id) or self.consumers.get(group_id) or self.shares.get(group_id)
        if group is not None:
            if group.members:
                raise errors.NonEmptyGroupError(f"group {group_id} has members")
            group.close()
        self.groups.pop(group_id, None)
        self.consumers.pop(group_id, None)
        self.shares.pop(group_id, None)
        self.share_states.delete_group(group_id)
        self.offsets.delete_group(group_id)

    def topic_deleted(self, topic: Topic) -> None:
        """Delete the committed offsets of a deleted topic."""
        self.offsets.delete_topic(topic.name)
        self.share_states.delete_topic(topic.topic_id)

    def slot_moved(self, slot: int) -> None:
        """Move the groups of this slot to another coordinator. Their waiting requests get an error."""
        for group in self.groups.values():
            if slot_of(group.group_id) == slot:
                group.coordinator_moved(errors.NotCoordinatorError())
        for consumers in self.consumers.values():
            if slot_of(consumers.group_id) == slot:
                consumers.coordinator_moved()
        for shares in self.shares.values():
            if slot_of(shares.group_id) == slot:
                shares.coordinator_moved()
