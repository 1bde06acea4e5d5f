"""OffsetDelete (API key 47), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class OffsetDeleteRequestPartition(Struct):
    __slots__ = ("partition_index",)
    FIELDS = ("partition_index int32 0+",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index: int = partition_index


class OffsetDeleteRequestTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []OffsetDeleteRequestPartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteRequestPartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetDeleteRequestPartition] = [] if partitions is DEFAULT else partitions


class OffsetDeleteResponsePartition(Struct):
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


class OffsetDeleteResponseTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []OffsetDeleteResponsePartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OffsetDeleteResponsePartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[OffsetDeleteResponsePartition] = [] if partitions is DEFAULT else partitions


class OffsetDeleteResponse(Response):
    __slots__ = ("error_code", "throttle_time_ms", "topics")
    FIELDS = (
        "error_code int16 0+",
        "throttle_time_ms int32 0+ ignorable",
        "topics []OffsetDeleteResponseTopic 0+",
    )
    NAME = "OffsetDelete"
    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0

    def __init__(
        self,
        *,
        error_code: int = 0,
        throttle_time_ms: int = 0,
        topics: list[OffsetDeleteResponseTopic] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetDeleteResponseTopic] = [] if topics is DEFAULT else topics


class OffsetDeleteRequest(Request[OffsetDeleteResponse]):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        "group_id string 0+",
        "topics []OffsetDeleteRequestTopic 0+",
    )
    NAME = "OffsetDelete"
    API_KEY = 47
    MIN_VERSION = 0
    MAX_VERSION = 0
    RESPONSE = OffsetDeleteResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[OffsetDeleteRequestTopic] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[OffsetDeleteRequestTopic] = [] if topics is DEFAULT else topics
