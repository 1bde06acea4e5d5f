"""AddRaftVoter (API key 80), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class Listener(Struct):
    __slots__ = ("name", "host", "port")
    FIELDS = (
        "name string 0+",
        "host string 0+",
        "port uint16 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name: str = name
        self.host: str = host
        self.port: int = port


class AddRaftVoterResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ ignorable",
    )
    NAME = "AddRaftVoter"
    API_KEY = 80
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class AddRaftVoterRequest(Request[AddRaftVoterResponse]):
    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")
    FIELDS = (
        "cluster_id string 0+ null 0+",
        "timeout_ms int32 0+",
        "voter_id int32 0+",
        "voter_directory_id uuid 0+",
        "listeners []Listener 0+",
        "ack_when_committed bool 1+ = true",
    )
    NAME = "AddRaftVoter"
    API_KEY = 80
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = AddRaftVoterResponse

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
        listeners: list[Listener] = DEFAULT,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.timeout_ms: int = timeout_ms
        self.voter_id: int = voter_id
        self.voter_directory_id: UUID = voter_directory_id
        self.listeners: list[Listener] = [] if listeners is DEFAULT else listeners
        self.ack_when_committed: bool = ack_when_committed
