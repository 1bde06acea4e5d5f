"""DeleteRecords (API key 21), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset")
    FIELDS = (
        "partition_index int32 0+",
        "offset int64 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.offset: int = offset


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []DeleteRecordsPartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[DeleteRecordsPartition] = [] if partitions is DEFAULT else partitions


class DeleteRecordsPartitionResult(Struct):
    __slots__ = ("partition_index", "low_watermark", "error_code")
    FIELDS = (
        "partition_index int32 0+",
        "low_watermark int64 0+",
        "error_code int16 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        low_watermark: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index: int = partition_index
        self.low_watermark: int = low_watermark
        self.error_code: int = error_code


class DeleteRecordsTopicResult(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []DeleteRecordsPartitionResult 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DeleteRecordsPartitionResult] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[DeleteRecordsPartitionResult] = [] if partitions is DEFAULT else partitions


class DeleteRecordsResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "topics []DeleteRecordsTopicResult 0+",
    )
    NAME = "DeleteRecords"
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[DeleteRecordsTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[DeleteRecordsTopicResult] = [] if topics is DEFAULT else topics


class DeleteRecordsRequest(Request[DeleteRecordsResponse]):
    __slots__ = ("topics", "timeout_ms")
    FIELDS = (
        "topics []DeleteRecordsTopic 0+",
        "timeout_ms int32 0+",
    )
    NAME = "DeleteRecords"
    API_KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteRecordsResponse

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = DEFAULT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteRecordsTopic] = [] if topics is DEFAULT else topics
        self.timeout_ms: int = timeout_ms
