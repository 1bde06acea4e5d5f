"""CreatePartitions (API key 37), versions 0-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class CreatePartitionsAssignment(Struct):
    __slots__ = ("broker_ids",)
    FIELDS = ("broker_ids []int32 0+",)

    def __init__(
        self,
        *,
        broker_ids: list[int] = DEFAULT,
    ) -> None:
        self.broker_ids: list[int] = [] if broker_ids is DEFAULT else broker_ids


class CreatePartitionsTopic(Struct):
    __slots__ = ("name", "count", "assignments")
    FIELDS = (
        "name string 0+",
        "count int32 0+",
        "assignments []CreatePartitionsAssignment 0+ null 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        count: int = 0,
        assignments: list[CreatePartitionsAssignment] | None = DEFAULT,
    ) -> None:
        self.name: str = name
        self.count: int = count
        self.assignments: list[CreatePartitionsAssignment] | None = [] if assignments is DEFAULT else assignments


class CreatePartitionsTopicResult(Struct):
    __slots__ = ("name", "error_code", "error_message")
    FIELDS = (
        "name string 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        name: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name: str = name
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class CreatePartitionsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []CreatePartitionsTopicResult 0+",
    )
    NAME = "CreatePartitions"
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[CreatePartitionsTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[CreatePartitionsTopicResult] = [] if results is DEFAULT else results


class CreatePartitionsRequest(Request[CreatePartitionsResponse]):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    FIELDS = (
        "topics []CreatePartitionsTopic 0+",
        "timeout_ms int32 0+",
        "validate_only bool 0+",
    )
    NAME = "CreatePartitions"
    API_KEY = 37
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreatePartitionsResponse

    def __init__(
        self,
        *,
        topics: list[CreatePartitionsTopic] = DEFAULT,
        timeout_ms: int = 0,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatePartitionsTopic] = [] if topics is DEFAULT else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only
