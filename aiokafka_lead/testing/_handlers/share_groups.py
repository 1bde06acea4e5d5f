"""ShareGroupHeartbeat and ShareGroupDescribe: membership of share groups (KIP-932)."""

from __future__ import annotations

from ..._wire.messages import share_group_describe as describe
from ..._wire.messages import share_group_heartbeat as heartbeat
from ...errors import BrokerError, GroupIdNotFoundError, InvalidRequestError, UnsupportedVersionError
from .._server.context import RequestContext
from .._state.consumer_members import LEAVES
from .._state.offsets import GROUP
from .._state.share_group import ShareBeat, ShareMember
from .consumer_groups import by_topic, tell_operations
from .coordinators import check_coordinator

_MEMBER_ID_MAX = 36


def check_share_groups(context: RequestContext) -> None:
    """Raise UnsupportedVersionError in a cluster without share groups (share.version 0)."""
    if context.engine.apis.features.level("share.version") < 1:
        raise UnsupportedVersionError("The version of API is not supported.")


def check_member_id(member_id: str | None) -> None:
    """Raise InvalidRequestError for an invalid member id."""
    if not member_id or len(member_id) > _MEMBER_ID_MAX:
        raise InvalidRequestError("Invalid member id in the request.")


def share_group_heartbeat(
    context: RequestContext, request: heartbeat.ShareGroupHeartbeatRequest
) -> heartbeat.ShareGroupHeartbeatResponse:
    try:
        check_share_groups(context)
        _check_share(request)
        check_coordinator(context, GROUP, request.group_id)
        groups = context.engine.groups
        group = groups.share_group(request.group_id, create=request.member_epoch == 0)
        result = group.heartbeat(_share_beat(context, request))
    except BrokerError as error:
        return heartbeat.ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    response = heartbeat.ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=result.epoch)
    if result.epoch != LEAVES:
        response.heartbeat_interval_ms = groups.configs.share(request.group_id).heartbeat_interval_ms
    if result.assignment is not None:
        response.assignment = heartbeat.Assignment(
            topic_partitions=[
                heartbeat.TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(result.assignment)
            ]
        )
    return response


def _check_share(request: heartbeat.ShareGroupHeartbeatRequest) -> None:
    check_member_id(request.member_id)
    for name in ("group_id", "rack_id"):
        if getattr(request, name) == "":
            raise InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVES:
        raise InvalidRequestError("MemberEpoch is invalid.")


def _share_beat(context: RequestContext, request: heartbeat.ShareGroupHeartbeatRequest) -> ShareBeat:
    topics = request.subscribed_topic_names
    return ShareBeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack=request.rack_id,
        topics=None if topics is None else frozenset(topics),
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
    )


_ASSIGNOR = "simple"


def share_group_describe(
    context: RequestContext, request: describe.ShareGroupDescribeRequest
) -> describe.ShareGroupDescribeResponse:
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    tell_operations(groups, asked=request.include_authorized_operations)
    return describe.ShareGroupDescribeResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> describe.DescribedGroup:
    try:
        check_share_groups(context)
        check_coordinator(context, GROUP, group_id)
        groups = context.engine.groups
        if not groups.known(group_id):
            raise GroupIdNotFoundError(f"Group {group_id} not found.")
        group = groups.share_group(group_id)
    except BrokerError as error:
        return describe.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    return describe.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=_ASSIGNOR,
        members=[_member(context, member) for member in group.members.values()],
    )


def _member(context: RequestContext, member: ShareMember) -> describe.Member:
    names = context.engine.state.topics_by_id
    return describe.Member(
        member_id=member.member_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        assignment=describe.Assignment(
            topic_partitions=[
                describe.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id].name, partitions=partitions)
                for topic_id, partitions in by_topic(member.assigned)
                if topic_id in names
            ]
        ),
    )


HANDLERS = {
    heartbeat.ShareGroupHeartbeatRequest: share_group_heartbeat,
    describe.ShareGroupDescribeRequest: share_group_describe,
}
