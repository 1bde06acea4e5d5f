"""ElectLeaders (API key 43), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class TopicPartitions(Struct):
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


class PartitionResult(Struct):
    __slots__ = ("partition_id", "error_code", "error_message")
    FIELDS = (
        "partition_id int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        partition_id: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.partition_id: int = partition_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class ReplicaElectionResult(Struct):
    __slots__ = ("topic", "partition_result")
    FIELDS = (
        "topic string 0+",
        "partition_result []PartitionResult 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partition_result: list[PartitionResult] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partition_result: list[PartitionResult] = [] if partition_result is DEFAULT else partition_result


class ElectLeadersResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "replica_election_results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 1+",
        "replica_election_results []ReplicaElectionResult 0+",
    )
    NAME = "ElectLeaders"
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        replica_election_results: list[ReplicaElectionResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.replica_election_results: list[ReplicaElectionResult] = (
            [] if replica_election_results is DEFAULT else replica_election_results
        )


class ElectLeadersRequest(Request[ElectLeadersResponse]):
    __slots__ = ("election_type", "topic_partitions", "timeout_ms")
    FIELDS = (
        "election_type int8 1+",
        "topic_partitions []TopicPartitions 0+ null 0+",
        "timeout_ms int32 0+ = 60000",
    )
    NAME = "ElectLeaders"
    API_KEY = 43
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = ElectLeadersResponse

    def __init__(
        self,
        *,
        election_type: int = 0,
        topic_partitions: list[TopicPartitions] | None = DEFAULT,
        timeout_ms: int = 60000,
    ) -> None:
        self.election_type: int = election_type
        self.topic_partitions: list[TopicPartitions] | None = [] if topic_partitions is DEFAULT else topic_partitions
        self.timeout_ms: int = timeout_ms
