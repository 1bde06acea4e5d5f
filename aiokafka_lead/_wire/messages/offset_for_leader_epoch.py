"""OffsetForLeaderEpoch (API key 23), versions 2-4.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class OffsetForLeaderPartition(Struct):
    __slots__ = ("partition", "current_leader_epoch", "leader_epoch")
    FIELDS = (
        "partition int32 0+",
        "current_leader_epoch int32 2+ = -1 ignorable",
        "leader_epoch int32 0+",
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        current_leader_epoch: int = -1,
        leader_epoch: int = 0,
    ) -> None:
        self.partition: int = partition
        self.current_leader_epoch: int = current_leader_epoch
        self.leader_epoch: int = leader_epoch


class OffsetForLeaderTopic(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 0+",
        "partitions []OffsetForLeaderPartition 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[OffsetForLeaderPartition] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[OffsetForLeaderPartition] = [] if partitions is DEFAULT else partitions


class EpochEndOffset(Struct):
    __slots__ = ("error_code", "partition", "leader_epoch", "end_offset")
    FIELDS = (
        "error_code int16 0+",
        "partition int32 0+",
        "leader_epoch int32 1+ = -1 ignorable",
        "end_offset int64 0+ = -1",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        partition: int = 0,
        leader_epoch: int = -1,
        end_offset: int = -1,
    ) -> None:
        self.error_code: int = error_code
        self.partition: int = partition
        self.leader_epoch: int = leader_epoch
        self.end_offset: int = end_offset


class OffsetForLeaderTopicResult(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 0+",
        "partitions []EpochEndOffset 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[EpochEndOffset] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[EpochEndOffset] = [] if partitions is DEFAULT else partitions


class OffsetForLeaderEpochResponse(Response):
    __slots__ = ("throttle_time_ms", "topics")
    FIELDS = (
        "throttle_time_ms int32 2+ ignorable",
        "topics []OffsetForLeaderTopicResult 0+",
    )
    NAME = "OffsetForLeaderEpoch"
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetForLeaderTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.topics: list[OffsetForLeaderTopicResult] = [] if topics is DEFAULT else topics


class OffsetForLeaderEpochRequest(Request[OffsetForLeaderEpochResponse]):
    __slots__ = ("replica_id", "topics")
    FIELDS = (
        "replica_id int32 3+ = -2 ignorable",
        "topics []OffsetForLeaderTopic 0+",
    )
    NAME = "OffsetForLeaderEpoch"
    API_KEY = 23
    MIN_VERSION = 2
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = OffsetForLeaderEpochResponse

    def __init__(
        self,
        *,
        replica_id: int = -2,
        topics: list[OffsetForLeaderTopic] = DEFAULT,
    ) -> None:
        self.replica_id: int = replica_id
        self.topics: list[OffsetForLeaderTopic] = [] if topics is DEFAULT else topics
