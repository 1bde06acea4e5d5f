"""CreateTopics (API key 19), versions 2-7.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class CreatableReplicaAssignment(Struct):
    __slots__ = ("partition_index", "broker_ids")
    FIELDS = (
        "partition_index int32 0+",
        "broker_ids []int32 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.broker_ids: list[int] = [] if broker_ids is DEFAULT else broker_ids


class CreatableTopicConfig(Struct):
    __slots__ = ("name", "value")
    FIELDS = (
        "name string 0+",
        "value string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name: str = name
        self.value: str | None = value


class CreatableTopic(Struct):
    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")
    FIELDS = (
        "name string 0+",
        "num_partitions int32 0+",
        "replication_factor int16 0+",
        "assignments []CreatableReplicaAssignment 0+",
        "configs []CreatableTopicConfig 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = DEFAULT,
        configs: list[CreatableTopicConfig] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.num_partitions: int = num_partitions
        self.replication_factor: int = replication_factor
        self.assignments: list[CreatableReplicaAssignment] = [] if assignments is DEFAULT else assignments
        self.configs: list[CreatableTopicConfig] = [] if configs is DEFAULT else configs


class CreatableTopicConfigs(Struct):
    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")
    FIELDS = (
        "name string 5+",
        "value string 5+ null 5+",
        "read_only bool 5+",
        "config_source int8 5+ = -1 ignorable",
        "is_sensitive bool 5+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.read_only: bool = read_only
        self.config_source: int = config_source
        self.is_sensitive: bool = is_sensitive


class CreatableTopicResult(Struct):
    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )
    FIELDS = (
        "name string 0+",
        "topic_id uuid 7+ ignorable",
        "error_code int16 0+",
        "error_message string 1+ null 0+ ignorable",
        "topic_config_error_code int16 5+ tag 0 ignorable",
        "num_partitions int32 5+ = -1 ignorable",
        "replication_factor int16 5+ = -1 ignorable",
        "configs []CreatableTopicConfigs 5+ null 5+ ignorable",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.topic_config_error_code: int = topic_config_error_code
        self.num_partitions: int = num_partitions
        self.replication_factor: int = replication_factor
        self.configs: list[CreatableTopicConfigs] | None = [] if configs is DEFAULT else configs


class CreateTopicsResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 2+ ignorable",
        "topics []CreatableTopicResult 0+",
    )
    NAME = "CreateTopics"
    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[CreatableTopicResult] = [] if topics is DEFAULT else topics


class CreateTopicsRequest(Request[CreateTopicsResponse]):
    __slots__ = ("topics", "timeout_ms", "validate_only")
    FIELDS = (
        "topics []CreatableTopic 0+",
        "timeout_ms int32 0+ = 60000",
        "validate_only bool 1+ = false",
    )
    NAME = "CreateTopics"
    API_KEY = 19
    MIN_VERSION = 2
    MAX_VERSION = 7
    FLEXIBLE_FROM = 5
    RESPONSE = CreateTopicsResponse

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = DEFAULT,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics: list[CreatableTopic] = [] if topics is DEFAULT else topics
        self.timeout_ms: int = timeout_ms
        self.validate_only: bool = validate_only
