"""Conversions of groups between the classic and the new protocol, with their members (KIP-848)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...errors import GroupIdNotFoundError, MalformedMessageError, RebalanceInProgressError
from .classic_members import PROTOCOL_TYPE, read_assignment, read_subscription, write_assignment
from .consumer_group import ConsumerGroup
from .consumer_members import ConsumerMember
from .group import Group

if TYPE_CHECKING:
    from .cluster import ClusterState


def move_to_consumer(old: Group, new: ConsumerGroup, cluster: ClusterState) -> None:
    """Convert a classic group's members with their partitions to settled members of the new group.

    Raises GroupIdNotFoundError, without changes, if the members are not readable as consumers.
    """
    try:
        if old.protocol_type != PROTOCOL_TYPE:
            raise GroupIdNotFoundError(f"group {old.group_id} is not one of consumers")
        moved = [(member, _as_consumer(old, member.member_id, cluster)) for member in old.members.values()]
    except MalformedMessageError as error:
        raise GroupIdNotFoundError(f"group {old.group_id} cannot be read: {error}") from None
    old.answer_all(RebalanceInProgressError())
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
    """Convert the group's members, all of the classic protocol, with their partitions, and start a rebalance."""
    old.close()
    members = [
        (member.member_id, member.classic, write_assignment(member.assigned, cluster, 0))
        for member in old.members.values()
        if member.classic is not None
    ]
    new.take_over(old.epoch, PROTOCOL_TYPE, members)
