"""Share groups and their offsets (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .._core.admin import failure, outcome
from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._options.arguments import map_of, topic_partition
from .._options.checks import INT64_MAX, boolean, integer
from .._values import NamedTuple
from .._wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from .._wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from .._wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponsePartition,
)
from .._wire.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest, ShareGroupDescribeResponse
from ..errors import KafkaError
from ..types import TopicPartition
from .acls import AclOperation, operations_of
from .base import (
    GROUP_ID,
    GROUP_IDS,
    NAMED_TOPICS,
    PARTITIONS,
    TOPICS,
    by_topic,
    called,
    indexes_by_topic,
    partitions_of,
)
from .groups import GroupCalls, GroupState
from .offsets import OffsetCalls, ResetTo, reset_to


@dataclass(frozen=True, slots=True)
class ShareMemberDescription:
    """A member of a share group, with its assigned partitions."""

    member_id: str
    client_id: str
    host: str
    member_epoch: int
    rack: str | None
    subscribed_topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group with its members, as returned by `AdminClient.describe_share_groups` (KIP-932)."""

    group_id: str
    state: GroupState
    members: tuple[ShareMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    """Number that increases with each change that needs a new assignment."""
    target_assignment_epoch: int
    """Value of ``group_epoch`` for which the latest assignment was computed."""
    assignor: str
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that this user may perform on the group. None unless they were requested."""


class ShareGroupOffset(NamedTuple):
    """Start offset of a share group in a partition. All records before it are finished."""

    start_offset: int
    leader_epoch: int | None
    lag: int | None
    """Number of unfinished records up to the end of the partition. None if the broker does not report it."""


class StartOffsetChange(NamedTuple):
    """A share group's start offset in a partition, before and after a reset."""

    before: int | None
    """None if the group had no start offset in the partition."""
    after: int


_START_OFFSETS = map_of("TopicPartition to offset", topic_partition, integer(0, INT64_MAX))


class ShareGroupCalls(OffsetCalls, GroupCalls):
    """Admin calls for share groups and their start offsets (KIP-932)."""

    async def describe_share_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, ShareGroupDescription]:
        """Return the descriptions of share groups by group id (KIP-932, Kafka 4.1).

        With ``include_authorized_operations``, a description includes the operations on the group that this user may
        perform. Raises `GroupIdNotFoundError` if a group does not exist or is of another type. The error's ``outcomes``
        contain the descriptions of the other groups.
        """
        ids = GROUP_IDS("group_ids", group_ids)
        boolean("include_authorized_operations", include_authorized_operations)
        deadline = self._calls.deadline(timeout_ms)

        def build(mine: Sequence[str]) -> ShareGroupDescribeRequest:
            return ShareGroupDescribeRequest(
                group_ids=list(mine), include_authorized_operations=include_authorized_operations
            )

        def read(
            broker: int, response: ShareGroupDescribeResponse
        ) -> Iterator[tuple[str, ShareGroupDescription | KafkaError]]:
            for group in response.groups:
                described = _group(group, broker)
                yield group.group_id, outcome(described, group.error_code, called(group.group_id), group.error_message)

        return await self._calls.by_coordinators(CoordinatorKind.GROUP, ids, build, read, deadline)

    async def delete_share_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete share groups. Java's name for `delete_consumer_groups`."""
        await self.delete_consumer_groups(group_ids, timeout_ms=timeout_ms)

    async def list_share_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, ShareGroupOffset | None]:
        """Return the start offset and the lag of a share group in each partition.

        Without ``partitions``, the result contains all partitions of the group. Otherwise, it contains the given
        partitions; the value is None for a partition without a start offset, or if the group does not exist.
        """
        GROUP_ID("group_id", group_id)
        named = PARTITIONS("partitions", partitions)
        return await self._start_offsets(group_id, named, self._calls.deadline(timeout_ms))

    async def alter_share_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], *, timeout_ms: float | None = None
    ) -> None:
        """Set the start offsets of a share group without members. If the group does not exist, it is created.

            await admin.alter_share_group_offsets("workers", {TopicPartition("jobs", 0): 42})

        Records before a start offset are never delivered to the group. Raises `NonEmptyGroupError` if the group has
        members, and `UnknownTopicOrPartitionError` if a partition does not exist. The other partitions are still
        changed.
        """
        GROUP_ID("group_id", group_id)
        wanted = _START_OFFSETS("offsets", offsets)
        await self._alter_start_offsets(group_id, wanted, self._calls.deadline(timeout_ms))

    async def reset_share_group_offsets(
        self,
        group_id: str,
        to: ResetTo,
        *,
        topics: Iterable[str] | None = None,
        partitions: Iterable[TopicPartition] | None = None,
        dry_run: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, StartOffsetChange]:
        """Reset the start offsets of a share group without members.

        Returns the start offset of each partition before and after. The group forgets the deliveries and
        acknowledgements of all records at or after the new start offset, and delivers these records again.

        ``to``, ``topics``, ``partitions`` and ``dry_run`` are as in `reset_consumer_group_offsets`. Without ``topics``
        and ``partitions``, the call resets every partition that was ever assigned to a member of the group.

        Raises `NonEmptyGroupError` if the group has members, and the other errors of `reset_consumer_group_offsets`.
        (Java: ``kafka-share-groups --reset-offsets``.)
        """
        GROUP_ID("group_id", group_id)
        place = reset_to("to", to)
        named = TOPICS("topics", topics)
        single = PARTITIONS("partitions", partitions)
        boolean("dry_run", dry_run)
        deadline = self._calls.deadline(timeout_ms)
        wanted = await self._named_partitions(named, single, deadline)
        found = await self._start_offsets(group_id, wanted, deadline)
        before = {where: None if each is None else each.start_offset for where, each in found.items()}
        changes = {
            where: StartOffsetChange(before[where], target.offset)
            for where, target in (await self._targets(before, place, deadline)).items()
        }
        if not dry_run and changes:
            await self._alter_start_offsets(
                group_id, {where: change.after for where, change in changes.items()}, deadline
            )
        return changes

    async def delete_share_group_offsets(
        self, group_id: str, topics: Iterable[str], *, timeout_ms: float | None = None
    ) -> None:
        """Delete the start offsets and deliveries of a share group without members, for these topics.

        Raises `NonEmptyGroupError` if the group has members, `GroupIdNotFoundError` if the group does not exist, and
        `UnknownTopicOrPartitionError` if a topic does not exist. The offsets of the other topics are still deleted.
        """
        GROUP_ID("group_id", group_id)
        wanted = NAMED_TOPICS("topics", topics)
        deadline = self._calls.deadline(timeout_ms)

        async def ask(connection: Connection, pending: Mapping[str, None]) -> Mapping[str, KafkaError | None]:
            named = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in pending]
            request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=named)
            response = await connection.request(request, timeout_ms=deadline.request_ms())
            if response.error_code:
                raise failure(response.error_code, called(group_id), response.error_message)
            return {
                topic.topic_name: outcome(None, topic.error_code, f"topic {topic.topic_name!r}", topic.error_message)
                for topic in response.responses
            }

        await self._calls.at_coordinator(group_id, ask, dict.fromkeys(wanted), deadline)

    async def _start_offsets(
        self, group_id: str, partitions: Collection[TopicPartition] | None, deadline: Deadline
    ) -> dict[TopicPartition, ShareGroupOffset | None]:
        """Return a group's start offset by partition, for all its partitions if ``partitions`` is None."""

        async def ask(
            connection: Connection, pending: Iterable[TopicPartition] | None
        ) -> Mapping[TopicPartition, ShareGroupOffset | KafkaError | None]:
            topics = None
            if pending is not None:
                topics = indexes_by_topic(
                    pending,
                    lambda name, indexes: DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes),
                )
            asked = DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)
            request = DescribeShareGroupOffsetsRequest(groups=[asked])
            response = await connection.request(request, timeout_ms=deadline.request_ms())
            found: dict[TopicPartition, ShareGroupOffset | KafkaError | None] = dict.fromkeys(pending or ())
            for group in response.groups:
                if group.error_code:
                    raise failure(group.error_code, called(group_id), group.error_message)
                for topic in group.topics:
                    for entry in topic.partitions:
                        where = TopicPartition(topic.topic_name, entry.partition_index)
                        found[where] = outcome(_offset(entry), entry.error_code, str(where), entry.error_message)
            return found

        return await self._of_partitions(group_id, partitions, ask, deadline)

    async def _alter_start_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], deadline: Deadline
    ) -> None:
        """Set the start offsets of a share group without members."""

        async def ask(
            connection: Connection, pending: Mapping[TopicPartition, int]
        ) -> Mapping[TopicPartition, KafkaError | None]:
            topics = by_topic(
                pending,
                lambda partition, offset: AlterShareGroupOffsetsRequestPartition(
                    partition_index=partition, start_offset=offset
                ),
                lambda name, entries: AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=entries),
            )
            request = AlterShareGroupOffsetsRequest(group_id=group_id, topics=topics)
            response = await connection.request(request, timeout_ms=deadline.request_ms())
            if response.error_code:
                raise failure(response.error_code, called(group_id), response.error_message)
            found: dict[TopicPartition, KafkaError | None] = {}
            for topic in response.responses:
                for entry in topic.partitions:
                    where = TopicPartition(topic.topic_name, entry.partition_index)
                    found[where] = outcome(None, entry.error_code, str(where), entry.error_message)
            return found

        await self._calls.at_coordinator(group_id, ask, offsets, deadline)


def _group(group: DescribedGroup, broker: int) -> ShareGroupDescription:
    members = tuple(
        ShareMemberDescription(
            member.member_id,
            member.client_id,
            member.client_host,
            member.member_epoch,
            member.rack_id,
            tuple(member.subscribed_topic_names),
            partitions_of(member.assignment.topic_partitions),
        )
        for member in group.members
    )
    return ShareGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        members,
        broker,
        group.group_epoch,
        group.assignment_epoch,
        group.assignor_name,
        operations_of(group.authorized_operations),
    )


def _offset(entry: DescribeShareGroupOffsetsResponsePartition) -> ShareGroupOffset | None:
    if entry.start_offset < 0:
        return None
    epoch = entry.leader_epoch if entry.leader_epoch >= 0 else None
    return ShareGroupOffset(entry.start_offset, epoch, entry.lag if entry.lag >= 0 else None)
