"""Share groups and their offsets (KIP-932)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from .._io.connection.connection import Connection
from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
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
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponsePartition,
)
from .._wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from ..errors import KafkaError, raise_for_code
from ..types import TopicPartition
from ._calls import Calls, failure, outcome, successes
from ._groups import called, operations
from ._partitions import by_topic
from ._targets import named_partitions, targets
from .group_types import (
    GroupState,
    ResetTo,
    ShareGroupDescription,
    ShareGroupOffset,
    ShareMemberDescription,
    StartOffsetChange,
)


async def describe(
    calls: Calls, group_ids: Iterable[str], with_operations: bool, deadline: Deadline
) -> dict[str, ShareGroupDescription]:
    """Share groups by id."""

    def build(mine: Sequence[str]) -> ShareGroupDescribeRequest:
        return ShareGroupDescribeRequest(group_ids=list(mine), include_authorized_operations=with_operations)

    def read(
        broker: int, response: ShareGroupDescribeResponse
    ) -> Iterator[tuple[str, ShareGroupDescription | KafkaError]]:
        for group in response.groups:
            described = _group(group, broker)
            yield group.group_id, outcome(described, group.error_code, called(group.group_id), group.error_message)

    return await calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, read, deadline)


def _group(group: DescribedGroup, broker: int) -> ShareGroupDescription:
    members = tuple(
        ShareMemberDescription(
            member.member_id,
            member.client_id,
            member.client_host,
            member.member_epoch,
            member.rack_id,
            tuple(member.subscribed_topic_names),
            tuple(
                TopicPartition(topic.topic_name, partition)
                for topic in member.assignment.topic_partitions
                for partition in topic.partitions
            ),
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
        operations(group.authorized_operations),
    )


async def offsets(
    calls: Calls, group_id: str, partitions: Collection[TopicPartition] | None, deadline: Deadline
) -> dict[TopicPartition, ShareGroupOffset | None]:
    """Where a group begins in each partition; None asks for all that it has."""
    topics = None
    if partitions is not None:
        topics = by_topic(
            dict.fromkeys(partitions),
            lambda partition, _: partition,
            lambda name, indexes: DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=indexes),
        )

    def build(mine: str) -> DescribeShareGroupOffsetsRequest:
        return DescribeShareGroupOffsetsRequest(
            groups=[DescribeShareGroupOffsetsRequestGroup(group_id=mine, topics=topics)]
        )

    def read(
        mine: str, _: int, response: DescribeShareGroupOffsetsResponse
    ) -> dict[TopicPartition, ShareGroupOffset | KafkaError | None] | KafkaError:
        found: dict[TopicPartition, ShareGroupOffset | KafkaError | None] = {}
        for group in response.groups:
            if group.error_code:
                return failure(group.error_code, called(mine), group.error_message)
            for topic in group.topics:
                for entry in topic.partitions:
                    where = TopicPartition(topic.topic_name, entry.partition_index)
                    found[where] = outcome(_offset(entry), entry.error_code, str(where), entry.error_message)
        return found

    answers = await calls.by_coordinator(CoordinatorKind.GROUP, [group_id], build, read, deadline)
    found = successes(answers[group_id])
    return found if partitions is None else {where: found.get(where) for where in partitions}


def _offset(entry: DescribeShareGroupOffsetsResponsePartition) -> ShareGroupOffset | None:
    if entry.start_offset < 0:
        return None
    epoch = entry.leader_epoch if entry.leader_epoch >= 0 else None
    return ShareGroupOffset(entry.start_offset, epoch, entry.lag if entry.lag >= 0 else None)


async def alter(calls: Calls, group_id: str, offsets: Mapping[TopicPartition, int], deadline: Deadline) -> None:
    """Let a share group without members begin elsewhere."""

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
        raise_for_code(response.error_code, response.error_message or "")
        found: dict[TopicPartition, KafkaError | None] = {}
        for topic in response.responses:
            for entry in topic.partitions:
                where = TopicPartition(topic.topic_name, entry.partition_index)
                found[where] = outcome(None, entry.error_code, str(where), entry.error_message)
        return found

    await calls.at_coordinator(group_id, ask, offsets, deadline)


async def reset(
    calls: Calls,
    group_id: str,
    to: ResetTo,
    topics: Collection[str] | None,
    partitions: Collection[TopicPartition] | None,
    dry_run: bool,
    deadline: Deadline,
) -> dict[TopicPartition, StartOffsetChange]:
    """Where each partition's records begin from then on; they do unless this is a dry run."""
    wanted = await named_partitions(calls, topics, partitions, deadline)
    found = await offsets(calls, group_id, wanted, deadline)
    before = {where: None if each is None else each.start_offset for where, each in found.items()}
    changes = {
        where: StartOffsetChange(before[where], target.offset)
        for where, target in (await targets(calls, before, to, deadline)).items()
    }
    if not dry_run and changes:
        await alter(calls, group_id, {where: change.after for where, change in changes.items()}, deadline)
    return changes


async def delete_offsets(calls: Calls, group_id: str, topics: Iterable[str], deadline: Deadline) -> None:
    """Forget what a share group without members knows of topics."""

    async def ask(connection: Connection, pending: Mapping[str, None]) -> Mapping[str, KafkaError | None]:
        wanted = [DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in pending]
        request = DeleteShareGroupOffsetsRequest(group_id=group_id, topics=wanted)
        response = await connection.request(request, timeout_ms=deadline.request_ms())
        raise_for_code(response.error_code, response.error_message or "")
        return {
            topic.topic_name: outcome(None, topic.error_code, f"topic {topic.topic_name!r}", topic.error_message)
            for topic in response.responses
        }

    await calls.at_coordinator(group_id, ask, dict.fromkeys(topics), deadline)
