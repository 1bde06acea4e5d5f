"""ShareGroupHeartbeat (API key 76), versions 1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class TopicPartitions(Struct):
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


class Assignment(Struct):
    __slots__ = ("topic_partitions",)
    FIELDS = ("topic_partitions []TopicPartitions 0+",)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartitions] = DEFAULT,
    ) -> None:
        self.topic_partitions: list[TopicPartitions] = [] if topic_partitions is DEFAULT else topic_partitions


class ShareGroupHeartbeatResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "assignment",
    )
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "member_id string 0+ null 0+ = null",
        "member_epoch int32 0+",
        "heartbeat_interval_ms int32 0+",
        "assignment Assignment 0+ null 0+ = null",
    )
    NAME = "ShareGroupHeartbeat"
    API_KEY = 76
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str | None = None,
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        assignment: Assignment | None = None,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.member_id: str | None = member_id
        self.member_epoch: int = member_epoch
        self.heartbeat_interval_ms: int = heartbeat_interval_ms
        self.assignment: Assignment | None = assignment


class ShareGroupHeartbeatRequest(Request[ShareGroupHeartbeatResponse]):
    __slots__ = ("group_id", "member_id", "member_epoch", "rack_id", "subscribed_topic_names")
    FIELDS = (
        "group_id string 0+",
        "member_id string 0+",
        "member_epoch int32 0+",
        "rack_id string 0+ null 0+ = null",
        "subscribed_topic_names []string 0+ null 0+ = null",
    )
    NAME = "ShareGroupHeartbeat"
    API_KEY = 76
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ShareGroupHeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        rack_id: str | None = None,
        subscribed_topic_names: list[str] | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.member_epoch: int = member_epoch
        self.rack_id: str | None = rack_id
        self.subscribed_topic_names: list[str] | None = subscribed_topic_names
