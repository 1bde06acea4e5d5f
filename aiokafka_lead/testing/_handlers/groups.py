"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup: the classic group protocol."""

from __future__ import annotations

from ..._wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ..._wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ..._wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ...errors import BrokerError, InconsistentGroupProtocolError
from .._server.context import Pending, RequestContext
from .._state.coordinators import GROUP
from .._state.members import JoinRequest, JoinResult, SyncResult
from .coordinators import check_coordinator

_REBALANCE_TIMEOUT_FROM = 1
_KNOWN_ID_FROM = 4
_NULL_PROTOCOL_FROM = 7
_SKIP_ASSIGNMENT_FROM = 9
_LEAVE_BATCH_FROM = 3
_PROTOCOL_FROM = 5


def join_group(context: RequestContext, request: JoinGroupRequest) -> JoinGroupResponse | Pending:
    version = context.api_version
    rebalance_ms = request.rebalance_timeout_ms if version >= _REBALANCE_TIMEOUT_FROM else request.session_timeout_ms
    wanted = JoinRequest(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=rebalance_ms,
        protocol_type=request.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in request.protocols),
        known_id_required=version >= _KNOWN_ID_FROM,
        may_skip=version >= _SKIP_ASSIGNMENT_FROM,
    )
    pending = Pending()
    try:
        check_coordinator(context, GROUP, request.group_id)
        group = context.engine.groups.to_join(request.group_id, wanted)
        group.join(wanted, lambda result: pending.complete(_joined(version, result)))
    except BrokerError as error:
        return _joined(version, JoinResult(request.member_id, error))
    return pending


def _joined(version: int, result: JoinResult) -> JoinGroupResponse:
    return JoinGroupResponse(
        error_code=0 if result.error is None else result.error.code,
        generation_id=result.generation,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol if version >= _NULL_PROTOCOL_FROM else result.protocol or "",
        leader=result.leader,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
            )
            for member in result.members
        ],
    )


def sync_group(context: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | Pending:
    pending = Pending()
    try:
        check_coordinator(context, GROUP, request.group_id)
        if context.api_version >= _PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
            raise InconsistentGroupProtocolError("SyncGroup names its protocol")
        context.engine.groups.of_member(request.group_id).sync(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {given.member_id: given.assignment for given in request.assignments},
            lambda result: pending.complete(_synced(result)),
        )
    except BrokerError as error:
        return _synced(SyncResult(error))
    return pending


def _synced(result: SyncResult) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=0 if result.error is None else result.error.code,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )


def heartbeat(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    try:
        check_coordinator(context, GROUP, request.group_id)
        group = context.engine.groups.of_member(request.group_id)
        group.heartbeat(request.member_id, request.group_instance_id, request.generation_id)
    except BrokerError as error:
        return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()


def leave_group(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    response = LeaveGroupResponse()
    groups = context.engine.groups
    try:
        check_coordinator(context, GROUP, request.group_id)
        if context.api_version < _LEAVE_BATCH_FROM:
            groups.of_member(request.group_id).leave(request.member_id, None)
    except BrokerError as error:
        return LeaveGroupResponse(error_code=error.code)
    for member in request.members:
        result = MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id)
        response.members.append(result)
        try:
            group = groups.of_member(request.group_id)
            result.member_id = group.leave(member.member_id, member.group_instance_id)
        except BrokerError as error:
            result.error_code = error.code
    return response


HANDLERS = {
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
}
