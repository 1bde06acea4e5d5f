"""DescribeShareGroupOffsets (API key 90), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class DescribeShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class DescribeShareGroupOffsetsRequestGroup(Struct):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        "group_id string 0+",
        "topics []DescribeShareGroupOffsetsRequestTopic 0+ null 0+",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsRequestTopic] | None = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DescribeShareGroupOffsetsRequestTopic] | None = [] if topics is DEFAULT else topics


class DescribeShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "start_offset", "leader_epoch", "lag", "error_code", "error_message")
    FIELDS = (
        "partition_index int32 0+",
        "start_offset int64 0+",
        "leader_epoch int32 0+",
        "lag int64 1+ = -1 ignorable",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
        leader_epoch: int = 0,
        lag: int = -1,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.start_offset: int = start_offset
        self.leader_epoch: int = leader_epoch
        self.lag: int = lag
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DescribeShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "topic_id uuid 0+",
        "partitions []DescribeShareGroupOffsetsResponsePartition 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[DescribeShareGroupOffsetsResponsePartition] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: UUID = topic_id
        self.partitions: list[DescribeShareGroupOffsetsResponsePartition] = [] if partitions is DEFAULT else partitions


class DescribeShareGroupOffsetsResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code", "error_message")
    FIELDS = (
        "group_id string 0+",
        "topics []DescribeShareGroupOffsetsResponseTopic 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DescribeShareGroupOffsetsResponseTopic] = DEFAULT,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DescribeShareGroupOffsetsResponseTopic] = [] if topics is DEFAULT else topics
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DescribeShareGroupOffsetsResponse(Response):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "groups []DescribeShareGroupOffsetsResponseGroup 0+",
    )
    NAME = "DescribeShareGroupOffsets"
    API_KEY = 90
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribeShareGroupOffsetsResponseGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribeShareGroupOffsetsResponseGroup] = [] if groups is DEFAULT else groups


class DescribeShareGroupOffsetsRequest(Request[DescribeShareGroupOffsetsResponse]):
    __slots__ = ("groups",)
    FIELDS = ("groups []DescribeShareGroupOffsetsRequestGroup 0+",)
    NAME = "DescribeShareGroupOffsets"
    API_KEY = 90
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeShareGroupOffsetsResponse

    def __init__(
        self,
        *,
        groups: list[DescribeShareGroupOffsetsRequestGroup] = DEFAULT,
    ) -> None:
        self.groups: list[DescribeShareGroupOffsetsRequestGroup] = [] if groups is DEFAULT else groups
