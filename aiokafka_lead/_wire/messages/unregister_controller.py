"""UnregisterController (API key 94), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class UnregisterControllerResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )
    NAME = "UnregisterController"
    API_KEY = 94
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


class UnregisterControllerRequest(Request[UnregisterControllerResponse]):
    __slots__ = ("controller_id",)
    FIELDS = ("controller_id int32 0+",)
    NAME = "UnregisterController"
    API_KEY = 94
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = UnregisterControllerResponse

    def __init__(
        self,
        *,
        controller_id: int = 0,
    ) -> None:
        self.controller_id: int = controller_id
