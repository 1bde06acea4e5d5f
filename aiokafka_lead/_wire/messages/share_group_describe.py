"""ShareGroupDescribe (API key 77), versions 1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class TopicPartitions(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions")
    FIELDS = (
        "topic_id uuid 0+",
        "topic_name string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic_id: UUID = topic_id
        self.topic_name: str = topic_name
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


class Member(Struct):
    __slots__ = (
        "member_id",
        "rack_id",
        "member_epoch",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "assignment",
    )
    FIELDS = (
        "member_id string 0+",
        "rack_id string 0+ null 0+ = null",
        "member_epoch int32 0+",
        "client_id string 0+",
        "client_host string 0+",
        "subscribed_topic_names []string 0+",
        "assignment Assignment 0+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        rack_id: str | None = None,
        member_epoch: int = 0,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = DEFAULT,
        assignment: Assignment = DEFAULT,
    ) -> None:
        self.member_id: str = member_id
        self.rack_id: str | None = rack_id
        self.member_epoch: int = member_epoch
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.subscribed_topic_names: list[str] = [] if subscribed_topic_names is DEFAULT else subscribed_topic_names
        self.assignment: Assignment = Assignment() if assignment is DEFAULT else assignment


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "assignor_name",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "group_id string 0+",
        "group_state string 0+",
        "group_epoch int32 0+",
        "assignment_epoch int32 0+",
        "assignor_name string 0+",
        "members []Member 0+",
        "authorized_operations int32 0+ = -2147483648",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        assignor_name: str = "",
        members: list[Member] = DEFAULT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.group_epoch: int = group_epoch
        self.assignment_epoch: int = assignment_epoch
        self.assignor_name: str = assignor_name
        self.members: list[Member] = [] if members is DEFAULT else members
        self.authorized_operations: int = authorized_operations


class ShareGroupDescribeResponse(Response):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "groups []DescribedGroup 0+",
    )
    NAME = "ShareGroupDescribe"
    API_KEY = 77
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is DEFAULT else groups


class ShareGroupDescribeRequest(Request[ShareGroupDescribeResponse]):
    __slots__ = ("group_ids", "include_authorized_operations")
    FIELDS = (
        "group_ids []string 0+",
        "include_authorized_operations bool 0+",
    )
    NAME = "ShareGroupDescribe"
    API_KEY = 77
    MIN_VERSION = 1
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ShareGroupDescribeResponse

    def __init__(
        self,
        *,
        group_ids: list[str] = DEFAULT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.group_ids: list[str] = [] if group_ids is DEFAULT else group_ids
        self.include_authorized_operations: bool = include_authorized_operations
