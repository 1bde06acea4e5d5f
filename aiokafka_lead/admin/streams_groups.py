"""Kafka Streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from .._core.admin import outcome
from .._io.group.coordinators import CoordinatorKind
from .._options.checks import boolean
from .._wire.messages import streams_group_describe as wire
from ..errors import KafkaError
from ..types import OffsetAndMetadata, TopicPartition
from .acls import AclOperation, operations_of
from .base import GROUP_IDS, called
from .groups import GroupCalls, GroupState
from .offsets import OffsetCalls

_KINDS: Mapping[int, Literal["source", "processor", "sink"]] = {1: "source", 2: "processor", 3: "sink"}


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    """Tasks of a member of a streams group: the partitions of each subtopology."""

    active: Mapping[str, tuple[int, ...]]
    """Tasks that process records."""
    standby: Mapping[str, tuple[int, ...]]
    """Tasks that keep copies of state stores, for a fast failover."""
    warmup: Mapping[str, tuple[int, ...]]
    """Tasks that restore their state stores before they become active."""


@dataclass(frozen=True, slots=True)
class StreamsMemberDescription:
    """A member of a streams group, which is a thread of a Kafka Streams application."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    rack: str | None
    member_epoch: int
    topology_epoch: int
    """Epoch of the topology that the member runs."""
    process_id: str
    """Id of the process, which may run several members."""
    endpoint: tuple[str, int] | None
    """Host and port of the process for interactive queries, or None."""
    client_tags: Mapping[str, str]
    """Tags for the rack-aware assignment of tasks."""
    assignment: StreamsTasks
    target_assignment: StreamsTasks
    is_classic: bool


@dataclass(frozen=True, slots=True)
class StreamsSubtopology:
    """A part of a topology that is connected to the other parts only through topics."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    """Topics that it reads."""
    repartition_sink_topics: tuple[str, ...]
    """Repartition topics that it writes."""
    repartition_source_topics: tuple[str, ...]
    """Repartition topics that it reads."""
    state_changelog_topics: tuple[str, ...]
    """Changelog topics of its state stores."""


@dataclass(frozen=True, slots=True)
class StreamsNode:
    """A node of a topology, which reads topics, processes records, or writes to a topic."""

    name: str
    kind: Literal["source", "processor", "sink", "unknown"]
    """"unknown" for a kind that this client does not know."""
    source_topics: tuple[str, ...]
    sink_topic: str | None
    stores: tuple[str, ...]
    """Names of the state stores that it uses."""
    successors: tuple[str, ...]
    """Names of the nodes that receive its records."""


@dataclass(frozen=True, slots=True)
class StreamsTopology:
    """A topology as described by the application: nodes by subtopology, and global stores (KIP-1331)."""

    subtopologies: Mapping[str, tuple[StreamsNode, ...]]
    global_stores: tuple[tuple[StreamsNode, StreamsNode], ...]
    """Source and processor of each global store."""


class StreamsTopologyStatus(IntEnum):
    """Status of the topology in the description of a group."""

    NOT_REQUESTED = 0
    NOT_STORED = 1
    """The brokers store no topologies, or the application has not described its topology."""
    ERROR = 2
    """The broker could not read the topology; see its log."""
    AVAILABLE = 3
    UNKNOWN = -1
    """A status that this client does not know."""

    @classmethod
    def _missing_(cls, value: object) -> StreamsTopologyStatus:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A Kafka Streams group, as returned by `AdminClient.describe_streams_groups` (KIP-1071)."""

    group_id: str
    state: GroupState
    members: tuple[StreamsMemberDescription, ...]
    coordinator_id: int
    group_epoch: int
    """Number that increases with each change that needs a new assignment."""
    target_assignment_epoch: int
    """Value of ``group_epoch`` for which the latest assignment was computed."""
    topology_epoch: int | None
    """None before a member has described its topology."""
    subtopologies: tuple[StreamsSubtopology, ...]
    authorized_operations: frozenset[AclOperation] | None = None
    """Operations that this user may perform on the group. None unless they were requested."""
    assignor: str | None = None
    """None if the broker does not report it (before Kafka 4.4)."""
    topology: StreamsTopology | None = None
    """None unless its status is AVAILABLE."""
    topology_status: StreamsTopologyStatus = StreamsTopologyStatus.NOT_REQUESTED


