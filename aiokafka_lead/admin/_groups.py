"""Groups of consumers, of the classic protocol and of the new one: list, describe, delete, remove members."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from .._core.group.assignors.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    Member,
)
from .._wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from .._wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from .._wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from .._wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from .._wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ..errors import GroupIdNotFoundError, KafkaError, MalformedMessageError, UnsupportedVersionError, raise_for_code
from ..types import TopicPartition
from ._calls import Calls, failure, outcome, outcomes_of, successes
from .acl_types import AclOperation
from .group_types import (
    ClassicGroupDescription,
    ClassicMemberDescription,
    ConsumerGroupDescription,
    ConsumerMemberDescription,
    GroupListing,
    GroupState,
    GroupType,
)

V = TypeVar("V")

_NOT_FOUND_FROM = 6
_FIRST_WITH_SEVERAL_MEMBERS = 3
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
_OPERATIONS_NOT_ASKED = -(2**31)


async def list_all(
    calls: Calls,
    states: Collection[GroupState] | None,
    types: Collection[GroupType] | None,
    protocol_types: Collection[str] | None,
    deadline: Deadline,
) -> AsyncIterator[GroupListing]:
    """Every group that passes the filters; what a broker failed to tell is raised after all that the others told."""

    def build() -> ListGroupsRequest:
        return ListGroupsRequest(
            states_filter=[state.value for state in states or ()], types_filter=[kind.value for kind in types or ()]
        )

    failed: KafkaError | None = None
    answers: Mapping[int, ListGroupsResponse | KafkaError]
    try:
        answers = await calls.by_broker(build, deadline)
    except KafkaError as error:
        if error.outcomes is None:
            raise
        failed, answers = error, error.outcomes
    for broker, answer in answers.items():
        if isinstance(answer, KafkaError):
            continue
        for group in answer.groups:
            if protocol_types is None or group.protocol_type in protocol_types:
                kind, state = GroupType(group.group_type), GroupState(group.group_state)
                yield GroupListing(group.group_id, kind, state, group.protocol_type, broker)
    if failed is not None:
        raise failed


async def describe_consumers(
    calls: Calls, group_ids: Sequence[str], with_operations: bool, deadline: Deadline
) -> dict[str, ConsumerGroupDescription]:
    """Groups of consumers: first asked for as ones of the new protocol, then as classic ones (Java does the same)."""

    def build(mine: Sequence[str]) -> ConsumerGroupDescribeRequest:
        return ConsumerGroupDescribeRequest(group_ids=list(mine), include_authorized_operations=with_operations)

    new = await outcomes_of(calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, _consumer_groups, deadline))
    others = [name for name, found in new.items() if isinstance(found, (GroupIdNotFoundError, UnsupportedVersionError))]
    classic: Mapping[str, ConsumerGroupDescription | KafkaError] = {}
    if others:
        classic = await outcomes_of(_describe_classic(calls, others, with_operations, _classic_consumers, deadline))
    return successes({**new, **classic})


async def describe_classic(
    calls: Calls, group_ids: Iterable[str], with_operations: bool, deadline: Deadline
) -> dict[str, ClassicGroupDescription]:
    """Groups of the classic protocol, whatever their members are."""
    return await _describe_classic(calls, group_ids, with_operations, _classic_group, deadline)


async def _describe_classic(
    calls: Calls,
    group_ids: Iterable[str],
    with_operations: bool,
    describe: Callable[[DescribedGroup, int], V | KafkaError],
    deadline: Deadline,
) -> dict[str, V]:
    def build(mine: Sequence[str]) -> DescribeGroupsRequest:
        request = DescribeGroupsRequest(groups=list(mine))
        if with_operations:
            request.include_authorized_operations = True
        return request

    def read(broker: int, response: DescribeGroupsResponse) -> Iterator[tuple[str, V | KafkaError]]:
        for group in response.groups:
            if group.error_code:
                yield group.group_id, failure(group.error_code, called(group.group_id), group.error_message)
            elif group.group_state == GroupState.DEAD:  # how older brokers say that there is none
                yield group.group_id, failure(GroupIdNotFoundError.code, called(group.group_id))
            else:
                yield group.group_id, describe(group, broker)

    return await calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, read, deadline)


def _consumer_groups(
    broker: int, response: ConsumerGroupDescribeResponse
) -> Iterator[tuple[str, ConsumerGroupDescription | KafkaError]]:
    for group in response.groups:
        described = _consumer_group(group, broker)
        yield group.group_id, outcome(described, group.error_code, called(group.group_id), group.error_message)


def _consumer_group(group: DescribedConsumerGroup, broker: int) -> ConsumerGroupDescription:
    return ConsumerGroupDescription(
        group.group_id,
        GroupType.CONSUMER,
        GroupState(group.group_state),
        group.assignor_name,
        tuple(map(_member, group.members)),
        broker,
        group_epoch=group.group_epoch,
        target_assignment_epoch=group.assignment_epoch,
        authorized_operations=operations(group.authorized_operations),
    )


def _member(member: Member) -> ConsumerMemberDescription:
    kind = member.member_type
    return ConsumerMemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        member.rack_id,
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex,
        None if kind not in (_CLASSIC_MEMBER, _CONSUMER_MEMBER) else kind == _CLASSIC_MEMBER,
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(topic.topic_name, partition)
        for topic in assignment.topic_partitions
        for partition in topic.partitions
    )


def _classic_consumers(group: DescribedGroup, broker: int) -> ConsumerGroupDescription | KafkaError:
    if group.protocol_type not in ("", PROTOCOL_TYPE):
        text = f"it is no group of consumers, but of {group.protocol_type!r}: describe_classic_groups describes it"
        return failure(GroupIdNotFoundError.code, called(group.group_id), text)
    try:
        members = tuple(map(_classic_consumer, group.members))
    except MalformedMessageError as error:
        return MalformedMessageError(f"{called(group.group_id)}: what a member wrote cannot be read: {error}")
    return ConsumerGroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        GroupState(group.group_state),
        group.protocol_data,
        members,
        broker,
        is_simple=not group.protocol_type,
        authorized_operations=operations(group.authorized_operations),
    )


def _classic_consumer(member: DescribedGroupMember) -> ConsumerMemberDescription:
    # A group that is not stable tells nothing of what its members want.
    wanted = decode_subscription(member.member_metadata) if member.member_metadata else None
    return ConsumerMemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        tuple(decode_assignment(member.member_assignment)),
        rack=None if wanted is None else wanted.rack,
        subscribed_topics=() if wanted is None else wanted.topics,
        is_classic=True,
    )


def _classic_group(group: DescribedGroup, broker: int) -> ClassicGroupDescription:
    return ClassicGroupDescription(
        group.group_id,
        group.protocol_type,
        group.protocol_data,
        GroupState(group.group_state),
        tuple(
            ClassicMemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.member_metadata,
                member.member_assignment,
            )
            for member in group.members
        ),
        broker,
        operations(group.authorized_operations),
    )


async def delete(calls: Calls, group_ids: Iterable[str], deadline: Deadline) -> None:
    """Delete groups, of any kind, without members."""

    def build(mine: Sequence[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=list(mine))

    def read(_: int, response: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
        for result in response.results:
            yield result.group_id, outcome(None, result.error_code, called(result.group_id), result.error_message)

    await calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, read, deadline)


async def remove_members(
    calls: Calls, group_id: str, members: Iterable[MemberIdentity] | None, reason: str, deadline: Deadline
) -> None:
    """Take members out of a group; None takes all of them out."""
    if members is None:
        described = (await describe_consumers(calls, [group_id], False, deadline))[group_id]
        members = [
            MemberIdentity(
                member_id="" if member.group_instance_id else member.member_id,
                group_instance_id=member.group_instance_id,
            )
            for member in described.members
        ]
    wanted = {(member.member_id, member.group_instance_id): member for member in members}
    if not wanted:
        return

    async def ask(
        connection: Connection, pending: Mapping[tuple[str, str | None], MemberIdentity]
    ) -> Mapping[tuple[str, str | None], KafkaError | None]:
        version = connection.versions.version_for(LeaveGroupRequest, lowest=_FIRST_WITH_SEVERAL_MEMBERS)
        for member in pending.values():
            member.reason = reason
        request = LeaveGroupRequest(group_id=group_id, members=list(pending.values()))
        response = await connection.request(request, version=version, timeout_ms=deadline.request_ms())
        raise_for_code(response.error_code)
        # A static member is named by its instance; the broker may add which member that was.
        by_instance = {each.group_instance_id: each.error_code for each in response.members}
        by_id = {each.member_id: each.error_code for each in response.members}
        answers = {key: by_instance.get(key[1]) if key[1] else by_id.get(key[0]) for key in pending}
        return {
            key: outcome(None, code, f"member {key[1] or key[0]}") for key, code in answers.items() if code is not None
        }

    await calls.at_coordinator(group_id, ask, wanted, deadline)


def operations(bits: int) -> frozenset[AclOperation] | None:
    """The operations that a description names by bits; None where they were not asked for (KIP-430)."""
    if bits == _OPERATIONS_NOT_ASKED:
        return None
    return frozenset(each for each in AclOperation if each > AclOperation.ANY and bits >> each & 1)


def called(group_id: str) -> str:
    return f"group {group_id!r}"
