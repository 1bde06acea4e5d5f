"""Heartbeat (API key 12), versions 0-4.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class HeartbeatResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 0+",
    )
    NAME = "Heartbeat"
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code


class HeartbeatRequest(Request[HeartbeatResponse]):
    __slots__ = ("group_id", "generation_id", "member_id", "group_instance_id")
    FIELDS = (
        "group_id string 0+",
        "generation_id int32 0+",
        "member_id string 0+",
        "group_instance_id string 3+ null 3+ = null",
    )
    NAME = "Heartbeat"
    API_KEY = 12
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = HeartbeatResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        generation_id: int = 0,
        member_id: str = "",
        group_instance_id: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.generation_id: int = generation_id
        self.member_id: str = member_id
        self.group_instance_id: str | None = group_instance_id
