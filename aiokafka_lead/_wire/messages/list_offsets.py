"""ListOffsets (API key 2), versions 1-11.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp")
    FIELDS = (
        "partition_index int32 0+",
        "current_leader_epoch int32 4+ = -1 ignorable",
        "timestamp int64 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.current_leader_epoch: int = current_leader_epoch
        self.timestamp: int = timestamp


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []ListOffsetsPartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[ListOffsetsPartition] = [] if partitions is DEFAULT else partitions


class ListOffsetsPartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "timestamp", "offset", "leader_epoch")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "timestamp int64 1+ = -1",
        "offset int64 1+ = -1",
        "leader_epoch int32 4+ = -1",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        timestamp: int = -1,
        offset: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.timestamp: int = timestamp
        self.offset: int = offset
        self.leader_epoch: int = leader_epoch


class ListOffsetsTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []ListOffsetsPartitionResponse 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ListOffsetsPartitionResponse] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[ListOffsetsPartitionResponse] = [] if partitions is DEFAULT else partitions


class ListOffsetsResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 2+ ignorable",
        "topics []ListOffsetsTopicResponse 0+",
    )
    NAME = "ListOffsets"
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[ListOffsetsTopicResponse] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[ListOffsetsTopicResponse] = [] if topics is DEFAULT else topics


class ListOffsetsRequest(Request[ListOffsetsResponse]):
    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms")
    FIELDS = (
        "replica_id int32 0+",
        "isolation_level int8 2+",
        "topics []ListOffsetsTopic 0+",
        "timeout_ms int32 10+ ignorable",
    )
    NAME = "ListOffsets"
    API_KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6
    RESPONSE = ListOffsetsResponse

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = DEFAULT,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id: int = replica_id
        self.isolation_level: int = isolation_level
        self.topics: list[ListOffsetsTopic] = [] if topics is DEFAULT else topics
        self.timeout_ms: int = timeout_ms
