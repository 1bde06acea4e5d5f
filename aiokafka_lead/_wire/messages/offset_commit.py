"""OffsetCommit (API key 8), versions 2-10.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class OffsetCommitRequestPartition(Struct):
    __slots__ = ("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")
    FIELDS = (
        "partition_index int32 0+",
        "committed_offset int64 0+",
        "committed_leader_epoch int32 6+ = -1 ignorable",
        "committed_metadata string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        committed_offset: int = 0,
        committed_leader_epoch: int = -1,
        committed_metadata: str | None = "",
    ) -> None:
        self.partition_index: int = partition_index
        self.committed_offset: int = committed_offset
        self.committed_leader_epoch: int = committed_leader_epoch
        self.committed_metadata: str | None = committed_metadata


class OffsetCommitRequestTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        "name string 0-9 ignorable",
        "topic_id uuid 10+ ignorable",
        "partitions []OffsetCommitRequestPartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[OffsetCommitRequestPartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[OffsetCommitRequestPartition] = [] if partitions is DEFAULT else partitions


class OffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code


class OffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions")
    FIELDS = (
        "name string 0-9 ignorable",
        "topic_id uuid 10+ ignorable",
        "partitions []OffsetCommitResponsePartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partitions: list[OffsetCommitResponsePartition] = [] if partitions is DEFAULT else partitions


class OffsetCommitResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 3+ ignorable",
        "topics []OffsetCommitResponseTopic 0+",
    )
    NAME = "OffsetCommit"
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetCommitResponseTopic] = [] if topics is DEFAULT else topics


class OffsetCommitRequest(Request[OffsetCommitResponse]):
    __slots__ = (
        "group_id",
        "generation_id_or_member_epoch",
        "member_id",
        "group_instance_id",
        "retention_time_ms",
        "topics",
    )
    FIELDS = (
        "group_id string 0+",
        "generation_id_or_member_epoch int32 1+ = -1 ignorable",
        "member_id string 1+ ignorable",
        "group_instance_id string 7+ null 7+ = null",
        "retention_time_ms int64 2-4 = -1 ignorable",
        "topics []OffsetCommitRequestTopic 0+",
    )
    NAME = "OffsetCommit"
    API_KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8
    RESPONSE = OffsetCommitResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id_or_member_epoch: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        retention_time_ms: int = -1,
        topics: list[OffsetCommitRequestTopic] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id_or_member_epoch: int = generation_id_or_member_epoch
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.retention_time_ms: int = retention_time_ms
        self.topics: list[OffsetCommitRequestTopic] = [] if topics is DEFAULT else topics
