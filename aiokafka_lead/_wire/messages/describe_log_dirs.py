"""DescribeLogDirs (API key 35), versions 1-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DescribableLogDirTopic(Struct):
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


class DescribeLogDirsPartition(Struct):
    __slots__ = ("partition_index", "partition_size", "offset_lag", "is_future_key")
    FIELDS = (
        "partition_index int32 0+",
        "partition_size int64 0+",
        "offset_lag int64 0+",
        "is_future_key bool 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_size: int = 0,
        offset_lag: int = 0,
        is_future_key: bool = False,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_size: int = partition_size
        self.offset_lag: int = offset_lag
        self.is_future_key: bool = is_future_key


class DescribeLogDirsTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []DescribeLogDirsPartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[DescribeLogDirsPartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[DescribeLogDirsPartition] = [] if partitions is DEFAULT else partitions


class DescribeLogDirsResult(Struct):
    __slots__ = ("error_code", "log_dir", "topics", "total_bytes", "usable_bytes", "is_cordoned")
    FIELDS = (
        "error_code int16 0+",
        "log_dir string 0+",
        "topics []DescribeLogDirsTopic 0+",
        "total_bytes int64 4+ = -1 ignorable",
        "usable_bytes int64 4+ = -1 ignorable",
        "is_cordoned bool 5+ = false ignorable",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        log_dir: str = "",
        topics: list[DescribeLogDirsTopic] = DEFAULT,
        total_bytes: int = -1,
        usable_bytes: int = -1,
        is_cordoned: bool = False,
    ) -> None:
        self.error_code: int = error_code
        self.log_dir: str = log_dir
        self.topics: list[DescribeLogDirsTopic] = [] if topics is DEFAULT else topics
        self.total_bytes: int = total_bytes
        self.usable_bytes: int = usable_bytes
        self.is_cordoned: bool = is_cordoned


class DescribeLogDirsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 3+ ignorable",
        "results []DescribeLogDirsResult 0+",
    )
    NAME = "DescribeLogDirs"
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results: list[DescribeLogDirsResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.results: list[DescribeLogDirsResult] = [] if results is DEFAULT else results


class DescribeLogDirsRequest(Request[DescribeLogDirsResponse]):
    __slots__ = ("topics",)
    FIELDS = ("topics []DescribableLogDirTopic 0+ null 0+",)
    NAME = "DescribeLogDirs"
    API_KEY = 35
    MIN_VERSION = 1
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeLogDirsResponse

    def __init__(
        self,
        *,
        topics: list[DescribableLogDirTopic] | None = DEFAULT,
    ) -> None:
        self.topics: list[DescribableLogDirTopic] | None = [] if topics is DEFAULT else topics
