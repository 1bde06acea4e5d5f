"""ShareFetch (API key 78), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID

    from ..message import Records


class AcknowledgementBatch(Struct):
    __slots__ = ("first_offset", "last_offset", "acknowledge_types")
    FIELDS = (
        "first_offset int64 0+",
        "last_offset int64 0+",
        "acknowledge_types []int8 0+",
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        acknowledge_types: list[int] = DEFAULT,
    ) -> None:
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset
        self.acknowledge_types: list[int] = [] if acknowledge_types is DEFAULT else acknowledge_types


class FetchPartition(Struct):
    __slots__ = ("partition_index", "partition_max_bytes", "acknowledgement_batches")
    FIELDS = (
        "partition_index int32 0+",
        "partition_max_bytes int32 0",
        "acknowledgement_batches []AcknowledgementBatch 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_max_bytes: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.partition_max_bytes: int = partition_max_bytes
        self.acknowledgement_batches: list[AcknowledgementBatch] = (
            [] if acknowledgement_batches is DEFAULT else acknowledgement_batches
        )


class FetchTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        "topic_id uuid 0+",
        "partitions []FetchPartition 0+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[FetchPartition] = DEFAULT,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is DEFAULT else partitions


class ForgottenTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        "topic_id uuid 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        "leader_id int32 0+",
        "leader_epoch int32 0+",
    )

    def __init__(
        self,
        *,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class AcquiredRecords(Struct):
    __slots__ = ("first_offset", "last_offset", "delivery_count")
    FIELDS = (
        "first_offset int64 0+",
        "last_offset int64 0+",
        "delivery_count int16 0+",
    )

    def __init__(
        self,
        *,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset: int = first_offset
        self.last_offset: int = last_offset
        self.delivery_count: int = delivery_count


class PartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "error_message",
        "acknowledge_error_code",
        "acknowledge_error_message",
        "current_leader",
        "records",
        "acquired_records",
    )
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "acknowledge_error_code int16 0+",
        "acknowledge_error_message string 0+ null 0+ = null",
        "current_leader LeaderIdAndEpoch 0+",
        "records records 0+ null 0",
        "acquired_records []AcquiredRecords 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acknowledge_error_code: int = 0,
        acknowledge_error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = DEFAULT,
        records: Records = None,
        acquired_records: list[AcquiredRecords] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acknowledge_error_code: int = acknowledge_error_code
        self.acknowledge_error_message: str | None = acknowledge_error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is DEFAULT else current_leader
        self.records: memoryview | None = records  # type: ignore[assignment]
        self.acquired_records: list[AcquiredRecords] = [] if acquired_records is DEFAULT else acquired_records


class ShareFetchableTopicResponse(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        "topic_id uuid 0+",
        "partitions []PartitionData 0+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[PartitionData] = DEFAULT,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.partitions: list[PartitionData] = [] if partitions is DEFAULT else partitions


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        "node_id int32 0+",
        "host string 0+",
        "port int32 0+",
        "rack string 0+ null 0+ = null",
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


class ShareFetchResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "acquisition_lock_timeout_ms",
        "responses",
        "node_endpoints",
    )
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "acquisition_lock_timeout_ms int32 1+",
        "responses []ShareFetchableTopicResponse 0+",
        "node_endpoints []NodeEndpoint 0+",
    )
    NAME = "ShareFetch"
    API_KEY = 78
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        acquisition_lock_timeout_ms: int = 0,
        responses: list[ShareFetchableTopicResponse] = DEFAULT,
        node_endpoints: list[NodeEndpoint] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareFetchableTopicResponse] = [] if responses is DEFAULT else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is DEFAULT else node_endpoints


class ShareFetchRequest(Request[ShareFetchResponse]):
    __slots__ = (
        "group_id",
        "member_id",
        "share_session_epoch",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "max_records",
        "batch_size",
        "share_acquire_mode",
        "is_renew_ack",
        "topics",
        "forgotten_topics_data",
    )
    FIELDS = (
        "group_id string 0+ null 0+ = null",
        "member_id string 0+ null 0+",
        "share_session_epoch int32 0+",
        "max_wait_ms int32 0+",
        "min_bytes int32 0+",
        "max_bytes int32 0+ = 2147483647",
        "max_records int32 1+",
        "batch_size int32 1+",
        "share_acquire_mode int8 2+ = 0 ignorable",
        "is_renew_ack bool 2+ = false",
        "topics []FetchTopic 0+",
        "forgotten_topics_data []ForgottenTopic 0+",
    )
    NAME = "ShareFetch"
    API_KEY = 78
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = ShareFetchResponse

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        max_records: int = 0,
        batch_size: int = 0,
        share_acquire_mode: int = 0,
        is_renew_ack: bool = False,
        topics: list[FetchTopic] = DEFAULT,
        forgotten_topics_data: list[ForgottenTopic] = DEFAULT,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.max_records: int = max_records
        self.batch_size: int = batch_size
        self.share_acquire_mode: int = share_acquire_mode
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[FetchTopic] = [] if topics is DEFAULT else topics
        self.forgotten_topics_data: list[ForgottenTopic] = (
            [] if forgotten_topics_data is DEFAULT else forgotten_topics_data
        )
