"""ShareGroupHeartbeat: membership of share groups (KIP-932)."""

from __future__ import annotations

from ..._wire.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from ...errors import BrokerError, InvalidRequestError, UnsupportedVersionError
from .._server.context import RequestContext
from .._state.consumer_members import LEAVES
from .._state.offsets import GROUP
from .._state.share_group import ShareBeat
from .consumer_group_heartbeat import by_topic
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


def share_group_heartbeat(context: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareGroupHeartbeatResponse:
    try:
        check_share_groups(context)
        _check_share(request)
        check_coordinator(context, GROUP, request.group_id)
        groups = context.engine.groups
        group = groups.share_group(request.group_id, create=request.member_epoch == 0)
        result = group.heartbeat(_share_beat(context, request))
    except BrokerError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=result.epoch)
    if result.epoch != LEAVES:
        response.heartbeat_interval_ms = groups.configs.share(request.group_id).heartbeat_interval_ms
    if result.assignment is not None:
        response.assignment = Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=partitions)
                for topic_id, partitions in by_topic(result.assignment)
            ]
        )
    return response


def _check_share(request: ShareGroupHeartbeatRequest) -> None:
    check_member_id(request.member_id)
    for name in ("group_id", "rack_id"):
        if getattr(request, name) == "":
            raise InvalidRequestError(f"{name} can't be empty.")
    if request.member_epoch == 0 and not request.subscribed_topic_names:
        raise InvalidRequestError("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVES:
        raise InvalidRequestError("MemberEpoch is invalid.")


def _share_beat(context: RequestContext, request: ShareGroupHeartbeatRequest) -> ShareBeat:
    topics = request.subscribed_topic_names
    return ShareBeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack=request.rack_id,
        topics=None if topics is None else frozenset(topics),
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
    )


HANDLERS = {ShareGroupHeartbeatRequest: share_group_heartbeat}
