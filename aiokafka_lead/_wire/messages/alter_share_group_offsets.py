"""AlterShareGroupOffsets (API key 91), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class AlterShareGroupOffsetsRequestPartition(Struct):
    __slots__ = ("partition_index", "start_offset")
    FIELDS = (
        "partition_index int32 0+",
        "start_offset int64 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        start_offset: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.start_offset: int = start_offset


class AlterShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "partitions []AlterShareGroupOffsetsRequestPartition 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterShareGroupOffsetsRequestPartition] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[AlterShareGroupOffsetsRequestPartition] = [] if partitions is DEFAULT else partitions


class AlterShareGroupOffsetsResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code", "error_message")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class AlterShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "topic_id uuid 0+",
        "partitions []AlterShareGroupOffsetsResponsePartition 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[AlterShareGroupOffsetsResponsePartition] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: UUID = topic_id
        self.partitions: list[AlterShareGroupOffsetsResponsePartition] = [] if partitions is DEFAULT else partitions


class AlterShareGroupOffsetsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "responses []AlterShareGroupOffsetsResponseTopic 0+",
    )
    NAME = "AlterShareGroupOffsets"
    API_KEY = 91
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[AlterShareGroupOffsetsResponseTopic] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[AlterShareGroupOffsetsResponseTopic] = [] if responses is DEFAULT else responses


class AlterShareGroupOffsetsRequest(Request[AlterShareGroupOffsetsResponse]):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        "group_id string 0+",
        "topics []AlterShareGroupOffsetsRequestTopic 0+",
    )
    NAME = "AlterShareGroupOffsets"
    API_KEY = 91
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = AlterShareGroupOffsetsResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[AlterShareGroupOffsetsRequestTopic] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[AlterShareGroupOffsetsRequestTopic] = [] if topics is DEFAULT else topics
