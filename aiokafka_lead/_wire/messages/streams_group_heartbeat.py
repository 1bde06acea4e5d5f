"""StreamsGroupHeartbeat (API key 88), versions 0-1.

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


class CopartitionGroup(Struct):
    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")
    FIELDS = (
        "source_topics []int16 0+",
        "source_topic_regex []int16 0+",
        "repartition_source_topics []int16 0+",
    )

    def __init__(
        self,
        *,
        source_topics: list[int] = DEFAULT,
        source_topic_regex: list[int] = DEFAULT,
        repartition_source_topics: list[int] = DEFAULT,
    ) -> None:
        self.source_topics: list[int] = [] if source_topics is DEFAULT else source_topics
        self.source_topic_regex: list[int] = [] if source_topic_regex is DEFAULT else source_topic_regex
        self.repartition_source_topics: list[int] = (
            [] if repartition_source_topics is DEFAULT else repartition_source_topics
        )


class Subtopology(Struct):
    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )
    FIELDS = (
        "subtopology_id string 0+",
        "source_topics []string 0+",
        "source_topic_regex []string 0+",
        "state_changelog_topics []TopicInfo 0+",
        "repartition_sink_topics []string 0+",
        "repartition_source_topics []TopicInfo 0+",
        "copartition_groups []CopartitionGroup 0+",
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = DEFAULT,
        source_topic_regex: list[str] = DEFAULT,
        state_changelog_topics: list[TopicInfo] = DEFAULT,
        repartition_sink_topics: list[str] = DEFAULT,
        repartition_source_topics: list[TopicInfo] = DEFAULT,
        copartition_groups: list[CopartitionGroup] = DEFAULT,
    ) -> None:
        self.subtopology_id: str = subtopology_id
        self.source_topics: list[str] = [] if source_topics is DEFAULT else source_topics
        self.source_topic_regex: list[str] = [] if source_topic_regex is DEFAULT else source_topic_regex
        self.state_changelog_topics: list[TopicInfo] = (
            [] if state_changelog_topics is DEFAULT else state_changelog_topics
        )
        self.repartition_sink_topics: list[str] = [] if repartition_sink_topics is DEFAULT else repartition_sink_topics
        self.repartition_source_topics: list[TopicInfo] = (
            [] if repartition_source_topics is DEFAULT else repartition_source_topics
        )
        self.copartition_groups: list[CopartitionGroup] = [] if copartition_groups is DEFAULT else copartition_groups


class Topology(Struct):
    __slots__ = ("epoch", "subtopologies")
    FIELDS = (
        "epoch int32 0+",
        "subtopologies []Subtopology 0+",
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] = DEFAULT,
    ) -> None:
        self.epoch: int = epoch
        self.subtopologies: list[Subtopology] = [] if subtopologies is DEFAULT else subtopologies


class RequestTaskIds(Struct):
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


class RequestEndpoint(Struct):
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


class Status(Struct):
    __slots__ = ("status_code", "status_detail")
    FIELDS = (
        "status_code int8 0+",
        "status_detail string 0+",
    )

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code: int = status_code
        self.status_detail: str = status_detail


class ResponseTaskIds(Struct):
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


class ResponseEndpoint(Struct):
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


class TopicPartition(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class EndpointToPartitions(Struct):
    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")
    FIELDS = (
        "user_endpoint ResponseEndpoint 0+",
        "active_partitions []TopicPartition 0+",
        "standby_partitions []TopicPartition 0+",
    )

    def __init__(
        self,
        *,
        user_endpoint: ResponseEndpoint = DEFAULT,
        active_partitions: list[TopicPartition] = DEFAULT,
        standby_partitions: list[TopicPartition] = DEFAULT,
    ) -> None:
        self.user_endpoint: ResponseEndpoint = ResponseEndpoint() if user_endpoint is DEFAULT else user_endpoint
        self.active_partitions: list[TopicPartition] = [] if active_partitions is DEFAULT else active_partitions
        self.standby_partitions: list[TopicPartition] = [] if standby_partitions is DEFAULT else standby_partitions


class StreamsGroupHeartbeatResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag_legacy",
        "task_offset_interval_ms",
        "acceptable_recovery_lag",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "topology_description_required",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "member_id string 0+",
        "member_epoch int32 0+",
        "heartbeat_interval_ms int32 0+",
        "acceptable_recovery_lag_legacy int32 0",
        "task_offset_interval_ms int32 0+",
        "acceptable_recovery_lag int64 1+ = -1 ignorable",
        "status []Status 0+ null 0+",
        "active_tasks []ResponseTaskIds 0+ null 0+ = null",
        "standby_tasks []ResponseTaskIds 0+ null 0+ = null",
        "warmup_tasks []ResponseTaskIds 0+ null 0+ = null",
        "topology_description_required bool 1+ = false",
        "endpoint_information_epoch int32 0+",
        "partitions_by_user_endpoint []EndpointToPartitions 0+ null 0+ = null",
    )
    NAME = "StreamsGroupHeartbeat"
    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag_legacy: int = 0,
        task_offset_interval_ms: int = 0,
        acceptable_recovery_lag: int = -1,
        status: list[Status] | None = DEFAULT,
        active_tasks: list[ResponseTaskIds] | None = None,
        standby_tasks: list[ResponseTaskIds] | None = None,
        warmup_tasks: list[ResponseTaskIds] | None = None,
        topology_description_required: bool = False,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.acceptable_recovery_lag_legacy: int = acceptable_recovery_lag_legacy
        self.task_offset_interval_ms: int = task_offset_interval_ms
        self.acceptable_recovery_lag: int = acceptable_recovery_lag
        self.status: list[Status] | None = [] if status is DEFAULT else status
        self.active_tasks: list[ResponseTaskIds] | None = active_tasks
        self.standby_tasks: list[ResponseTaskIds] | None = standby_tasks
        self.warmup_tasks: list[ResponseTaskIds] | None = warmup_tasks
        self.topology_description_required: bool = topology_description_required
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.partitions_by_user_endpoint: list[EndpointToPartitions] | None = partitions_by_user_endpoint


class StreamsGroupHeartbeatRequest(Request[StreamsGroupHeartbeatResponse]):
    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )
    FIELDS = (
        "group_id string 0+",
        "member_id string 0+",
        "member_epoch int32 0+",
        "endpoint_information_epoch int32 0+",
        "instance_id string 0+ null 0+ = null",
        "rack_id string 0+ null 0+ = null",
        "rebalance_timeout_ms int32 0+ = -1",
        "topology Topology 0+ null 0+ = null",
        "active_tasks []RequestTaskIds 0+ null 0+ = null",
        "standby_tasks []RequestTaskIds 0+ null 0+ = null",
        "warmup_tasks []RequestTaskIds 0+ null 0+ = null",
        "process_id string 0+ null 0+ = null",
        "user_endpoint RequestEndpoint 0+ null 0+ = null",
        "client_tags []KeyValue 0+ null 0+ = null",
        "task_offsets []TaskOffset 0+ null 0+ = null",
        "task_end_offsets []TaskOffset 0+ null 0+ = null",
        "shutdown_application bool 0+ = false",
    )
    NAME = "StreamsGroupHeartbeat"
    API_KEY = 88
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = StreamsGroupHeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[RequestTaskIds] | None = None,
        standby_tasks: list[RequestTaskIds] | None = None,
        warmup_tasks: list[RequestTaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: RequestEndpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.endpoint_information_epoch: int = endpoint_information_epoch
        self.instance_id: str | None = instance_id
        self.rack_id: str | None = rack_id
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.topology: Topology | None = topology
        self.active_tasks: list[RequestTaskIds] | None = active_tasks
        self.standby_tasks: list[RequestTaskIds] | None = standby_tasks
        self.warmup_tasks: list[RequestTaskIds] | None = warmup_tasks
        self.process_id: str | None = process_id
        self.user_endpoint: RequestEndpoint | None = user_endpoint
        self.client_tags: list[KeyValue] | None = client_tags
        self.task_offsets: list[TaskOffset] | None = task_offsets
        self.task_end_offsets: list[TaskOffset] | None = task_end_offsets
        self.shutdown_application: bool = shutdown_application
