"""StreamsGroupDescribe (API key 89), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class KeyValue(Struct):
    __slots__ = ("key", "value")
    FIELDS = (
        "key string 0+",
        "value string 0+",
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key: str = key
        self.value: str = value


class TopicInfo(Struct):
    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")
    FIELDS = (
        "name string 0+",
        "partitions int32 0+",
        "replication_factor int16 0+",
        "topic_configs []KeyValue 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: int = partitions
        self.replication_factor: int = replication_factor
        self.topic_configs: list[KeyValue] = [] if topic_configs is DEFAULT else topic_configs


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )
    FIELDS = (
        "subtopology_id string 0+",
        "source_topics []string 0+",
        "repartition_sink_topics []string 0+",
        "state_changelog_topics []TopicInfo 0+",
        "repartition_source_topics []TopicInfo 0+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = DEFAULT,
        repartition_sink_topics: list[str] = DEFAULT,
        state_changelog_topics: list[TopicInfo] = DEFAULT,
        repartition_source_topics: list[TopicInfo] = DEFAULT,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.source_topics: list[str] = [] if source_topics is DEFAULT else source_topics
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is DEFAULT else repartition_sink_topics
        self.state_changelog_topics: list[TopicInfo] = (
            [] if state_changelog_topics is DEFAULT else state_changelog_topics
        )
        self.repartition_source_topics: list[TopicInfo] = (
            [] if repartition_source_topics is DEFAULT else repartition_source_topics
        )


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    FIELDS = (
        "epoch int32 0+",
        "subtopologies []Subtopology 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch: int = epoch
        self.subtopologies: list[Subtopology] | None = subtopologies


class Endpoint(Struct):
    __slots__ = ("host", "port")
    FIELDS = (
        "host string 0+",
        "port uint16 0+",
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host: str = host
        self.port: int = port


class TaskOffset(Struct):
    __slots__ = ("subtopology_id", "partition", "offset")
    FIELDS = (
        "subtopology_id string 0+",
        "partition int32 0+",
        "offset int64 0+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.partition: int = partition
        self.offset: int = offset


class TaskIds(Struct):
    __slots__ = ("subtopology_id", "partitions")
    FIELDS = (
        "subtopology_id string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class Assignment(Struct):
    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")
    FIELDS = (
        "active_tasks []TaskIds 0+",
        "standby_tasks []TaskIds 0+",
        "warmup_tasks []TaskIds 0+",
    )

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] = DEFAULT,
        standby_tasks: list[TaskIds] = DEFAULT,
        warmup_tasks: list[TaskIds] = DEFAULT,
    ) -> None:
        self.active_tasks: list[TaskIds] = [] if active_tasks is DEFAULT else active_tasks
        self.standby_tasks: list[TaskIds] = [] if standby_tasks is DEFAULT else standby_tasks
        self.warmup_tasks: list[TaskIds] = [] if warmup_tasks is DEFAULT else warmup_tasks


class Member(Struct):
    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )
    FIELDS = (
        "member_id string 0+",
        "member_epoch int32 0+",
        "instance_id string 0+ null 0+ = null",
        "rack_id string 0+ null 0+ = null",
        "client_id string 0+",
        "client_host string 0+",
        "topology_epoch int32 0+",
        "process_id string 0+",
        "user_endpoint Endpoint 0+ null 0+ = null",
        "client_tags []KeyValue 0+",
        "task_offsets []TaskOffset 0+",
        "task_end_offsets []TaskOffset 0+",
        "assignment Assignment 0+",
        "target_assignment Assignment 0+",
        "is_classic bool 0+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = DEFAULT,
        task_offsets: list[TaskOffset] = DEFAULT,
        task_end_offsets: list[TaskOffset] = DEFAULT,
        assignment: Assignment = DEFAULT,
        target_assignment: Assignment = DEFAULT,
        is_classic: bool = False,
    ) -> None:
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.topology_epoch: int = topology_epoch
        self.process_id: str = process_id
        self.user_endpoint: Endpoint | None = user_endpoint
        self.client_tags: list[KeyValue] = [] if client_tags is DEFAULT else client_tags
        self.task_offsets: list[TaskOffset] = [] if task_offsets is DEFAULT else task_offsets
        self.task_end_offsets: list[TaskOffset] = [] if task_end_offsets is DEFAULT else task_end_offsets
        self.assignment: Assignment = Assignment() if assignment is DEFAULT else assignment
        self.target_assignment: Assignment = Assignment() if target_assignment is DEFAULT else target_assignment
        self.is_classic: bool = is_classic


class TopologyDescriptionNode(Struct):
    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")
    FIELDS = (
        "name string 1+",
        "node_type int8 1+",
        "source_topics []string 1+",
        "sink_topic string 1+ null 1+ = null",
        "stores []string 1+",
        "successors []string 1+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = DEFAULT,
        sink_topic: str | None = None,
        stores: list[str] = DEFAULT,
        successors: list[str] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.node_type: int = node_type
        self.source_topics: list[str] = [] if source_topics is DEFAULT else source_topics
        self.sink_topic: str | None = sink_topic
        self.stores: list[str] = [] if stores is DEFAULT else stores
        self.successors: list[str] = [] if successors is DEFAULT else successors


class TopologyDescriptionSubtopology(Struct):
    __slots__ = ("subtopology_id", "nodes")
    FIELDS = (
        "subtopology_id string 1+",
        "nodes []TopologyDescriptionNode 1+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        nodes: list[TopologyDescriptionNode] = DEFAULT,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.nodes: list[TopologyDescriptionNode] = [] if nodes is DEFAULT else nodes


class TopologyDescriptionGlobalStore(Struct):
    __slots__ = ("source", "processor")
    FIELDS = (
        "source TopologyDescriptionNode 1+",
        "processor TopologyDescriptionNode 1+",
    )

    def __init__(
        self,
        *,
        source: TopologyDescriptionNode = DEFAULT,
        processor: TopologyDescriptionNode = DEFAULT,
    ) -> None:
        self.source: TopologyDescriptionNode = TopologyDescriptionNode() if source is DEFAULT else source
        self.processor: TopologyDescriptionNode = TopologyDescriptionNode() if processor is DEFAULT else processor


class TopologyDescription(Struct):
    __slots__ = ("subtopologies", "global_stores")
    FIELDS = (
        "subtopologies []TopologyDescriptionSubtopology 1+",
        "global_stores []TopologyDescriptionGlobalStore 1+",
    )

    def __init__(
        self,
        *,
        subtopologies: list[TopologyDescriptionSubtopology] = DEFAULT,
        global_stores: list[TopologyDescriptionGlobalStore] = DEFAULT,
    ) -> None:
        self.subtopologies: list[TopologyDescriptionSubtopology] = [] if subtopologies is DEFAULT else subtopologies
        self.global_stores: list[TopologyDescriptionGlobalStore] = [] if global_stores is DEFAULT else global_stores


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
        "topology_description",
        "topology_description_status",
        "assignor_name",
    )
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "group_id string 0+",
        "group_state string 0+",
        "group_epoch int32 0+",
        "assignment_epoch int32 0+",
        "topology Topology 0+ null 0+ = null",
        "members []Member 0+",
        "authorized_operations int32 0+ = -2147483648",
        "topology_description TopologyDescription 1+ null 1+ = null",
        "topology_description_status int8 1+ = 0",
        "assignor_name string 1+ null 1+ = null ignorable",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] = DEFAULT,
        authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.group_epoch: int = group_epoch
        self.assignment_epoch: int = assignment_epoch
        self.topology: Topology | None = topology
        self.members: list[Member] = [] if members is DEFAULT else members
        self.authorized_operations: int = authorized_operations
        self.topology_description: TopologyDescription | None = topology_description
        self.topology_description_status: int = topology_description_status
        self.assignor_name: str | None = assignor_name


class StreamsGroupDescribeResponse(Response):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "groups []DescribedGroup 0+",
    )
    NAME = "StreamsGroupDescribe"
    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is DEFAULT else groups


class StreamsGroupDescribeRequest(Request[StreamsGroupDescribeResponse]):
    __slots__ = ("group_ids", "include_authorized_operations", "include_topology_description")
    FIELDS = (
        "group_ids []string 0+",
        "include_authorized_operations bool 0+",
        "include_topology_description bool 1+ = false",
    )
    NAME = "StreamsGroupDescribe"
    API_KEY = 89
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = StreamsGroupDescribeResponse

    def __init__(
        self,
        *,
        group_ids: list[str] = DEFAULT,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is DEFAULT else group_ids
        self.include_authorized_operations: bool = include_authorized_operations
        self.include_topology_description: bool = include_topology_description
