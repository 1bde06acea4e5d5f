"""JoinGroup (API key 11), versions 0-9.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class JoinGroupRequestProtocol(Struct):
    __slots__ = ("name", "metadata")
    FIELDS = (
        "name string 0+",
        "metadata bytes 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: bytes = b"",
    ) -> None:
        self.name: str = name
        self.metadata: bytes = metadata


class JoinGroupResponseMember(Struct):
    __slots__ = ("member_id", "group_instance_id", "metadata")
    FIELDS = (
        "member_id string 0+",
        "group_instance_id string 5+ null 5+ = null ignorable",
        "metadata bytes 0+",
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        metadata: bytes = b"",
    ) -> None:
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.metadata: bytes = metadata


class JoinGroupResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "generation_id",
        "protocol_type",
        "protocol_name",
        "leader",
        "skip_assignment",
        "member_id",
        "members",
    )
    FIELDS = (
        "throttle_time_ms int32 2+ ignorable",
        "error_code int16 0+",
        "generation_id int32 0+ = -1",
        "protocol_type string 7+ null 7+ = null ignorable",
        "protocol_name string 0+ null 7+",
        "leader string 0+",
        "skip_assignment bool 9+ = false",
        "member_id string 0+",
        "members []JoinGroupResponseMember 0+",
    )
    NAME = "JoinGroup"
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        generation_id: int = -1,
        protocol_type: str | None = None,
        protocol_name: str | None = "",
        leader: str = "",
        skip_assignment: bool = False,
        member_id: str = "",
        members: list[JoinGroupResponseMember] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.generation_id: int = generation_id
        self.protocol_type: str | None = protocol_type
        self.protocol_name: str | None = protocol_name
        self.leader: str = leader
        self.skip_assignment: bool = skip_assignment
        self.member_id: str = member_id
        self.members: list[JoinGroupResponseMember] = [] if members is DEFAULT else members


class JoinGroupRequest(Request[JoinGroupResponse]):
    __slots__ = (
        "group_id",
        "session_timeout_ms",
        "rebalance_timeout_ms",
        "member_id",
        "group_instance_id",
        "protocol_type",
        "protocols",
        "reason",
    )
    FIELDS = (
        "group_id string 0+",
        "session_timeout_ms int32 0+",
        "rebalance_timeout_ms int32 1+ = -1 ignorable",
        "member_id string 0+",
        "group_instance_id string 5+ null 5+ = null",
        "protocol_type string 0+",
        "protocols []JoinGroupRequestProtocol 0+",
        "reason string 8+ null 8+ = null ignorable",
    )
    NAME = "JoinGroup"
    API_KEY = 11
    MIN_VERSION = 0
    MAX_VERSION = 9
    FLEXIBLE_FROM = 6
    RESPONSE = JoinGroupResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        session_timeout_ms: int = 0,
        rebalance_timeout_ms: int = -1,
        member_id: str = "",
        group_instance_id: str | None = None,
        protocol_type: str = "",
        protocols: list[JoinGroupRequestProtocol] = DEFAULT,
        reason: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.session_timeout_ms: int = session_timeout_ms
        self.rebalance_timeout_ms: int = rebalance_timeout_ms
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
        self.protocol_type: str = protocol_type
        self.protocols: list[JoinGroupRequestProtocol] = [] if protocols is DEFAULT else protocols
        self.reason: str | None = reason
