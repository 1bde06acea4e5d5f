"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..._wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..._wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ..._wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ...errors import BrokerError, GroupIdNotFoundError
from .._server.context import RequestContext
from .._state.acls import GROUP_OPERATIONS
from .._state.classic_members import PROTOCOL_TYPE
from .._state.coordinators import GROUP
from .._state.group_coordinator import GroupCoordinator
from .._state.members import GroupState
from .._state.share_group import PROTOCOL_TYPE as SHARE_PROTOCOL_TYPE
from .coordinators import check_coordinator

_NOT_FOUND_FROM = 6
_DEAD = "Dead"
_CLASSIC = "classic"
_CONSUMER = "consumer"
_SHARE = "share"


def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    groups = [_describe(context, group_id) for group_id in request.groups]
    tell_operations(groups, asked=request.include_authorized_operations)
    return DescribeGroupsResponse(groups=groups)


class _Described(Protocol):
    error_code: int
    authorized_operations: int


def tell_operations(groups: Iterable[_Described], *, asked: bool) -> None:
    """Add what the client may do with each group, if it asked for that (KIP-430)."""
    for group in groups:
        if asked and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        check_coordinator(context, GROUP, group_id)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    groups = context.engine.groups
    group = groups.groups.get(group_id)
    if group is None:
        is_classic = group_id not in groups.consumers and group_id not in groups.shares
        if is_classic and groups.known(group_id):
            return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value)
        unknown = DescribedGroup(group_id=group_id, group_state=_DEAD)
        if context.api_version >= _NOT_FOUND_FROM:
            unknown.error_code = GroupIdNotFoundError.code
            reason = "not found" if is_classic else "is not a classic group"
            unknown.error_message = f"Group {group_id} {reason}."
        return unknown
    settled = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if settled else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.request.instance_id,
                client_id=member.request.client_id,
                client_host=member.request.client_host,
                member_metadata=member.metadata_for(group.protocol) if settled else b"",
                member_assignment=member.assignment if settled else b"",
            )
            for member in group.members.values()
        ],
    )


def list_groups(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups coordinated by this broker."""
    engine = context.engine
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    response = ListGroupsResponse()
    for group_id in engine.groups.all_ids():
        if engine.state.coordinators.of(GROUP, group_id) != context.node.node_id:
            continue
        kind, state, protocol_type = _kind_and_state(engine.groups, group_id)
        if (states and state.lower() not in states) or (types and kind not in types):
            continue
        response.groups.append(
            ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=kind)
        )
    return response


def _kind_and_state(groups: GroupCoordinator, group_id: str) -> tuple[str, str, str]:
    """Return the group's type, state and protocol type."""
    consumers = groups.consumers.get(group_id)
    if consumers is not None:
        return _CONSUMER, consumers.state_name, PROTOCOL_TYPE
    shares = groups.shares.get(group_id)
    if shares is not None:
        return _SHARE, shares.state_name, SHARE_PROTOCOL_TYPE
    group = groups.groups.get(group_id)
    return (
        (_CLASSIC, GroupState.EMPTY.value, "") if group is None else (_CLASSIC, group.state.value, group.protocol_type)
    )


def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for group_id in request.groups_names:
        result = DeletableGroupResult(group_id=group_id)
        response.results.append(result)
        try:
            check_coordinator(context, GROUP, group_id)
            context.engine.groups.delete(group_id)
        except BrokerError as error:
            result.error_code, result.error_message = error.code, error.message
    return response


HANDLERS = {
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}
