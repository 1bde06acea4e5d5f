"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the requests of a classic group's member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._wire import Request
from ..._wire.messages.describe_groups import DescribeGroupsResponse
from ..._wire.messages.heartbeat import HeartbeatRequest
from ..._wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ..._wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ..._wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ...config import ConsumerConfig
from ...errors import KafkaError, error_for_code
from ...types import TopicPartition
from .assignors import PROTOCOL_TYPE, GroupAssignor, MemberSubscription, encode_assignment, encode_subscription
from .offsets import GroupIdentity

__all__ = [
    "error_code",
    "fitted",
    "heartbeat_request",
    "join_request",
    "leave_request",
    "rebalance_timeout_ms",
    "refusal",
    "revoke_timeout_s",
    "sync_request",
]

FIRST_LEAVE_WITH_MEMBERS = 3

REVOKE_WITHIN = 0.8
"""The part of the rebalance timeout that the work in hand may take: the commit and what comes then need the rest."""


def rebalance_timeout_ms(config: ConsumerConfig) -> float:
    """How long a rebalance waits for this member."""
    return config.max_poll_interval_ms if config.rebalance_timeout_ms is None else config.rebalance_timeout_ms


def revoke_timeout_s(config: ConsumerConfig) -> float:
    """How long the work in hand may take when partitions are given up."""
    return REVOKE_WITHIN * rebalance_timeout_ms(config) / 1000


def join_request(
    config: ConsumerConfig,
    member: MemberSubscription,
    assignors: Sequence[GroupAssignor],
    assigned: tuple[Sequence[TopicPartition], int],
    reason: str,
) -> JoinGroupRequest:
    """``assigned`` is what the member was assigned last, given up or not, and in which generation."""
    return JoinGroupRequest(
        group_id=config.group_id or "",
        session_timeout_ms=int(config.session_timeout_ms),
        rebalance_timeout_ms=int(rebalance_timeout_ms(config)),
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[
            JoinGroupRequestProtocol(name=assignor.name, metadata=_metadata(member, assignor, assigned))
            for assignor in assignors
        ],
        reason=reason,
    )


def _metadata(
    member: MemberSubscription, assignor: GroupAssignor, assigned: tuple[Sequence[TopicPartition], int]
) -> bytes:
    return encode_subscription(
        MemberSubscription(
            member.member_id,
            member.topics,
            member.owned,
            member.generation,
            member.group_instance_id,
            assignor.user_data(member.topics, *assigned),
            member.rack,
        )
    )


def sync_request(
    group_id: str, identity: GroupIdentity, protocol: str, assignments: Mapping[str, Sequence[TopicPartition]]
) -> SyncGroupRequest:
    """``assignments`` is every member's, from the leader, and empty from the others."""
    return SyncGroupRequest(
        group_id=group_id,
        generation_id=identity.generation_or_epoch,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=protocol,
        assignments=[
            SyncGroupRequestAssignment(member_id=member_id, assignment=encode_assignment(partitions))
            for member_id, partitions in assignments.items()
        ],
    )


def heartbeat_request(group_id: str, identity: GroupIdentity) -> HeartbeatRequest:
    """The member is alive."""
    return HeartbeatRequest(
        group_id=group_id,
        generation_id=identity.generation_or_epoch,
        member_id=identity.member_id,
        group_instance_id=identity.group_instance_id,
    )


def leave_request(group_id: str, member_id: str, reason: str) -> LeaveGroupRequest:
    """The member goes, and tells why (KIP-800)."""
    return LeaveGroupRequest(group_id=group_id, members=[MemberIdentity(member_id=member_id, reason=reason)])


def refusal(response: Any, what: str) -> KafkaError | None:
    """The error in an answer to a request that was ``what`` to do with the group, if there is one."""
    if not response.error_code:
        return None
    kind = error_for_code(response.error_code)
    return kind(f"could not {what} the group: {kind.__doc__}")


def error_code(response: Any) -> int:
    """That of an answer about one group; 0 of one that leaves the group out."""
    if isinstance(response, DescribeGroupsResponse):
        return response.groups[0].error_code if response.groups else 0
    found: int = response.error_code
    return found


def fitted(request: Request[Any], version: int) -> Request[Any]:
    """The request in the shape that this version has."""
    if isinstance(request, LeaveGroupRequest) and version < FIRST_LEAVE_WITH_MEMBERS:
        return LeaveGroupRequest(group_id=request.group_id, member_id=request.members[0].member_id)
    return request
