"""ShareAcknowledge (API key 79), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


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


class AcknowledgePartition(Struct):
    __slots__ = ("partition_index", "acknowledgement_batches")
    FIELDS = (
        "partition_index int32 0+",
        "acknowledgement_batches []AcknowledgementBatch 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        acknowledgement_batches: list[AcknowledgementBatch] = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.acknowledgement_batches: list[AcknowledgementBatch] = (
            [] if acknowledgement_batches is DEFAULT else acknowledgement_batches
        )


class AcknowledgeTopic(Struct):
    __slots__ = ("topic_id", "partitions")
    FIELDS = (
        "topic_id uuid 0+",
        "partitions []AcknowledgePartition 0+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[AcknowledgePartition] = DEFAULT,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.partitions: list[AcknowledgePartition] = [] if partitions is DEFAULT else partitions


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


class PartitionData(Struct):
    __slots__ = ("partition_index", "error_code", "error_message", "current_leader")
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "current_leader LeaderIdAndEpoch 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        current_leader: LeaderIdAndEpoch = DEFAULT,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is DEFAULT else current_leader


class ShareAcknowledgeTopicResponse(Struct):
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


class ShareAcknowledgeResponse(Response):
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
        "acquisition_lock_timeout_ms int32 2+ ignorable",
        "responses []ShareAcknowledgeTopicResponse 0+",
        "node_endpoints []NodeEndpoint 0+",
    )
    NAME = "ShareAcknowledge"
    API_KEY = 79
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
        responses: list[ShareAcknowledgeTopicResponse] = DEFAULT,
        node_endpoints: list[NodeEndpoint] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.acquisition_lock_timeout_ms: int = acquisition_lock_timeout_ms
        self.responses: list[ShareAcknowledgeTopicResponse] = [] if responses is DEFAULT else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is DEFAULT else node_endpoints


class ShareAcknowledgeRequest(Request[ShareAcknowledgeResponse]):
    __slots__ = ("group_id", "member_id", "share_session_epoch", "is_renew_ack", "topics")
    FIELDS = (
        "group_id string 0+ null 0+ = null",
        "member_id string 0+ null 0+",
        "share_session_epoch int32 0+",
        "is_renew_ack bool 2+ = false",
        "topics []AcknowledgeTopic 0+",
    )
    NAME = "ShareAcknowledge"
    API_KEY = 79
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = ShareAcknowledgeResponse

    def __init__(
        self,
        *,
        group_id: str | None = None,
        member_id: str | None = "",
        share_session_epoch: int = 0,
        is_renew_ack: bool = False,
        topics: list[AcknowledgeTopic] = DEFAULT,
    ) -> None:
        self.group_id: str | None = group_id
        self.member_id: str | None = member_id
        self.share_session_epoch: int = share_session_epoch
        self.is_renew_ack: bool = is_renew_ack
        self.topics: list[AcknowledgeTopic] = [] if topics is DEFAULT else topics
