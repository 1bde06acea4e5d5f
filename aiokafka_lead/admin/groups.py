"""Groups of all types, and the members of consumer groups."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from .._core.admin import failure, outcome, successes
from .._core.group.assignors.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._options.arguments import list_of, string
from .._options.checks import boolean, instance, optional, short_text
from .._values import NamedTuple
from .._wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, Member
from .._wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from .._wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from .._wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from .._wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from .._wire.messages.list_groups import ListGroupsRequest
from ..errors import GroupIdNotFoundError, KafkaError, MalformedMessageError, UnsupportedVersionError
from ..types import TopicPartition
from .acls import AclOperation, operations_of
from .base import GROUP_ID, GROUP_IDS, AdminArea, called, outcomes_of, partitions_of

V = TypeVar("V")
_CLASSIC_MEMBER, _CONSUMER_MEMBER = 0, 1
_FIRST_WITH_SEVERAL_MEMBERS = 3


class GroupType(StrEnum):
    """Protocol of the members of a group."""

    CLASSIC = "classic"
    """Members assign the partitions among themselves: consumers before KIP-848, Kafka Connect and similar clients."""
    CONSUMER = "consumer"
    """The coordinator assigns partitions (KIP-848, Kafka 4.0)."""
    SHARE = "share"
    """Members share partitions and acknowledge individual records (KIP-932, Kafka 4.1)."""
    STREAMS = "streams"
    """The coordinator assigns the tasks of Kafka Streams (KIP-1071, Kafka 4.1)."""
    UNKNOWN = "unknown"
    """A type that this client does not know, or that an older broker does not report."""

    @classmethod
    def _missing_(cls, value: object) -> GroupType:
        known = {each.value: each for each in cls}
        return known.get(str(value).lower(), cls.UNKNOWN)


class GroupState(StrEnum):
    """State of a group. The values are Kafka's names."""

    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    """The coordinator is computing the assignment (KIP-848)."""
    RECONCILING = "Reconciling"
    """Members are moving to their new assignments (KIP-848)."""
    STABLE = "Stable"
    EMPTY = "Empty"
    """The group has no members. Its offsets may be altered, and it may be deleted."""
    DEAD = "Dead"
    NOT_READY = "NotReady"
    """A Kafka Streams group whose topics are missing or unsuitable (KIP-1071)."""
    UNKNOWN = "Unknown"
    """A state that this client does not know, or that an older broker does not report."""

    @classmethod
    def _missing_(cls, value: object) -> GroupState:
        return cls.UNKNOWN


class GroupListing(NamedTuple):
    """A group and its coordinator, as listed by `AdminClient.list_groups`."""

    group_id: str
    type: GroupType
    """`GroupType.UNKNOWN` before Kafka 3.8."""
    state: GroupState
    """`GroupState.UNKNOWN` before Kafka 2.6."""
    protocol_type: str
    """``"consumer"`` for a group of consumers. Empty for a group that has never had members."""
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class ConsumerMemberDescription:
    """A member of a consumer group, classic or KIP-848, with its partitions.

    ``host`` is the address from which the member connects. ``subscribed_regex`` is its RE2 pattern, or None for a
    classic member or a member without a pattern.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Partitions that the member currently owns."""
    target_assignment: tuple[TopicPartition, ...] | None = None
    """Partitions that the member will own after the rebalance (KIP-848). None for a group of the classic protocol."""
    member_epoch: int | None = None
    """None for a group of the classic protocol."""
    rack: str | None = None
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    is_classic: bool | None = None
    """True for a classic member of a KIP-848 group. None if the broker does not report it, as in Kafka 4.0."""


