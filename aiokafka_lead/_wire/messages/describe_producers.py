"""DescribeProducers (API key 61), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class TopicRequest(Struct):
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


class ProducerState(Struct):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "coordinator_epoch",
        "current_txn_start_offset",
    )
    FIELDS = (
        "producer_id int64 0+",
        "producer_epoch int32 0+",
        "last_sequence int32 0+ = -1",
        "last_timestamp int64 0+ = -1",
        "coordinator_epoch int32 0+",
        "current_txn_start_offset int64 0+ = -1",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        last_sequence: int = -1,
        last_timestamp: int = -1,
        coordinator_epoch: int = 0,
        current_txn_start_offset: int = -1,
    ) -> None:
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.last_sequence: int = last_sequence
        self.last_timestamp: int = last_timestamp
        self.coordinator_epoch: int = coordinator_epoch
        self.current_txn_start_offset: int = current_txn_start_offset


class PartitionResponse(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "active_producers")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "active_producers []ProducerState 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        active_producers: list[ProducerState] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.active_producers: list[ProducerState] = [] if active_producers is DEFAULT else active_producers


class TopicResponse(Struct):
    __slots__ = ("name", "partitions")
    FIELDS = (
        "name string 0+",
        "partitions []PartitionResponse 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: list[PartitionResponse] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.partitions: list[PartitionResponse] = [] if partitions is DEFAULT else partitions


class DescribeProducersResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "topics []TopicResponse 0+",
    )
    NAME = "DescribeProducers"
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[TopicResponse] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[TopicResponse] = [] if topics is DEFAULT else topics


class DescribeProducersRequest(Request[DescribeProducersResponse]):
    __slots__ = ("topics",)
    FIELDS = ("topics []TopicRequest 0+",)
    NAME = "DescribeProducers"
    API_KEY = 61
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeProducersResponse

    def __init__(
        self,
        *,
        topics: list[TopicRequest] = DEFAULT,
    ) -> None:
        self.topics: list[TopicRequest] = [] if topics is DEFAULT else topics
