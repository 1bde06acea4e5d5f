"""Groups of Kafka Streams (KIP-1071). Their offsets are those of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .._io.deadline import Deadline
from .._io.group.coordinators import CoordinatorKind
from .._wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
)
from ..errors import KafkaError
from ._calls import Calls, outcome
from ._groups import called, operations
from .group_types import (
    GroupState,
    StreamsGroupDescription,
    StreamsMemberDescription,
    StreamsSubtopology,
    StreamsTasks,
)


async def describe(
    calls: Calls, group_ids: Iterable[str], with_operations: bool, deadline: Deadline
) -> dict[str, StreamsGroupDescription]:
    """Streams groups by id."""

    def build(mine: Sequence[str]) -> StreamsGroupDescribeRequest:
        return StreamsGroupDescribeRequest(group_ids=list(mine), include_authorized_operations=with_operations)

    def read(
        broker: int, response: StreamsGroupDescribeResponse
    ) -> Iterator[tuple[str, StreamsGroupDescription | KafkaError]]:
        for group in response.groups:
            described = _group(group, broker)
            yield group.group_id, outcome(described, group.error_code, called(group.group_id), group.error_message)

    return await calls.by_coordinators(CoordinatorKind.GROUP, group_ids, build, read, deadline)


def _group(group: DescribedGroup, broker: int) -> StreamsGroupDescription:
    topology = group.topology
    subtopologies = [] if topology is None else topology.subtopologies or []
    return StreamsGroupDescription(
        group.group_id,
        GroupState(group.group_state),
        tuple(map(_member, group.members)),
        broker,
        group.group_epoch,
        group.assignment_epoch,
        None if topology is None else topology.epoch,
        tuple(map(_subtopology, subtopologies)),
        operations(group.authorized_operations),
    )


def _member(member: Member) -> StreamsMemberDescription:
    endpoint = member.user_endpoint
    return StreamsMemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rack_id,
        member.member_epoch,
        member.topology_epoch,
        member.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        {tag.key: tag.value for tag in member.client_tags},
        _tasks(member.assignment),
        _tasks(member.target_assignment),
        member.is_classic,
    )


def _tasks(assignment: Assignment) -> StreamsTasks:
    def by_subtopology(tasks: Iterable[TaskIds]) -> dict[str, tuple[int, ...]]:
        return {task.subtopology_id: tuple(task.partitions) for task in tasks}

    return StreamsTasks(
        by_subtopology(assignment.active_tasks),
        by_subtopology(assignment.standby_tasks),
        by_subtopology(assignment.warmup_tasks),
    )


def _subtopology(part: Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(part.repartition_sink_topics),
        tuple(topic.name for topic in part.repartition_source_topics),
        tuple(topic.name for topic in part.state_changelog_topics),
    )
