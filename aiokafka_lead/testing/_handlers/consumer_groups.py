"""ConsumerGroupHeartbeat and ConsumerGroupDescribe: groups of the new protocol (KIP-848)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Protocol
from uuid import UUID, uuid4

from ... import errors
from ..._wire.messages import consumer_group_describe as describe
from ..._wire.messages import consumer_group_heartbeat as heartbeat
from .._server.context import RequestContext
from .._state import consumer_members
from .._state.acls import GROUP_OPERATIONS
from .._state.consumer_group import ConsumerGroup
from .._state.offsets import GROUP
from .coordinators import check_coordinator

_OWN_ID_FROM = 1
"""First version in which members choose their own ids."""

_NONE_SAID = -1


def check_consumer_groups(context: RequestContext) -> None:
    """Raise UnsupportedVersionError in a cluster without groups of the new protocol (group.version 0)."""
    if context.engine.apis.features.level("group.version") < 1:
        raise errors.UnsupportedVersionError("The version of API is not supported.")


def consumer_group_heartbeat(
    context: RequestContext, request: heartbeat.ConsumerGroupHeartbeatRequest
) -> heartbeat.ConsumerGroupHeartbeatResponse:
    try:
        check_consumer_groups(context)
        _check(request, context.api_version)
        check_coordinator(context, GROUP, request.group_id)
        group = context.engine.groups.of_consumer(request.group_id, joining=request.member_epoch == 0)
        result = group.heartbeat(_beat(context, request))
    except errors.BrokerError as error:
        return heartbeat.ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return heartbeat.ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=context.engine.groups.configs.number(request.group_id, "consumer.heartbeat.interval.ms"),
        assignment=_assignment(result),
    )


def _check(request: heartbeat.ConsumerGroupHeartbeatRequest, version: int) -> None:
    for name in ("group_id", "instance_id", "rack_id"):
        if getattr(request, name) == "":
            raise errors.InvalidRequestError(f"{name} can't be empty.")
    if not request.member_id and (version >= _OWN_ID_FROM or request.member_epoch != 0):
        raise errors.InvalidRequestError("MemberId can't be empty.")
    if request.member_epoch < consumer_members.LEAVES_FOR_A_WHILE:
        raise errors.InvalidRequestError("MemberEpoch is invalid.")
    if request.member_epoch == consumer_members.LEAVES_FOR_A_WHILE and request.instance_id is None:
        raise errors.InvalidRequestError("InstanceId can't be null.")
    if request.member_epoch == 0:
        if request.rebalance_timeout_ms == _NONE_SAID:
            raise errors.InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise errors.InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise errors.InvalidRequestError(
                "SubscribedTopicNames or SubscribedTopicRegex must be set in first request."
            )
    if request.server_assignor is not None and request.server_assignor not in consumer_members.SERVER_ASSIGNORS:
        raise errors.UnsupportedAssignorError(f"ServerAssignor {request.server_assignor} is not supported.")
    try:
        re.compile(request.subscribed_topic_regex or "")
    except re.error as error:
        raise errors.InvalidRegularExpressionError(f"SubscribedTopicRegex is not valid: {error}") from None


def _beat(context: RequestContext, request: heartbeat.ConsumerGroupHeartbeatRequest) -> consumer_members.Beat:
    topics, owned = request.subscribed_topic_names, request.topic_partitions
    timeout_ms = request.rebalance_timeout_ms
    return consumer_members.Beat(
        member_id=request.member_id or str(uuid4()),
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack=request.rack_id,
        rebalance_timeout_ms=None if timeout_ms == _NONE_SAID else timeout_ms,
        topics=None if topics is None else frozenset(topics),
        pattern=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None
        if owned is None
        else frozenset((topic.topic_id, index) for topic in owned for index in topic.partitions),
        client_id=context.client_id or "",
        client_host="/" + context.connection.peer.rpartition(":")[0],
    )


def _assignment(result: consumer_members.BeatResult) -> heartbeat.Assignment | None:
    if result.assignment is None or result.epoch in (consumer_members.LEAVES, consumer_members.LEAVES_FOR_A_WHILE):
        return None
    return heartbeat.Assignment(
        topic_partitions=[
            heartbeat.ResponseTopicPartitions(topic_id=topic_id, partitions=partitions)
            for topic_id, partitions in by_topic(result.assignment)
        ]
    )


def by_topic(slots: Iterable[consumer_members.Slot]) -> list[tuple[UUID, list[int]]]:
    """Return a pair of topic id and partition numbers for each topic, in ascending order."""
    grouped: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(slots):
        grouped.setdefault(topic_id, []).append(index)
    return list(grouped.items())


class _Described(Protocol):
    error_code: int
    authorized_operations: int


def tell_operations(groups: Iterable[_Described], *, asked: bool) -> None:
    """Add the operations that the client may perform on each group, if it requested them (KIP-430)."""
    for group in groups:
        if asked and not group.error_code:
            group.authorized_operations = GROUP_OPERATIONS


_CLASSIC, _CONSUMER = 0, 1
"""Types of members."""


def consumer_group_describe(
    context: RequestContext, request: describe.ConsumerGroupDescribeRequest
) -> describe.ConsumerGroupDescribeResponse:
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    tell_operations(groups, asked=request.include_authorized_operations)
    return describe.ConsumerGroupDescribeResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> describe.DescribedGroup:
    try:
        check_consumer_groups(context)
        check_coordinator(context, GROUP, group_id)
        group = context.engine.groups.consumers.get(group_id)
        if group is None:
            kind = "not a consumer group" if context.engine.groups.known(group_id) else "not found"
            raise errors.GroupIdNotFoundError(f"Group {group_id} is {kind}.")
    except errors.BrokerError as error:
        return describe.DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    return describe.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.assignor,
        members=[_member(context, group, member) for member in group.members.values()],
    )


def _member(context: RequestContext, group: ConsumerGroup, member: consumer_members.ConsumerMember) -> describe.Member:
    return describe.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.pattern or None,
        # A partition that the member has to give up still belongs to it.
        assignment=_slots(context, (*member.assigned, *member.revoking)),
        target_assignment=_slots(context, group.target.get(member.member_id, ())),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _slots(context: RequestContext, slots: Iterable[consumer_members.Slot]) -> describe.Assignment:
    names = context.engine.state.topics_by_id
    return describe.Assignment(
        topic_partitions=[
            describe.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id].name, partitions=partitions)
            for topic_id, partitions in by_topic(slots)
            if topic_id in names
        ]
    )


HANDLERS = {
    heartbeat.ConsumerGroupHeartbeatRequest: consumer_group_heartbeat,
    describe.ConsumerGroupDescribeRequest: consumer_group_describe,
}
