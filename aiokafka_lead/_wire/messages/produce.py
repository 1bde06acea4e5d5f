"""Produce (API key 0), versions 3-13.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID

    from ..message import Records


class PartitionProduceData(Struct):
    __slots__ = ("index", "records")
    FIELDS = (
        "index int32 0+",
        "records records 0+ null 0+",
    )

    def __init__(
        self,
        *,
        index: int = 0,
        records: Records = None,
    ) -> None:
        self.index: int = index
        self.records: memoryview | None = records  # type: ignore[assignment]


class TopicProduceData(Struct):
    __slots__ = ("name", "topic_id", "partition_data")
    FIELDS = (
        "name string 0-12 ignorable",
        "topic_id uuid 13+ ignorable",
        "partition_data []PartitionProduceData 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_data: list[PartitionProduceData] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_data: list[PartitionProduceData] = [] if partition_data is DEFAULT else partition_data


class BatchIndexAndErrorMessage(Struct):
    __slots__ = ("batch_index", "batch_index_error_message")
    FIELDS = (
        "batch_index int32 8+",
        "batch_index_error_message string 8+ null 8+ = null",
    )

    def __init__(
        self,
        *,
        batch_index: int = 0,
        batch_index_error_message: str | None = None,
    ) -> None:
        self.batch_index: int = batch_index
        self.batch_index_error_message: str | None = batch_index_error_message


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        "leader_id int32 10+ = -1",
        "leader_epoch int32 10+ = -1",
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class PartitionProduceResponse(Struct):
    __slots__ = (
        "index",
        "error_code",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "record_errors",
        "error_message",
        "current_leader",
    )
    FIELDS = (
        "index int32 0+",
        "error_code int16 0+",
        "base_offset int64 0+",
        "log_append_time_ms int64 2+ = -1 ignorable",
        "log_start_offset int64 5+ = -1 ignorable",
        "record_errors []BatchIndexAndErrorMessage 8+ ignorable",
        "error_message string 8+ null 8+ = null ignorable",
        "current_leader LeaderIdAndEpoch 10+ tag 0",
    )

    def __init__(
        self,
        *,
        index: int = 0,
        error_code: int = 0,
        base_offset: int = 0,
        log_append_time_ms: int = -1,
        log_start_offset: int = -1,
        record_errors: list[BatchIndexAndErrorMessage] = DEFAULT,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = DEFAULT,
    ) -> None:
        self.index: int = index
        self.error_code: int = error_code
        self.base_offset: int = base_offset
        self.log_append_time_ms: int = log_append_time_ms
        self.log_start_offset: int = log_start_offset
        self.record_errors: list[BatchIndexAndErrorMessage] = [] if record_errors is DEFAULT else record_errors
        self.error_message: str | None = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is DEFAULT else current_leader


class TopicProduceResponse(Struct):
    __slots__ = ("name", "topic_id", "partition_responses")
    FIELDS = (
        "name string 0-12 ignorable",
        "topic_id uuid 13+ ignorable",
        "partition_responses []PartitionProduceResponse 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: UUID = ZERO_UUID,
        partition_responses: list[PartitionProduceResponse] = DEFAULT,
    ) -> None:
        self.name: str = name
        self.topic_id: UUID = topic_id
        self.partition_responses: list[PartitionProduceResponse] = (
            [] if partition_responses is DEFAULT else partition_responses
        )


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        "node_id int32 10+",
        "host string 10+",
        "port int32 10+",
        "rack string 10+ null 10+ = null",
    )

    def __init__(
        self,
        *,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        rack: str | None = None,
    ) -> None:
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.rack: str | None = rack


class ProduceResponse(Response):
    __slots__ = ("responses", "throttle_time_ms", "node_endpoints")
    FIELDS = (
        "responses []TopicProduceResponse 0+",
        "throttle_time_ms int32 1+ = 0 ignorable",
        "node_endpoints []NodeEndpoint 10+ tag 0",
    )
    NAME = "Produce"
    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9

    def __init__(
        self,
        *,
        responses: list[TopicProduceResponse] = DEFAULT,
        throttle_time_ms: int = 0,
        node_endpoints: list[NodeEndpoint] = DEFAULT,
    ) -> None:
        self.responses: list[TopicProduceResponse] = [] if responses is DEFAULT else responses
        self.throttle_time_ms: int = throttle_time_ms
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is DEFAULT else node_endpoints


class ProduceRequest(Request[ProduceResponse]):
    __slots__ = ("transactional_id", "acks", "timeout_ms", "topic_data")
    FIELDS = (
        "transactional_id string 3+ null 3+ = null",
        "acks int16 0+",
        "timeout_ms int32 0+",
        "topic_data []TopicProduceData 0+",
    )
    NAME = "Produce"
    API_KEY = 0
    MIN_VERSION = 3
    MAX_VERSION = 13
    FLEXIBLE_FROM = 9
    RESPONSE = ProduceResponse

    def __init__(
        self,
        *,
        transactional_id: str | None = None,
        acks: int = 0,
        timeout_ms: int = 0,
        topic_data: list[TopicProduceData] = DEFAULT,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.acks: int = acks
        self.timeout_ms: int = timeout_ms
        self.topic_data: list[TopicProduceData] = [] if topic_data is DEFAULT else topic_data
