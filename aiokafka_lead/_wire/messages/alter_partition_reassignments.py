"""AlterPartitionReassignments (API key 45), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas")
    FIELDS = (
        "partition_index int32 0+",
        "replicas []int32 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.replicas: list[int] | None = replicas


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []ReassignablePartition 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartition] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[ReassignablePartition] = [] if partitions is DEFAULT else partitions


class ReassignablePartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class ReassignableTopicResponse(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []ReassignablePartitionResponse 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[ReassignablePartitionResponse] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[ReassignablePartitionResponse] = [] if partitions is DEFAULT else partitions


class AlterPartitionReassignmentsResponse(Response):
    __slots__ = ("throttle_time_ms", "allow_replication_factor_change", "error_code", "error_message", "responses")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "allow_replication_factor_change bool 1+ = true ignorable",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "responses []ReassignableTopicResponse 0+",
    )
    NAME = "AlterPartitionReassignments"
    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        allow_replication_factor_change: bool = True,
        error_code: int = 0,
        error_message: str | None = "",
        responses: list[ReassignableTopicResponse] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[ReassignableTopicResponse] = [] if responses is DEFAULT else responses


class AlterPartitionReassignmentsRequest(Request[AlterPartitionReassignmentsResponse]):
    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics")
    FIELDS = (
        "timeout_ms int32 0+ = 60000",
        "allow_replication_factor_change bool 1+ = true",
        "topics []ReassignableTopic 0+",
    )
    NAME = "AlterPartitionReassignments"
    API_KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = AlterPartitionReassignmentsResponse

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = DEFAULT,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.allow_replication_factor_change: bool = allow_replication_factor_change
        self.topics: list[ReassignableTopic] = [] if topics is DEFAULT else topics
