"""AlterReplicaLogDirs (API key 34), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class AlterReplicaLogDirTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class AlterReplicaLogDir(Struct):
    __slots__ = ("path", "topics")
    FIELDS = (
        "path string 0+",
        "topics []AlterReplicaLogDirTopic 0+",
    )

    def __init__(
        self,
        *,
        path: str = "",
        topics: list[AlterReplicaLogDirTopic] = DEFAULT,
    ) -> None:
        self.path: str = path
        self.topics: list[AlterReplicaLogDirTopic] = [] if topics is DEFAULT else topics


class AlterReplicaLogDirPartitionResult(Struct):
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


class AlterReplicaLogDirTopicResult(Struct):
    __slots__ = ("topic_name", "partitions")
    FIELDS = (
        "topic_name string 0+",
        "partitions []AlterReplicaLogDirPartitionResult 0+",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        partitions: list[AlterReplicaLogDirPartitionResult] = DEFAULT,
    ) -> None:
        self.topic_name: str = topic_name
        self.partitions: list[AlterReplicaLogDirPartitionResult] = [] if partitions is DEFAULT else partitions


class AlterReplicaLogDirsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []AlterReplicaLogDirTopicResult 0+",
    )
    NAME = "AlterReplicaLogDirs"
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterReplicaLogDirTopicResult] = [] if results is DEFAULT else results


class AlterReplicaLogDirsRequest(Request[AlterReplicaLogDirsResponse]):
    __slots__ = ("dirs",)
    FIELDS = ("dirs []AlterReplicaLogDir 0+",)
    NAME = "AlterReplicaLogDirs"
    API_KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = AlterReplicaLogDirsResponse

    def __init__(
        self,
        *,
        dirs: list[AlterReplicaLogDir] = DEFAULT,
    ) -> None:
        self.dirs: list[AlterReplicaLogDir] = [] if dirs is DEFAULT else dirs