@dataclass(frozen=True, slots=True)
class ConsumerGroupDescription:
    """A consumer group with its members, as returned by `AdminClient.describe_consumer_groups`."""

    group_id: str
    type: GroupType
    state: GroupState
    partition_assignor: str
    """Name of the assignor."""
    members: tuple[ConsumerMemberDescription, ...]
    coordinator_id: int
    is_simple: bool = False
    """True if the group has never had members and only stores offsets, for consumers that use `Consumer.assign`."""
    group_epoch: int | None = None
    """Number that increases with each change that needs a new assignment. None for a group of the classic protocol."""
    target_assignment_epoch: int | None = None
    """Value of ``group_epoch`` for which the latest assignment was computed."""
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that this user may perform on the group. None unless they were requested."""


@dataclass(frozen=True, slots=True)
class ClassicMemberDescription:
    """A member of a group of the classic protocol.

    ``metadata`` and ``assignment`` are bytes, whose format depends on the protocol type of the group.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    metadata: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupDescription:
    """A group of the classic protocol, as returned by `AdminClient.describe_classic_groups`."""

    group_id: str
    protocol_type: str
    protocol: str
    """Name of the assignor that the members have agreed on."""
    state: GroupState
    members: tuple[ClassicMemberDescription, ...]
    coordinator_id: int
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that this user may perform on the group. None unless they were requested."""


_STATES = optional(list_of("GroupState", instance(GroupState, "a GroupState")))
_TYPES = optional(list_of("GroupType", instance(GroupType, "a GroupType")))
_PROTOCOL_TYPES = optional(list_of("protocol types", string))
_MEMBERS = optional(list_of("member ids", short_text))


class GroupCalls(AdminArea):
    """Admin calls for groups of all types, and for the members of consumer groups."""

    def list_groups(
        self,
        *,
        states: Iterable[GroupState] | None = None,
        types: Iterable[GroupType] | None = None,
        protocol_types: Iterable[str] | None = None,
        timeout_ms: float | None = None,
    ) -> AsyncIterator[GroupListing]:
        """Iterate asynchronously over the groups that match all filters, on all brokers.

            async for group in admin.list_groups(states=[GroupState.EMPTY]):
                print(group.group_id)

        ``states``, ``types`` and ``protocol_types`` select groups; None (the default) selects all. ``protocol_types``
        are names such as ``"consumer"`` or ``"connect"``.

        If a broker fails, its error is raised after the groups of all other brokers were yielded. The error's
        ``outcomes`` map the id of each failed broker to its error. Raises `UnsupportedVersionError` if a broker is too
        old for a filter: ``states`` needs Kafka 2.6 (KIP-518), and ``types`` needs Kafka 3.8 (KIP-848).
        """
        in_states = _STATES("states", states)
        of_types = _TYPES("types", types)
        protocols = _PROTOCOL_TYPES("protocol_types", protocol_types)
        deadline = self._calls.deadline(timeout_ms)
        return self._list_groups(in_states, of_types, protocols, deadline)

    async def describe_consumer_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ConsumerGroupDescription]:
        """Return the descriptions of consumer groups, classic or KIP-848, by group id.

            group = (await admin.describe_consumer_groups(["billing"]))["billing"]
            print(group.state, [member.assignment for member in group.members])

        With ``include_authorized_operations``, a description includes the operations that this user may perform.

        Raises `GroupIdNotFoundError` if a group does not exist or is of another type, and
        `GroupAuthorizationFailedError` if this user may not describe it. The error's ``outcomes`` contain the
        descriptions of the other groups.
        """
        ids = GROUP_IDS("group_ids", group_ids)
        boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await self._describe_consumer_groups(ids, include_authorized_operations, deadline)

    async def describe_classic_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ClassicGroupDescription]:
        """Return the descriptions of groups of the classic protocol by group id.

        Members may be any clients, such as Kafka Connect workers. Their metadata and assignments are bytes, because
        each protocol type has its own format. With ``include_authorized_operations``, a description includes the
        operations on the group that this user may perform.

        Raises `GroupIdNotFoundError` if a group does not exist or uses another protocol. The error's ``outcomes``
        contain the descriptions of the other groups.
        """
        ids = GROUP_IDS("group_ids", group_ids)
        boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)
        return await self._describe_classic_groups(ids, include_authorized_operations, _classic_group, deadline)

    async def delete_consumer_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete groups of any type, and their offsets.

        Raises `NonEmptyGroupError` if a group has members, and `GroupIdNotFoundError` if a group does not exist. The
        other groups are still deleted, and the error's ``outcomes`` map each group id to None or its error.
        """
        ids = GROUP_IDS("group_ids", group_ids)
        deadline = self._calls.deadline(timeout_ms)

        def build(mine: Sequence[str]) -> DeleteGroupsRequest:
            return DeleteGroupsRequest(groups_names=list(mine))

        def read(_: int, response: DeleteGroupsResponse) -> Iterator[tuple[str, KafkaError | None]]:
            for result in response.results:
                yield result.group_id, outcome(None, result.error_code, called(result.group_id), result.error_message)

        await self._calls.by_coordinators(CoordinatorKind.GROUP, ids, build, read, deadline)

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        *,
        members: Iterable[str] | None = None,
        static_members: Iterable[str] | None = None,
        reason: str = "removed by an administrator",
        timeout_ms: float | None = None,
    ) -> None:
        """Remove members from a group.

        ``members`` are member ids, and ``static_members`` are values of ``group.instance.id``. If neither is given, all
        members are removed. The coordinator logs ``reason`` (KIP-800).

        Use this call for static members that are permanently lost. Otherwise their partitions stay unread until the
        session timeout. Members that are still running join again.

        Raises `UnknownMemberIdError` if the group has no such member. The other members are still removed. The keys of
        the error's ``outcomes`` are pairs of member id and instance id. Raises `GroupIdNotFoundError` if all members
        should be removed but the group does not exist.
        """
        GROUP_ID("group_id", group_id)
        named = _members(members, static_members)
        why = string("reason", reason)
        deadline = self._calls.deadline(timeout_ms)
        if named is None:
            described = (await self._describe_consumer_groups([group_id], False, deadline))[group_id]
            named = [
                MemberIdentity(
                    member_id="" if member.group_instance_id else member.member_id,
                    group_instance_id=member.group_instance_id,
                )
                for member in described.members
            ]
        wanted = {(member.member_id, member.group_instance_id): member for member in named}
        if not wanted:
            return

        async def ask(
            connection: Connection, pending: Mapping[tuple[str, str | None], MemberIdentity]
        ) -> Mapping[tuple[str, str | None], KafkaError | None]:
            version = connection.versions.version_for(LeaveGroupRequest, lowest=_FIRST_WITH_SEVERAL_MEMBERS)
            for member in pending.values():
                member.reason = why
            request = LeaveGroupRequest(group_id=group_id, members=list(pending.values()))
            response = await connection.request(request, version=version, timeout_ms=deadline.request_ms())
            if response.error_code:
                raise failure(response.error_code, called(group_id))
            # A static member is identified by its instance id, because the broker may add its member id.
            by_instance = {each.group_instance_id: each.error_code for each in response.members}
            by_id = {each.member_id: each.error_code for each in response.members}
            answers = {key: by_instance.get(key[1]) if key[1] else by_id.get(key[0]) for key in pending}
            return {
                key: outcome(None, code, f"member {key[1] or key[0]}")
                for key, code in answers.items()
                if code is not None
            }

        await self._calls.at_coordinator(group_id, ask, wanted, deadline)

    async def _list_groups(
        self,
        states: Collection[GroupState] | None,
        types: Collection[GroupType] | None,
        protocol_types: Collection[str] | None,
        deadline: Deadline,
    ) -> AsyncIterator[GroupListing]:
        """Yield every group that matches the filters, and raise errors of brokers at the end."""

        def build() -> ListGroupsRequest:
            return ListGroupsRequest(
                states_filter=[state.value for state in states or ()], types_filter=[kind.value for kind in types or ()]
            )

        answers, failed = await self._calls.by_broker(build, deadline)
        seen: set[str] = set()  # two brokers list a group if its coordinator moves between their answers
        for broker, answer in answers.items():
            for group in answer.groups:
                if group.group_id not in seen and (protocol_types is None or group.protocol_type in protocol_types):
                    seen.add(group.group_id)
                    kind, state = GroupType(group.group_type), GroupState(group.group_state)
                    yield GroupListing(group.group_id, kind, state, group.protocol_type, broker)
        if failed is not None:
            raise failed

    async def _describe_consumer_groups(
        self, group_ids: Sequence[str], with_operations: bool, deadline: Deadline
    ) -> dict[str, ConsumerGroupDescription]:
        """Describe groups of the new protocol first, then the remaining groups as classic groups, as Java does."""

        def build(mine: Sequence[str]) -> ConsumerGroupDescribeRequest:
            return ConsumerGroupDescribeRequest(group_ids=list(mine), include_authorized_operations=with_operations)

        new = await outcomes_of(
            self._calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, _consumer_groups, deadline)
        )
        others = [
            name for name, found in new.items() if isinstance(found, (GroupIdNotFoundError, UnsupportedVersionError))
        ]
        classic: Mapping[str, ConsumerGroupDescription | KafkaError] = {}
        if others:
            classic = await outcomes_of(
                self._describe_classic_groups(others, with_operations, _classic_consumers, deadline)
            )
        return successes({**new, **classic})

    async def _describe_classic_groups(
        self,
        group_ids: Iterable[str],
        with_operations: bool,
        describe: Callable[[DescribedGroup, int], V | KafkaError],
        deadline: Deadline,
    ) -> dict[str, V]:
        """Describe groups through DescribeGroups. ``describe`` converts a group and its coordinator's node id."""

        def build(mine: Sequence[str]) -> DescribeGroupsRequest:
            return DescribeGroupsRequest(groups=list(mine), include_authorized_operations=with_operations)

        def read(broker: int, response: DescribeGroupsResponse) -> Iterator[tuple[str, V | KafkaError]]:
            for group in response.groups:
                if group.error_code:
                    yield group.group_id, failure(group.error_code, called(group.group_id), group.error_message)
                elif group.group_state == GroupState.DEAD:  # older brokers report a missing group with this state
                    yield group.group_id, failure(GroupIdNotFoundError.code, called(group.group_id))
                else:
                    yield group.group_id, describe(group, broker)

        return await self._calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, read, deadline)


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
        authorized_operations=operations_of(group.authorized_operations),
    )


