"""DescribeTopicPartitions (API key 75), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class TopicRequest(Struct):
    __slots__ = ("name",)
    FIELDS = ("name string 0+",)

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name: str = name


class RequestCursor(Struct):
    __slots__ = ("topic_name", "partition_index")
    FIELDS = (
        "topic_name string 0+",
        "partition_index int32 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name: str = topic_name
        self.partition_index: int = partition_index


class DescribeTopicPartitionsResponsePartition(Struct):
    __slots__ = (
        "error_code",
        "partition_index",
        "leader_id",
        "leader_epoch",
        "replica_nodes",
        "isr_nodes",
        "eligible_leader_replicas",
        "last_known_elr",
        "offline_replicas",
    )
    FIELDS = (
        "error_code int16 0+",
        "partition_index int32 0+",
        "leader_id int32 0+",
        "leader_epoch int32 0+ = -1 ignorable",
        "replica_nodes []int32 0+",
        "isr_nodes []int32 0+",
        "eligible_leader_replicas []int32 0+ null 0+ = null",
        "last_known_elr []int32 0+ null 0+ = null",
        "offline_replicas []int32 0+ ignorable",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = -1,
        replica_nodes: list[int] = DEFAULT,
        isr_nodes: list[int] = DEFAULT,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
        offline_replicas: list[int] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.partition_index: int = partition_index
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.replica_nodes: list[int] = [] if replica_nodes is DEFAULT else replica_nodes
        self.isr_nodes: list[int] = [] if isr_nodes is DEFAULT else isr_nodes
        self.eligible_leader_replicas: list[int] | None = eligible_leader_replicas
        self.last_known_elr: list[int] | None = last_known_elr
        self.offline_replicas: list[int] = [] if offline_replicas is DEFAULT else offline_replicas


class DescribeTopicPartitionsResponseTopic(Struct):
    __slots__ = ("error_code", "name", "topic_id", "is_internal", "partitions", "topic_authorized_operations")
    FIELDS = (
        "error_code int16 0+",
        "name string 0+ null 0+",
        "topic_id uuid 0+ ignorable",
        "is_internal bool 0+ = false ignorable",
        "partitions []DescribeTopicPartitionsResponsePartition 0+",
        "topic_authorized_operations int32 0+ = -2147483648",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        is_internal: bool = False,
        partitions: list[DescribeTopicPartitionsResponsePartition] = DEFAULT,
        topic_authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.name: str | None = name
        self.topic_id: UUID = topic_id
        self.is_internal: bool = is_internal
        self.partitions: list[DescribeTopicPartitionsResponsePartition] = [] if partitions is DEFAULT else partitions
        self.topic_authorized_operations: int = topic_authorized_operations


class ResponseCursor(Struct):
    __slots__ = ("topic_name", "partition_index")
    FIELDS = (
        "topic_name string 0+",
        "partition_index int32 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partition_index: int = 0,
    ) -> None:
        self.topic_name: str = topic_name
        self.partition_index: int = partition_index


class DescribeTopicPartitionsResponse(Response):
    __slots__ = ("throttle_time_ms", "topics", "next_cursor")
    FIELDS = (
        "throttle_time_ms int32 0+ ignorable",
        "topics []DescribeTopicPartitionsResponseTopic 0+",
        "next_cursor ResponseCursor 0+ null 0+ = null",
    )
    NAME = "DescribeTopicPartitions"
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DescribeTopicPartitionsResponseTopic] = DEFAULT,
        next_cursor: ResponseCursor | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DescribeTopicPartitionsResponseTopic] = [] if topics is DEFAULT else topics
        self.next_cursor: ResponseCursor | None = next_cursor


class DescribeTopicPartitionsRequest(Request[DescribeTopicPartitionsResponse]):
    __slots__ = ("topics", "response_partition_limit", "cursor")
    FIELDS = (
        "topics []TopicRequest 0+",
        "response_partition_limit int32 0+ = 2000",
        "cursor RequestCursor 0+ null 0+ = null",
    )
    NAME = "DescribeTopicPartitions"
    API_KEY = 75
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeTopicPartitionsResponse

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = DEFAULT,
        response_partition_limit: int = 2000,
        cursor: RequestCursor | None = None,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is DEFAULT else topics
        self.response_partition_limit: int = response_partition_limit
        self.cursor: RequestCursor | None = cursor
