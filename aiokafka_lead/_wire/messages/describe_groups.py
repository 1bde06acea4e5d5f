"""DescribeGroups (API key 15), versions 0-6.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DescribedGroupMember(Struct):
    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "member_metadata",
        "member_assignment",
    )
    FIELDS = (
        "member_id string 0+",
        "group_instance_id string 4+ null 4+ = null ignorable",
        "client_id string 0+",
        "client_host string 0+",
        "member_metadata bytes 0+",
        "member_assignment bytes 0+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        member_metadata: bytes = b"",
        member_assignment: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.client_id: str = client_id
        self.client_host: str = client_host
        self.member_metadata: bytes = member_metadata
        self.member_assignment: bytes = member_assignment


class DescribedGroup(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "protocol_type",
        "protocol_data",
        "members",
        "authorized_operations",
    )
    FIELDS = (
        "error_code int16 0+",
        "error_message string 6+ null 6+ = null",
        "group_id string 0+",
        "group_state string 0+",
        "protocol_type string 0+",
        "protocol_data string 0+",
        "members []DescribedGroupMember 0+",
        "authorized_operations int32 3+ = -2147483648",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        protocol_type: str = "",
        protocol_data: str = "",
        members: list[DescribedGroupMember] = DEFAULT,
        authorized_operations: int = -2147483648,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.group_id: str = group_id
        self.group_state: str = group_state
        self.protocol_type: str = protocol_type
        self.protocol_data: str = protocol_data
        self.members: list[DescribedGroupMember] = [] if members is DEFAULT else members
        self.authorized_operations: int = authorized_operations


class DescribeGroupsResponse(Response):
    __slots__ = ("throttle_time_ms", "groups")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "groups []DescribedGroup 0+",
    )
    NAME = "DescribeGroups"
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.groups: list[DescribedGroup] = [] if groups is DEFAULT else groups


class DescribeGroupsRequest(Request[DescribeGroupsResponse]):
    __slots__ = ("groups", "include_authorized_operations")
    FIELDS = (
        "groups []string 0+",
        "include_authorized_operations bool 3+",
    )
    NAME = "DescribeGroups"
    API_KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 5
    RESPONSE = DescribeGroupsResponse

    def __init__(
        self,
        *,
        groups: list[str] = DEFAULT,
        include_authorized_operations: bool = False,
    ) -> None:
        self.groups: list[str] = [] if groups is DEFAULT else groups
        self.include_authorized_operations: bool = include_authorized_operations
