"""LeaveGroup (API key 13), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class MemberIdentity(Struct):
    __slots__ = ("member_id", "group_instance_id", "reason")
    FIELDS = (
        "member_id string 3+",
        "group_instance_id string 3+ null 3+ = null",
        "reason string 5+ null 5+ = null ignorable",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        reason: str | None = None,
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.reason: str | None = reason


class MemberResponse(Struct):
    __slots__ = ("member_id", "group_instance_id", "error_code")
    FIELDS = (
        "member_id string 3+",
        "group_instance_id string 3+ null 3+",
        "error_code int16 3+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = "",
        error_code: int = 0,
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.error_code: int = error_code


class LeaveGroupResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "members")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 0+",
        "members []MemberResponse 3+",
    )
    NAME = "LeaveGroup"
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        members: list[MemberResponse] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.members: list[MemberResponse] = [] if members is DEFAULT else members


class LeaveGroupRequest(Request[LeaveGroupResponse]):
    __slots__ = ("group_id", "member_id", "members")
    FIELDS = (
        "group_id string 0+",
        "member_id string 0-2",
        "members []MemberIdentity 3+",
    )
    NAME = "LeaveGroup"
    API_KEY = 13
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4
    RESPONSE = LeaveGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        members: list[MemberIdentity] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.member_id: str = member_id
        self.members: list[MemberIdentity] = [] if members is DEFAULT else members
