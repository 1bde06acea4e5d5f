"""DescribeGroups, ListGroups and DeleteGroups."""

from __future__ import annotations

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
from .._state.group import Group
from .._state.members import GroupState
from .coordinators import GROUP, check_coordinator

_NOT_FOUND_FROM = 6
_DEAD = "Dead"
_CLASSIC = "classic"


def describe_groups(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(groups=[_describe(context, group_id) for group_id in request.groups])


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        check_coordinator(context, GROUP, group_id)
    except BrokerError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    groups = context.engine.groups
    group = groups.groups.get(group_id)
    if group is None:
        if groups.known(group_id):
            return DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value)
        unknown = DescribedGroup(group_id=group_id, group_state=_DEAD)
        if context.api_version >= _NOT_FOUND_FROM:
            unknown.error_code = GroupIdNotFoundError.code
            unknown.error_message = f"Group {group_id} not found."
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
    """The groups that this broker coordinates."""
    engine = context.engine
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    response = ListGroupsResponse()
    for group_id in engine.groups.all_ids():
        if engine.state.coordinators.of(GROUP, group_id) != context.node.node_id:
            continue
        group: Group | None = engine.groups.groups.get(group_id)
        state = GroupState.EMPTY.value if group is None else group.state.value
        if (states and state.lower() not in states) or (types and _CLASSIC not in types):
            continue
        protocol_type = "" if group is None else group.protocol_type
        response.groups.append(
            ListedGroup(group_id=group_id, protocol_type=protocol_type, group_state=state, group_type=_CLASSIC)
        )
    return response


def delete_groups(context: RequestContext, request: DeleteGroupsRequest) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for group_id in request.groups_names:
        result = DeletableGroupResult(group_id=group_id)
        response.results.append(result)
        try:
            check_coordinator(context, GROUP, group_id)
            context.engine.groups.delete(group_id)
        except BrokerError as error:
            result.error_code = error.code
    return response


HANDLERS = {
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
}
