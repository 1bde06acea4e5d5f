"""DeleteTopics (API key 20), versions 1-6.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response, Struct

if TYPE_CHECKING:
    from uuid import UUID


class DeleteTopicState(Struct):
    __slots__ = ("name", "topic_id")
    FIELDS = (
        "name string 6+ null 6+ = null",
        "topic_id uuid 6+",
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.name: str | None = name
        self.topic_id: UUID = topic_id


class DeletableTopicResult(Struct):
    __slots__ = ("name", "topic_id", "error_code", "error_message")
    FIELDS = (
        "name string 0+ null 6+",
        "topic_id uuid 6+ ignorable",
        "error_code int16 0+",
        "error_message string 5+ null 5+ = null ignorable",
    )

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: UUID = ZERO_UUID,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name: str | None = name
        self.topic_id: UUID = topic_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteTopicsResponse(Response):
    __slots__ = ("throttle_time_ms", "responses")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "responses []DeletableTopicResult 0+",
    )
    NAME = "DeleteTopics"
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[DeletableTopicResult] = [] if responses is DEFAULT else responses


class DeleteTopicsRequest(Request[DeleteTopicsResponse]):
    __slots__ = ("topics", "topic_names", "timeout_ms")
    FIELDS = (
        "topics []DeleteTopicState 6+",
        "topic_names []string 0-5 ignorable",
        "timeout_ms int32 0+",
    )
    NAME = "DeleteTopics"
    API_KEY = 20
    MIN_VERSION = 1
    MAX_VERSION = 6
    FLEXIBLE_FROM = 4
    RESPONSE = DeleteTopicsResponse

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = DEFAULT,
        topic_names: list[str] = DEFAULT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics: list[DeleteTopicState] = [] if topics is DEFAULT else topics
        self.topic_names: list[str] = [] if topic_names is DEFAULT else topic_names
        self.timeout_ms: int = timeout_ms