class StreamsGroupCalls(OffsetCalls, GroupCalls):
    """Admin calls for Kafka Streams groups (KIP-1071). Their offsets are stored like offsets of consumer groups."""

    async def describe_streams_groups(
        self,
        group_ids: Iterable[str],
        *,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[str, StreamsGroupDescription]:
        """Return the descriptions of Kafka Streams groups by group id (KIP-1071, Kafka 4.1).

        With ``include_authorized_operations``, a description includes the operations on the group that this user may
        perform. With ``include_topology_description``, it includes the application's topology with its nodes
        (KIP-1331). The call then raises `UnsupportedVersionError` if the brokers are older than Kafka 4.4.

        Raises `GroupIdNotFoundError` if a group does not exist or is of another type. The error's ``outcomes`` contain
        the descriptions of the other groups.
        """
        ids = GROUP_IDS("group_ids", group_ids)
        boolean("include_authorized_operations", include_authorized_operations)
        boolean("include_topology_description", include_topology_description)
        deadline = self._calls.deadline(timeout_ms)

        def build(mine: Sequence[str]) -> wire.StreamsGroupDescribeRequest:
            return wire.StreamsGroupDescribeRequest(
                group_ids=list(mine),
                include_authorized_operations=include_authorized_operations,
                include_topology_description=include_topology_description,
            )

        def read(
            broker: int, response: wire.StreamsGroupDescribeResponse
        ) -> Iterator[tuple[str, StreamsGroupDescription | KafkaError]]:
            for group in response.groups:
                name, found = group.group_id, described(group, broker)
                yield name, outcome(found, group.error_code, called(name), group.error_message)

        return await self._calls.by_coordinators(CoordinatorKind.GROUP, ids, build, read, deadline)

    async def delete_streams_groups(self, group_ids: Iterable[str], *, timeout_ms: float | None = None) -> None:
        """Delete Kafka Streams groups. Java's name for `delete_consumer_groups`."""
        await self.delete_consumer_groups(group_ids, timeout_ms=timeout_ms)

    async def list_streams_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        require_stable: bool = False,
        timeout_ms: float | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of a group. Java's name for `list_consumer_group_offsets`."""
        return await self.list_consumer_group_offsets(
            group_id, partitions, require_stable=require_stable, timeout_ms=timeout_ms
        )

    async def alter_streams_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Set the committed offsets of a group. Java's name for `alter_consumer_group_offsets`."""
        await self.alter_consumer_group_offsets(group_id, offsets, timeout_ms=timeout_ms)

    async def delete_streams_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition], *, timeout_ms: float | None = None
    ) -> None:
        """Delete committed offsets of a group. Java's name for `delete_consumer_group_offsets`."""
        await self.delete_consumer_group_offsets(group_id, partitions, timeout_ms=timeout_ms)


def described(group: wire.DescribedGroup, broker: int) -> StreamsGroupDescription:
    """Convert the coordinator's description of a group. ``broker`` is the coordinator's node id."""
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
        operations_of(group.authorized_operations),
        group.assignor_name,
        None if group.topology_description is None else _topology(group.topology_description),
        StreamsTopologyStatus(group.topology_description_status),
    )


def _topology(found: wire.TopologyDescription) -> StreamsTopology:
    return StreamsTopology(
        {part.subtopology_id: tuple(map(_node, part.nodes)) for part in found.subtopologies},
        tuple((_node(store.source), _node(store.processor)) for store in found.global_stores),
    )


def _node(node: wire.TopologyDescriptionNode) -> StreamsNode:
    return StreamsNode(
        node.name,
        _KINDS.get(node.node_type, "unknown"),
        tuple(node.source_topics),
        node.sink_topic,
        tuple(node.stores),
        tuple(node.successors),
    )


def _member(member: wire.Member) -> StreamsMemberDescription:
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


def _tasks(assignment: wire.Assignment) -> StreamsTasks:
    def by_subtopology(tasks: Iterable[wire.TaskIds]) -> dict[str, tuple[int, ...]]:
        return {task.subtopology_id: tuple(task.partitions) for task in tasks}

    return StreamsTasks(
        by_subtopology(assignment.active_tasks),
        by_subtopology(assignment.standby_tasks),
        by_subtopology(assignment.warmup_tasks),
    )


def _subtopology(part: wire.Subtopology) -> StreamsSubtopology:
    return StreamsSubtopology(
        part.subtopology_id,
        tuple(part.source_topics),
        tuple(part.repartition_sink_topics),
        tuple(topic.name for topic in part.repartition_source_topics),
        tuple(topic.name for topic in part.state_changelog_topics),
    )