def _member(member: Member) -> ConsumerMemberDescription:
    kind = member.member_type
    return ConsumerMemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        partitions_of(member.assignment.topic_partitions),
        partitions_of(member.target_assignment.topic_partitions),
        member.member_epoch,
        member.rack_id,
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex,
        None if kind not in (_CLASSIC_MEMBER, _CONSUMER_MEMBER) else kind == _CLASSIC_MEMBER,
    )


def _classic_consumers(group: DescribedGroup, broker: int) -> ConsumerGroupDescription | KafkaError:
    if group.protocol_type not in ("", PROTOCOL_TYPE):
        text = f"its protocol type is {group.protocol_type!r}, not 'consumer': use describe_classic_groups"
        return failure(GroupIdNotFoundError.code, called(group.group_id), text)
    try:
        members = tuple(map(_classic_consumer, group.members))
    except MalformedMessageError as error:
        return MalformedMessageError(f"{called(group.group_id)}: the data of a member cannot be decoded: {error}")
    return ConsumerGroupDescription(
        group.group_id,
        GroupType.CLASSIC,
        GroupState(group.group_state),
        group.protocol_data,
        members,
        broker,
        is_simple=not group.protocol_type,
        authorized_operations=operations_of(group.authorized_operations),
    )


def _classic_consumer(member: DescribedGroupMember) -> ConsumerMemberDescription:
    # A group that is not stable does not report its members' subscriptions.
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
        operations_of(group.authorized_operations),
    )


def _members(member_ids: Iterable[str] | None, group_instance_ids: Iterable[str] | None) -> list[MemberIdentity] | None:
    """Return the members to remove, or None for all members."""
    by_id, by_instance = _MEMBERS("members", member_ids), _MEMBERS("static_members", group_instance_ids)
    if by_id is None and by_instance is None:
        return None
    named = [MemberIdentity(member_id=each) for each in by_id or ()]
    return named + [MemberIdentity(group_instance_id=each) for each in by_instance or ()]
