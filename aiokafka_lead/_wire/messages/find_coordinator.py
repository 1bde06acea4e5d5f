"""FindCoordinator (API key 10), versions 0-6.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class Coordinator(Struct):
    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")
    FIELDS = (
        "key string 4+",
        "node_id int32 4+",
        "host string 4+",
        "port int32 4+",
        "error_code int16 4+",
        "error_message string 4+ null 4+ ignorable",
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key: str = key
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class FindCoordinatorResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 0-3",
        "error_message string 1-3 null 1-3 ignorable",
        "node_id int32 0-3",
        "host string 0-3",
        "port int32 0-3",
        "coordinators []Coordinator 4+",
    )
    NAME = "FindCoordinator"
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.node_id: int = node_id
        self.host: str = host
        self.port: int = port
        self.coordinators: list[Coordinator] = [] if coordinators is DEFAULT else coordinators


class FindCoordinatorRequest(Request[FindCoordinatorResponse]):
    __slots__ = ("key", "key_type", "coordinator_keys")
    FIELDS = (
        "key string 0-3",
        "key_type int8 1+ = 0",
        "coordinator_keys []string 4+",
    )
    NAME = "FindCoordinator"
    API_KEY = 10
    MIN_VERSION = 0
    MAX_VERSION = 6
    FLEXIBLE_FROM = 3
    RESPONSE = FindCoordinatorResponse

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = DEFAULT,
    ) -> None:
        self.key: str = key
        self.key_type: int = key_type
        self.coordinator_keys: list[str] = [] if coordinator_keys is DEFAULT else coordinator_keys
