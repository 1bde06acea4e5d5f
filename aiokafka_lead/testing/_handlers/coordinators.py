"""FindCoordinator (KIP-699), classic groups, ApiVersions, and features (KIP-584)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ... import errors
from ..._wire.messages import update_features as updating
from ..._wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ..._wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from ..._wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ..._wire.messages.join_group import JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember
from ..._wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from ..._wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from .._server.context import Pending, RequestContext
from .._state.cluster import BrokerNode
from .._state.configs import Features
from .._state.members import JoinRequest, JoinResult, SyncResult
from .._state.offsets import GROUP, TRANSACTION
from .._state.topics import NO_LEADER

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
    except errors.BrokerError as error:
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
            raise errors.InconsistentGroupProtocolError("SyncGroup must have the type and the name of the protocol")
        context.engine.groups.of_member(request.group_id).sync(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            request.protocol_type,
            request.protocol_name,
            {given.member_id: given.assignment for given in request.assignments},
            lambda result: pending.complete(_synced(result)),
        )
    except errors.BrokerError as error:
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
    except errors.BrokerError as error:
        return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse()


def leave_group(context: RequestContext, request: LeaveGroupRequest) -> LeaveGroupResponse:
    response = LeaveGroupResponse()
    groups = context.engine.groups
    try:
        check_coordinator(context, GROUP, request.group_id)
        if context.api_version < _LEAVE_BATCH_FROM:
            groups.of_member(request.group_id).leave(request.member_id, None)
    except errors.BrokerError as error:
        return LeaveGroupResponse(error_code=error.code)
    for member in request.members:
        result = MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id)
        response.members.append(result)
        try:
            group = groups.of_member(request.group_id)
            result.member_id = group.leave(member.member_id, member.group_instance_id)
        except errors.BrokerError as error:
            result.error_code = error.code
    return response


_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    # From version 5 on, a client names the broker that it intends to reach (KIP-1242).
    means_cluster = request.cluster_id in (None, context.engine.state.cluster_id)
    if not means_cluster or request.node_id not in (-1, context.node.node_id):
        return ApiVersionsResponse(error_code=errors.RebootstrapRequiredError.code)
    if context.api_version >= 3:
        software = (request.client_software_name, request.client_software_version)
        if not all(_SOFTWARE.fullmatch(text) for text in software):
            return ApiVersionsResponse(error_code=errors.InvalidRequestError.code)
        context.connection.software = software
    return context.engine.apis.answer(context.api_version)


_UPGRADE = 1
_TYPES_FROM = 1
"""Version 0 has a flag for downgrades instead of types."""
_RESULTS_UP_TO = 1


def update_features(
    context: RequestContext, request: updating.UpdateFeaturesRequest
) -> updating.UpdateFeaturesResponse:
    features = context.engine.apis.features
    for wrong in _mistakes(features, request, typed=context.api_version >= _TYPES_FROM):
        message = f"The update failed for all features since the following feature had an error: {wrong}"
        return updating.UpdateFeaturesResponse(error_code=errors.InvalidUpdateVersionError.code, error_message=message)
    if not request.validate_only:
        for update in request.feature_updates:
            features.set_level(update.feature, update.max_version_level)
    response = updating.UpdateFeaturesResponse(error_message=None)
    if context.api_version <= _RESULTS_UP_TO:
        response.results = [
            updating.UpdatableFeatureResult(feature=update.feature, error_message="NONE")
            for update in request.feature_updates
        ]
    return response


def _mistakes(features: Features, request: updating.UpdateFeaturesRequest, *, typed: bool) -> Iterator[str]:
    for update in request.feature_updates:
        name, level = update.feature, update.max_version_level
        wrong = f"Invalid update version {level} for feature {name}."
        if name not in features.supported:
            yield f"{wrong} This cluster does not support this feature."
            continue
        low, high = features.supported[name]
        if not low <= level <= high:
            yield f"{wrong} This cluster only supports versions {low}-{high}"
        if level < features.level(name) and not _may_lower(update, typed=typed):
            yield (
                f"{wrong} Can't downgrade the version of this feature without setting the upgrade type to either safe "
                "or unsafe downgrade."
            )


def _may_lower(update: updating.FeatureUpdateKey, *, typed: bool) -> bool:
    return update.upgrade_type != _UPGRADE if typed else update.allow_downgrade


_BATCHED_FROM = 4


def find_coordinator(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    response = FindCoordinatorResponse()
    if context.api_version < _BATCHED_FROM:
        try:
            node = _find(context, request.key_type, request.key)
        except errors.BrokerError as error:
            response.error_code, response.error_message = error.code, error.message
            response.node_id, response.host, response.port = NO_LEADER, "", -1
        else:
            response.node_id, response.host, response.port = node.node_id, node.host, node.port
        return response
    for key in request.coordinator_keys:
        found = Coordinator(key=key)
        response.coordinators.append(found)
        try:
            node = _find(context, request.key_type, key)
        except errors.BrokerError as error:
            found.error_code, found.error_message = error.code, error.message
            found.node_id, found.port = NO_LEADER, -1
        else:
            found.node_id, found.host, found.port = node.node_id, node.host, node.port
    return response


def _find(context: RequestContext, kind: int, key: str) -> BrokerNode:
    errors.raise_for_code(context.fault_code(key))
    if kind not in (GROUP, TRANSACTION):
        raise errors.InvalidRequestError(f"the coordinator type {kind} is unknown")
    state = context.engine.state
    node_id = state.coordinators.of(kind, key)
    if not state.is_registered(node_id):
        raise errors.CoordinatorNotAvailableError("The coordinator is not available.")
    return state.nodes[node_id]


def check_coordinator(context: RequestContext, kind: int, key: str) -> None:
    """Raise NotCoordinatorError unless this broker is the key's coordinator."""
    if kind == GROUP and not key:
        raise errors.InvalidGroupIdError("the group id must not be empty")
    if kind == TRANSACTION and not key:
        raise errors.InvalidRequestError("a transactional id must not be empty")
    if context.engine.state.coordinators.of(kind, key) != context.node.node_id:
        raise errors.NotCoordinatorError(f"broker {context.node.node_id} is not the coordinator of {key}")


HANDLERS = {
    FindCoordinatorRequest: find_coordinator,
    ApiVersionsRequest: api_versions,
    updating.UpdateFeaturesRequest: update_features,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
}
