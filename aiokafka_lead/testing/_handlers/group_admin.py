"""DescribeGroups, ListGroups and DeleteGroups, and the offsets of share groups (KIP-932)."""

from __future__ import annotations

from ..._wire.messages import alter_share_group_offsets as alter
from ..._wire.messages import delete_share_group_offsets as delete
from ..._wire.messages import describe_groups as described
from ..._wire.messages import describe_share_group_offsets as describe
from ..._wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from ..._wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from ...errors import BrokerError, GroupIdNotFoundError, UnknownTopicOrPartitionError
from .._server.context import RequestContext
from .._state.classic_members import PROTOCOL_TYPE
from .._state.consumer_members import Slot
from .._state.group_coordinator import GroupCoordinator
from .._state.members import GroupState
from .._state.offsets import GROUP
from .._state.share_deliveries import NO_OFFSET
from .._state.share_group import PROTOCOL_TYPE as SHARE_PROTOCOL_TYPE
from .._state.topics import Topic
from .consumer_groups import by_topic, tell_operations
from .coordinators import check_coordinator
from .share_groups import check_share_groups

_UNKNOWN = "This server does not host this topic-partition."


def describe_offsets(
    context: RequestContext, request: describe.DescribeShareGroupOffsetsRequest
) -> describe.DescribeShareGroupOffsetsResponse:
    return describe.DescribeShareGroupOffsetsResponse(
        groups=[_describe_share(context, group) for group in request.groups]
    )


def _describe_share(
    context: RequestContext, wanted: describe.DescribeShareGroupOffsetsRequestGroup
) -> describe.DescribeShareGroupOffsetsResponseGroup:
    found = describe.DescribeShareGroupOffsetsResponseGroup(group_id=wanted.group_id)
    try:
        check_share_groups(context)
        check_coordinator(context, GROUP, wanted.group_id)
    except BrokerError as error:
        found.error_code, found.error_message = error.code, error.message
        return found
    state, states = context.engine.state, context.engine.groups.share_states
    if wanted.topics is None:
        for topic_id, partitions in by_topic(states.of(wanted.group_id)):
            found.topics.append(_positions(context, wanted.group_id, state.topics_by_id[topic_id], partitions))
        return found
    for topic in wanted.topics:
        known = state.topics.get(topic.topic_name)
        if known is not None:
            found.topics.append(_positions(context, wanted.group_id, known, topic.partitions))
            continue
        found.topics.append(
            describe.DescribeShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name, partitions=[_nowhere(index) for index in topic.partitions]
            )
        )
    return found


def _positions(
    context: RequestContext, group_id: str, topic: Topic, partitions: list[int]
) -> describe.DescribeShareGroupOffsetsResponseTopic:
    found = describe.DescribeShareGroupOffsetsResponseTopic(topic_name=topic.name, topic_id=topic.topic_id)
    for index in partitions:
        saved = context.engine.groups.share_states.get(group_id, (topic.topic_id, index))
        position = _nowhere(index)
        position.error_code = context.fault_code(topic.name, index)
        found.partitions.append(position)
        if saved is not None and not position.error_code:
            partition = topic.partitions[index]
            position.start_offset = saved.start_offset
            position.leader_epoch = 0 if saved.start_offset == NO_OFFSET else partition.leader_epoch
            position.lag = saved.lag(partition.log.end_offset)
    return found


def _nowhere(index: int) -> describe.DescribeShareGroupOffsetsResponsePartition:
    return describe.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=NO_OFFSET, lag=-1)


def alter_offsets(
    context: RequestContext, request: alter.AlterShareGroupOffsetsRequest
) -> alter.AlterShareGroupOffsetsResponse:
    response = alter.AlterShareGroupOffsetsResponse()
    offsets: dict[Slot, int] = {}
    for wanted in request.topics:
        topic = context.engine.state.topics.get(wanted.topic_name)
        answer = alter.AlterShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
        response.responses.append(answer)
        if topic is not None:
            answer.topic_id = topic.topic_id
        for place in wanted.partitions:
            result = alter.AlterShareGroupOffsetsResponsePartition(partition_index=place.partition_index)
            answer.partitions.append(result)
            if topic is None or place.partition_index >= len(topic.partitions):
                result.error_code, result.error_message = UnknownTopicOrPartitionError.code, _UNKNOWN
            else:
                offsets[topic.topic_id, place.partition_index] = place.start_offset
    try:
        check_share_groups(context)
        check_coordinator(context, GROUP, request.group_id)
        context.engine.groups.alter_share_offsets(request.group_id, offsets)
    except BrokerError as error:
        return alter.AlterShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    return response


def delete_offsets(
    context: RequestContext, request: delete.DeleteShareGroupOffsetsRequest
) -> delete.DeleteShareGroupOffsetsResponse:
    groups = context.engine.groups
    try:
        check_share_groups(context)
        check_coordinator(context, GROUP, request.group_id)
        groups.empty_share_group(request.group_id)
    except BrokerError as error:
        return delete.DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.message)
    response = delete.DeleteShareGroupOffsetsResponse()
    for wanted in request.topics:
        result = delete.DeleteShareGroupOffsetsResponseTopic(topic_name=wanted.topic_name)
        response.responses.append(result)
        topic = context.engine.state.topics.get(wanted.topic_name)
        if topic is None:
            result.error_code, result.error_message = UnknownTopicOrPartitionError.code, _UNKNOWN
        elif groups.share_states.delete(request.group_id, topic.topic_id):
            result.topic_id = topic.topic_id
        else:
            result.error_code = UnknownTopicOrPartitionError.code
            result.error_message = "There is no offset information to delete."
    return response


_NOT_FOUND_FROM = 6
_DEAD = "Dead"
_CLASSIC = "classic"
_CONSUMER = "consumer"
_SHARE = "share"


def describe_groups(
    context: RequestContext, request: described.DescribeGroupsRequest
) -> described.DescribeGroupsResponse:
    groups = [_describe(context, group_id) for group_id in request.groups]
    tell_operations(groups, asked=request.include_authorized_operations)
    return described.DescribeGroupsResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> described.DescribedGroup:
    try:
        check_coordinator(context, GROUP, group_id)
    except BrokerError as error:
        return described.DescribedGroup(group_id=group_id, error_code=error.code)
    groups = context.engine.groups
    group = groups.groups.get(group_id)
    if group is None:
        is_classic = group_id not in groups.consumers and group_id not in groups.shares
        if is_classic and groups.known(group_id):
            return described.DescribedGroup(group_id=group_id, group_state=GroupState.EMPTY.value)
        unknown = described.DescribedGroup(group_id=group_id, group_state=_DEAD)
        if context.api_version >= _NOT_FOUND_FROM:
            unknown.error_code = GroupIdNotFoundError.code
            reason = "not found" if is_classic else "is not a classic group"
            unknown.error_message = f"Group {group_id} {reason}."
        return unknown
    settled = group.state is GroupState.STABLE
    return described.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type,
        protocol_data=(group.protocol or "") if settled else "",
        members=[
            described.DescribedGroupMember(
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
    """List the groups that this broker coordinates."""
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
    """Return the group's type, its state and its protocol type, as in ListGroups."""
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
    described.DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    describe.DescribeShareGroupOffsetsRequest: describe_offsets,
    alter.AlterShareGroupOffsetsRequest: alter_offsets,
    delete.DeleteShareGroupOffsetsRequest: delete_offsets,
}
