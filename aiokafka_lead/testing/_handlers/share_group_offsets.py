"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932, KIP-1226)."""

from __future__ import annotations

from ..._wire.messages import alter_share_group_offsets as alter
from ..._wire.messages import delete_share_group_offsets as delete
from ..._wire.messages import describe_share_group_offsets as describe
from ...errors import BrokerError, UnknownTopicOrPartitionError
from .._server.context import RequestContext
from .._state.consumer_members import Slot
from .._state.coordinators import GROUP
from .._state.share_states import NO_OFFSET
from .._state.topics import Topic
from .consumer_group_heartbeat import by_topic
from .coordinators import check_coordinator
from .share_group_heartbeat import check_share_groups

_UNKNOWN = "This server does not host this topic-partition."


def describe_offsets(
    context: RequestContext, request: describe.DescribeShareGroupOffsetsRequest
) -> describe.DescribeShareGroupOffsetsResponse:
    return describe.DescribeShareGroupOffsetsResponse(groups=[_describe(context, group) for group in request.groups])


def _describe(
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
        found.partitions.append(position)
        if saved is not None:
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


HANDLERS = {
    describe.DescribeShareGroupOffsetsRequest: describe_offsets,
    alter.AlterShareGroupOffsetsRequest: alter_offsets,
    delete.DeleteShareGroupOffsetsRequest: delete_offsets,
}
