"""ShareGroupDescribe (KIP-932)."""

from __future__ import annotations

from ..._wire.messages.share_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
    TopicPartitions,
)
from ...errors import BrokerError, GroupIdNotFoundError
from .._server.context import RequestContext
from .._state.offsets import GROUP
from .._state.share_group import ShareMember
from .consumer_group_heartbeat import by_topic
from .coordinators import check_coordinator
from .group_admin import tell_operations
from .share_group_heartbeat import check_share_groups

_ASSIGNOR = "simple"


def share_group_describe(context: RequestContext, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    tell_operations(groups, asked=request.include_authorized_operations)
    return ShareGroupDescribeResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        check_share_groups(context)
        check_coordinator(context, GROUP, group_id)
        groups = context.engine.groups
        if not groups.known(group_id):
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        group = groups.share_group(group_id)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=_ASSIGNOR,
        members=[_member(context, member) for member in group.members.values()],
    )


def _member(context: RequestContext, member: ShareMember) -> Member:
    names = context.engine.state.topics_by_id
    return Member(
        member_id=member.member_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=names[topic_id].name, partitions=partitions)
                for topic_id, partitions in by_topic(member.assigned)
                if topic_id in names
            ]
        ),
    )


HANDLERS = {ShareGroupDescribeRequest: share_group_describe}
