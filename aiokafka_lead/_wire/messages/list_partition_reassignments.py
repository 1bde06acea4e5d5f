"""ListPartitionReassignments (API key 46), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ListPartitionReassignmentsTopics(Struct):
    __slots__ = ("name", "partition_indexes")
    FIELDS = (
        "name string 0+",
        "partition_indexes []int32 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partition_indexes: list[int] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partition_indexes: list[int] = [] if partition_indexes is DEFAULT else partition_indexes


class OngoingPartitionReassignment(Struct):
    __slots__ = ("partition_index", "replicas", "adding_replicas", "removing_replicas")
    FIELDS = (
        "partition_index int32 0+",
        "replicas []int32 0+",
        "adding_replicas []int32 0+",
        "removing_replicas []int32 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] = DEFAULT,
        adding_replicas: list[int] = DEFAULT,
        removing_replicas: list[int] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.replicas: list[int] = [] if replicas is DEFAULT else replicas
        self.adding_replicas: list[int] = [] if adding_replicas is DEFAULT else adding_replicas
        self.removing_replicas: list[int] = [] if removing_replicas is DEFAULT else removing_replicas


class OngoingTopicReassignment(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []OngoingPartitionReassignment 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[OngoingPartitionReassignment] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[OngoingPartitionReassignment] = [] if partitions is DEFAULT else partitions


class ListPartitionReassignmentsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "topics")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "topics []OngoingTopicReassignment 0+",
    )
    NAME = "ListPartitionReassignments"
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        topics: list[OngoingTopicReassignment] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topics: list[OngoingTopicReassignment] = [] if topics is DEFAULT else topics


class ListPartitionReassignmentsRequest(Request[ListPartitionReassignmentsResponse]):
    __slots__ = ("timeout_ms", "topics")
    FIELDS = (
        "timeout_ms int32 0+ = 60000",
        "topics []ListPartitionReassignmentsTopics 0+ null 0+ = null",
    )
    NAME = "ListPartitionReassignments"
    API_KEY = 46
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = ListPartitionReassignmentsResponse

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        topics: list[ListPartitionReassignmentsTopics] | None = None,
    ) -> None:
        self.timeout_ms: int = timeout_ms
        self.topics: list[ListPartitionReassignmentsTopics] | None = topics
