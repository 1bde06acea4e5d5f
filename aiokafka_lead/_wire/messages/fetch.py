"""Fetch (API key 1), versions 4-18.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID

    from ..message import Records


class ReplicaState(Struct):
    __slots__ = ("replica_id", "replica_epoch")
    FIELDS = (
        "replica_id int32 15+ = -1",
        "replica_epoch int64 15+ = -1",
    )

    def __init__(
        self,
        *,
        replica_id: int = -1,
        replica_epoch: int = -1,
    ) -> None:
        self.replica_id: int = replica_id
        self.replica_epoch: int = replica_epoch


class FetchPartition(Struct):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "log_start_offset",
        "partition_max_bytes",
        "replica_directory_id",
        "high_watermark",
    )
    FIELDS = (
        "partition int32 0+",
        "current_leader_epoch int32 9+ = -1 ignorable",
        "fetch_offset int64 0+",
        "last_fetched_epoch int32 12+ = -1",
        "log_start_offset int64 5+ = -1 ignorable",
        "partition_max_bytes int32 0+",
        "replica_directory_id uuid 17+ tag 0 ignorable",
        "high_watermark int64 18+ tag 1 = 9223372036854775807 ignorable",
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        fetch_offset: int = 0,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
        partition_max_bytes: int = 0,
        replica_directory_id: UUID = ZERO_UUID,
        high_watermark: int = 9223372036854775807,
    ) -> None:
        self.partition: int = partition
        self.current_leader_epoch: int = current_leader_epoch
        self.fetch_offset: int = fetch_offset
        self.last_fetched_epoch: int = last_fetched_epoch
        self.log_start_offset: int = log_start_offset
        self.partition_max_bytes: int = partition_max_bytes
        self.replica_directory_id: UUID = replica_directory_id
        self.high_watermark: int = high_watermark


class FetchTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        "topic string 0-12 ignorable",
        "topic_id uuid 13+ ignorable",
        "partitions []FetchPartition 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[FetchPartition] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.topic_id: UUID = topic_id
        self.partitions: list[FetchPartition] = [] if partitions is DEFAULT else partitions


class ForgottenTopic(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        "topic string 7-12 ignorable",
        "topic_id uuid 13+ ignorable",
        "partitions []int32 7+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.topic_id: UUID = topic_id
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class EpochEndOffset(Struct):
    __slots__ = ("epoch", "end_offset")
    FIELDS = (
        "epoch int32 12+ = -1",
        "end_offset int64 12+ = -1",
    )

    def __init__(
        self,
        *,
        epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.epoch: int = epoch
        self.end_offset: int = end_offset


class LeaderIdAndEpoch(Struct):
    __slots__ = ("leader_id", "leader_epoch")
    FIELDS = (
        "leader_id int32 12+ = -1",
        "leader_epoch int32 12+ = -1",
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
    ) -> None:
        self.leader_id: int = leader_id
        self.leader_epoch: int = leader_epoch


class SnapshotId(Struct):
    __slots__ = ("end_offset", "epoch")
    FIELDS = (
        "end_offset int64 0+ = -1",
        "epoch int32 0+ = -1",
    )

    def __init__(
        self,
        *,
        end_offset: int = -1,
        epoch: int = -1,
    ) -> None:
        self.end_offset: int = end_offset
        self.epoch: int = epoch


class AbortedTransaction(Struct):
    __slots__ = ("producer_id", "first_offset")
    FIELDS = (
        "producer_id int64 4+",
        "first_offset int64 4+",
    )

    def __init__(
        self,
        *,
        producer_id: int = 0,
        first_offset: int = 0,
    ) -> None:
        self.producer_id: int = producer_id
        self.first_offset: int = first_offset


class PartitionData(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "diverging_epoch",
        "current_leader",
        "snapshot_id",
        "aborted_transactions",
        "preferred_read_replica",
        "records",
    )
    FIELDS = (
        "partition_index int32 0+",
        "error_code int16 0+",
        "high_watermark int64 0+",
        "last_stable_offset int64 4+ = -1 ignorable",
        "log_start_offset int64 5+ = -1 ignorable",
        "diverging_epoch EpochEndOffset 12+ tag 0",
        "current_leader LeaderIdAndEpoch 12+ tag 1",
        "snapshot_id SnapshotId 12+ tag 2",
        "aborted_transactions []AbortedTransaction 4+ null 4+ ignorable",
        "preferred_read_replica int32 11+ = -1",
        "records records 0+ null 0+",
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
        high_watermark: int = 0,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        diverging_epoch: EpochEndOffset = DEFAULT,
        current_leader: LeaderIdAndEpoch = DEFAULT,
        snapshot_id: SnapshotId = DEFAULT,
        aborted_transactions: list[AbortedTransaction] | None = DEFAULT,
        preferred_read_replica: int = -1,
        records: Records = None,
    ) -> None:
        self.partition_index: int = partition_index
        self.error_code: int = error_code
        self.high_watermark: int = high_watermark
        self.last_stable_offset: int = last_stable_offset
        self.log_start_offset: int = log_start_offset
        self.diverging_epoch: EpochEndOffset = EpochEndOffset() if diverging_epoch is DEFAULT else diverging_epoch
        self.current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch() if current_leader is DEFAULT else current_leader
        self.snapshot_id: SnapshotId = SnapshotId() if snapshot_id is DEFAULT else snapshot_id
        self.aborted_transactions: list[AbortedTransaction] | None = (
            [] if aborted_transactions is DEFAULT else aborted_transactions
        )
        self.preferred_read_replica: int = preferred_read_replica
        self.records: memoryview | None = records  # type: ignore[assignment]


class FetchableTopicResponse(Struct):
    __slots__ = ("topic", "topic_id", "partitions")
    FIELDS = (
        "topic string 0-12 ignorable",
        "topic_id uuid 13+ ignorable",
        "partitions []PartitionData 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        topic_id: UUID = ZERO_UUID,
        partitions: list[PartitionData] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.topic_id: UUID = topic_id
        self.partitions: list[PartitionData] = [] if partitions is DEFAULT else partitions


class NodeEndpoint(Struct):
    __slots__ = ("node_id", "host", "port", "rack")
    FIELDS = (
        "node_id int32 16+",
        "host string 16+",
        "port int32 16+",
        "rack string 16+ null 16+ = null",
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


class FetchResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "session_id", "responses", "node_endpoints")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 7+ ignorable",
        "session_id int32 7+ = 0",
        "responses []FetchableTopicResponse 0+",
        "node_endpoints []NodeEndpoint 16+ tag 0",
    )
    NAME = "Fetch"
    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        session_id: int = 0,
        responses: list[FetchableTopicResponse] = DEFAULT,
        node_endpoints: list[NodeEndpoint] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.session_id: int = session_id
        self.responses: list[FetchableTopicResponse] = [] if responses is DEFAULT else responses
        self.node_endpoints: list[NodeEndpoint] = [] if node_endpoints is DEFAULT else node_endpoints


class FetchRequest(Request[FetchResponse]):
    __slots__ = (
        "cluster_id",
        "replica_id",
        "replica_state",
        "max_wait_ms",
        "min_bytes",
        "max_bytes",
        "isolation_level",
        "session_id",
        "session_epoch",
        "topics",
        "forgotten_topics_data",
        "rack_id",
    )
    FIELDS = (
        "cluster_id string 12+ null 12+ tag 0 = null ignorable",
        "replica_id int32 0-14 = -1",
        "replica_state ReplicaState 15+ tag 1",
        "max_wait_ms int32 0+",
        "min_bytes int32 0+",
        "max_bytes int32 3+ = 2147483647 ignorable",
        "isolation_level int8 4+ = 0 ignorable",
        "session_id int32 7+ = 0 ignorable",
        "session_epoch int32 7+ = -1 ignorable",
        "topics []FetchTopic 0+",
        "forgotten_topics_data []ForgottenTopic 7+",
        "rack_id string 11+ ignorable",
    )
    NAME = "Fetch"
    API_KEY = 1
    MIN_VERSION = 4
    MAX_VERSION = 18
    FLEXIBLE_FROM = 12
    RESPONSE = FetchResponse

    def __init__(
        self,
        *,
        cluster_id: str | None = None,
        replica_id: int = -1,
        replica_state: ReplicaState = DEFAULT,
        max_wait_ms: int = 0,
        min_bytes: int = 0,
        max_bytes: int = 2147483647,
        isolation_level: int = 0,
        session_id: int = 0,
        session_epoch: int = -1,
        topics: list[FetchTopic] = DEFAULT,
        forgotten_topics_data: list[ForgottenTopic] = DEFAULT,
        rack_id: str = "",
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.replica_id: int = replica_id
        self.replica_state: ReplicaState = ReplicaState() if replica_state is DEFAULT else replica_state
        self.max_wait_ms: int = max_wait_ms
        self.min_bytes: int = min_bytes
        self.max_bytes: int = max_bytes
        self.isolation_level: int = isolation_level
        self.session_id: int = session_id
        self.session_epoch: int = session_epoch
        self.topics: list[FetchTopic] = [] if topics is DEFAULT else topics
        self.forgotten_topics_data: list[ForgottenTopic] = (
            [] if forgotten_topics_data is DEFAULT else forgotten_topics_data
        )
        self.rack_id: str = rack_id
