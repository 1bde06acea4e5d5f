"""ConsumerGroupDescribe: groups of the new protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Iterable

from ..._wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)
from ...errors import BrokerError, GroupIdNotFoundError
from .._server.context import RequestContext
from .._state.consumer_group import ConsumerGroup
from .._state.consumer_members import ConsumerMember, Slot
from .._state.offsets import GROUP
from .consumer_group_heartbeat import by_topic, check_consumer_groups
from .coordinators import check_coordinator
from .group_admin import tell_operations

_CLASSIC, _CONSUMER = 0, 1
"""Types of members."""


def consumer_group_describe(
    context: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    tell_operations(groups, asked=request.include_authorized_operations)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        check_consumer_groups(context)
        check_coordinator(context, GROUP, group_id)
        group = context.engine.groups.consumers.get(group_id)
        if group is None:
            kind = "not a consumer group" if context.engine.groups.known(group_id) else "not found"
            raise GroupIdNotFoundError(f"Group {group_id} is {kind}.")
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(context, group, member) for member in group.members.values()],
    )


def _member(context: RequestContext, group: ConsumerGroup, member: ConsumerMember) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern or None,
        # A partition that the member has to give up still belongs to it.
        assignment=_assignment(context, (*member.assigned, *member.revoking)),
        target_assignment=_assignment(context, group.target.get(member.member_id, ())),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(context: RequestContext, slots: Iterable[Slot]) -> Assignment:
    names = context.engine.state.topics_by_id
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=names[topic_id].name, partitions=partitions)
            for topic_id, partitions in by_topic(slots)
            if topic_id in names
        ]
    )


HANDLERS = {ConsumerGroupDescribeRequest: consumer_group_describe}
