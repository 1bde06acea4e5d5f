"""RemoveRaftVoter (API key 81), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import ZERO_UUID, Request, Response

if TYPE_CHECKING:
    from uuid import UUID


class RemoveRaftVoterResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ ignorable",
    )
    NAME = "RemoveRaftVoter"
    API_KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
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


class RemoveRaftVoterRequest(Request[RemoveRaftVoterResponse]):
    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")
    FIELDS = (
        "cluster_id string 0+ null 0+",
        "voter_id int32 0+",
        "voter_directory_id uuid 0+",
    )
    NAME = "RemoveRaftVoter"
    API_KEY = 81
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = RemoveRaftVoterResponse

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: UUID = ZERO_UUID,
    ) -> None:
        self.cluster_id: str | None = cluster_id
        self.voter_id: int = voter_id
        self.voter_directory_id: UUID = voter_directory_id
