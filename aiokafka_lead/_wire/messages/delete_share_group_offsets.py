"""DeleteShareGroupOffsets (API key 92), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class DeleteShareGroupOffsetsRequestTopic(Struct):
    __slots__ = ("topic_name",)
    FIELDS = ("topic_name string 0+",)

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name: str = topic_name


class DeleteShareGroupOffsetsResponseTopic(Struct):
    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")
    FIELDS = (
        "topic_name string 0+",
        "topic_id uuid 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name: str = topic_name
        self.topic_id: UUID = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteShareGroupOffsetsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+ = null",
        "responses []DeleteShareGroupOffsetsResponseTopic 0+",
    )
    NAME = "DeleteShareGroupOffsets"
    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.responses: list[DeleteShareGroupOffsetsResponseTopic] = [] if responses is DEFAULT else responses


class DeleteShareGroupOffsetsRequest(Request[DeleteShareGroupOffsetsResponse]):
    __slots__ = ("group_id", "topics")
    FIELDS = (
        "group_id string 0+",
        "topics []DeleteShareGroupOffsetsRequestTopic 0+",
    )
    NAME = "DeleteShareGroupOffsets"
    API_KEY = 92
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DeleteShareGroupOffsetsResponse

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] = DEFAULT,
    ) -> None:
        self.group_id: str = group_id
        self.topics: list[DeleteShareGroupOffsetsRequestTopic] = [] if topics is DEFAULT else topics
