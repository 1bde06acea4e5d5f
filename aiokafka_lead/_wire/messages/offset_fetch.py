"""OffsetFetch (API key 9), versions 1-10.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class OffsetFetchRequestTopic(Struct):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        "name string 0-7",
        "partition_indexes []int32 0-7",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is DEFAULT else partition_indexes


class OffsetFetchRequestTopics(Struct):
    __slots__ = ("name", "topic_id", "partition_indexes")
    FIELDS = (
        "name string 8-9 ignorable",
        "topic_id uuid 10+ ignorable",
        "partition_indexes []int32 8+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_indexes: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_indexes: list[int] = [] if partition_indexes is DEFAULT else partition_indexes


class OffsetFetchRequestGroup(Struct):
    __slots__ = ("group_id", "member_id", "member_epoch", "topics")
    FIELDS = (
        "group_id string 8+",
        "member_id string 9+ null 9+ = null ignorable",
        "member_epoch int32 9+ = -1 ignorable",
        "topics []OffsetFetchRequestTopics 8+ null 8+",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str | None = None,
        member_epoch: int = -1,
        topics: list[OffsetFetchRequestTopics] | None = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.topics: list[OffsetFetchRequestTopics] | None = [] if topics is DEFAULT else topics


class OffsetFetchResponsePartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        "partition_index int32 0-7",
        "committed_offset int64 0-7",
        "committed_leader_epoch int32 5-7 = -1 ignorable",
        "metadata string 0-7 null 0-7",
        "error_code int16 0-7",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code


class OffsetFetchResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0-7",
        "partitions []OffsetFetchResponsePartition 0-7",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetFetchResponsePartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetFetchResponsePartition] = [] if partitions is DEFAULT else partitions


class OffsetFetchResponsePartitions(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "metadata", "error_code")
    FIELDS = (
        "partition_index int32 8+",
        "committed_offset int64 8+",
        "committed_leader_epoch int32 8+ = -1 ignorable",
        "metadata string 8+ null 8+",
        "error_code int16 8+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        metadata: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.metadata: str | None = metadata
        self.error_code: int = error_code


class OffsetFetchResponseTopics(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        "name string 8-9 ignorable",
        "topic_id uuid 10+ ignorable",
        "partitions []OffsetFetchResponsePartitions 8+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[OffsetFetchResponsePartitions] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[OffsetFetchResponsePartitions] = [] if partitions is DEFAULT else partitions


class OffsetFetchResponseGroup(Struct):
    __slots__ = ("group_id", "topics", "error_code")
    FIELDS = (
        "group_id string 8+",
        "topics []OffsetFetchResponseTopics 8+",
        "error_code int16 8+ = 0",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchResponseTopics] = DEFAULT,
        error_code: int = 0,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchResponseTopics] = [] if topics is DEFAULT else topics
        self.error_code: int = error_code


class OffsetFetchResponse(Response):
    __slots__ = ("throttle_time_ms", "topics", "error_code", "groups")
    FIELDS = (
        "throttle_time_ms int32 3+ ignorable",
        "topics []OffsetFetchResponseTopic 0-7",
        "error_code int16 2-7 = 0 ignorable",
        "groups []OffsetFetchResponseGroup 8+",
    )
    NAME = "OffsetFetch"
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetFetchResponseTopic] = DEFAULT,
        error_code: int = 0,
        groups: list[OffsetFetchResponseGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetFetchResponseTopic] = [] if topics is DEFAULT else topics
        self.error_code: int = error_code
        self.groups: list[OffsetFetchResponseGroup] = [] if groups is DEFAULT else groups


class OffsetFetchRequest(Request[OffsetFetchResponse]):
    __slots__ = ("group_id", "topics", "groups", "require_stable")
    FIELDS = (
        "group_id string 0-7",
        "topics []OffsetFetchRequestTopic 0-7 null 2-7",
        "groups []OffsetFetchRequestGroup 8+",
        "require_stable bool 7+ = false",
    )
    NAME = "OffsetFetch"
    API_KEY = 9
    MIN_VERSION = 1
    MAX_VERSION = 10
    FLEXIBLE_FROM = 6
    RESPONSE = OffsetFetchResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetFetchRequestTopic] | None = DEFAULT,
        groups: list[OffsetFetchRequestGroup] = DEFAULT,
        require_stable: bool = False,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetFetchRequestTopic] | None = [] if topics is DEFAULT else topics
        self.groups: list[OffsetFetchRequestGroup] = [] if groups is DEFAULT else groups
        self.require_stable: bool = require_stable
