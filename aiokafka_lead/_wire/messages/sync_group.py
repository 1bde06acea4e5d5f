"""SyncGroup (API key 14), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class SyncGroupRequestAssignment(Struct):
    __slots__ = ("member_id", "assignment")
    FIELDS = (
        "member_id string 0+",
        "assignment bytes 0+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        assignment: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.assignment: bytes = assignment


class SyncGroupResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "protocol_type", "protocol_name", "assignment")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 0+",
        "protocol_type string 5+ null 5+ = null ignorable",
        "protocol_name string 5+ null 5+ = null ignorable",
        "assignment bytes 0+",
    )
    NAME = "SyncGroup"
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignment: bytes = b"",
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignment: bytes = assignment


class SyncGroupRequest(Request[SyncGroupResponse]):
    __slots__ = (
        "group_id",
        "generation_id",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocol_name",
        "assignments",
    )
    FIELDS = (
        "group_id string 0+",
        "generation_id int32 0+",
        "member_id string 0+",
        "group_instance_id string 3+ null 3+ = null",
        "protocol_type string 5+ null 5+ = null ignorable",
        "protocol_name string 5+ null 5+ = null ignorable",
        "assignments []SyncGroupRequestAssignment 0+",
    )
    NAME = "SyncGroup"
    API_KEY = 14
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 4
    RESPONSE = SyncGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol_name: str | None = None,
        assignments: list[SyncGroupRequestAssignment] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.assignments: list[SyncGroupRequestAssignment] = [] if assignments is DEFAULT else assignments
