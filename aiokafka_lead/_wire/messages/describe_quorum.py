"""DescribeQuorum (API key 55), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class RequestPartitionData(Struct):
    __slots__ = ("partition_index",)
    FIELDS = ("partition_index int32 0+",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index: int = partition_index


class RequestTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "partitions []RequestPartitionData 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[RequestPartitionData] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[RequestPartitionData] = [] if partitions is DEFAULT else partitions


class ReplicaState(Struct):
    __slots__ = (
        "replica_id",
        "replica_directory_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
    )
    FIELDS = (
        "replica_id int32 0+",
        "replica_directory_id uuid 2+",
        "log_end_offset int64 0+",
        "last_fetch_timestamp int64 1+ = -1 ignorable",
        "last_caught_up_timestamp int64 1+ = -1 ignorable",
    )

    def __init__(
        self,
        *,
        replica_id: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        log_end_offset: int = 0,
        last_fetch_timestamp: int = -1,
        last_caught_up_timestamp: int = -1,
    ) -> None:
        self.replica_id: int = replica_id
        self.replica_directory_id: UUID = replica_directory_id
        self.log_end_offset: int = log_end_offset
        self.last_fetch_timestamp: int = last_fetch_timestamp
        self.last_caught_up_timestamp: int = last_caught_up_timestamp


class ResponsePartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "leader_id",
        "leader_epoch",
        "high_watermark",
        "current_voters",
        "observers",
    )
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 2+ null 2+ ignorable",
        "leader_id int32 0+",
        "leader_epoch int32 0+",
        "high_watermark int64 0+",
        "current_voters []ReplicaState 0+",
        "observers []ReplicaState 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        leader_id: int = 0,
        leader_epoch: int = 0,
        high_watermark: int = 0,
        current_voters: list[ReplicaState] = DEFAULT,
        observers: list[ReplicaState] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch
        self.high_watermark: int = high_watermark
        self.current_voters: list[ReplicaState] = [] if current_voters is DEFAULT else current_voters
        self.observers: list[ReplicaState] = [] if observers is DEFAULT else observers


class ResponseTopicData(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "partitions []ResponsePartitionData 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[ResponsePartitionData] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[ResponsePartitionData] = [] if partitions is DEFAULT else partitions


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        "name string 2+",
        "host string 2+",
        "port uint16 2+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name: str = name
        self.host: str = host
        self.port: int = port


class Node(Struct):
    __slots__ = ("node_id", "listeners")
    FIELDS = (
        "node_id int32 2+",
        "listeners []Listener 2+",
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        listeners: list[Listener] = DEFAULT,
    ) -> None:
        self.node_id: int = node_id
        self.listeners: list[Listener] = [] if listeners is DEFAULT else listeners


class DescribeQuorumResponse(Response):
    __slots__ = ("error_code", "error_message", "topics", "nodes")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 2+ null 2+ ignorable",
        "topics []ResponseTopicData 0+",
        "nodes []Node 2+",
    )
    NAME = "DescribeQuorum"
    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[ResponseTopicData] = DEFAULT,
        nodes: list[Node] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[ResponseTopicData] = [] if topics is DEFAULT else topics
        self.nodes: list[Node] = [] if nodes is DEFAULT else nodes


class DescribeQuorumRequest(Request[DescribeQuorumResponse]):
    __slots__ = ("topics",)
    FIELDS = ("topics []RequestTopicData 0+",)
    NAME = "DescribeQuorum"
    API_KEY = 55
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeQuorumResponse

    def __init__(
        self,
        *,
        topics: list[RequestTopicData] = DEFAULT,
    ) -> None:
        self.topics: list[RequestTopicData] = [] if topics is DEFAULT else topics
