"""UnregisterBroker (API key 64), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class UnregisterBrokerResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )
    NAME = "UnregisterBroker"
    API_KEY = 64
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


class UnregisterBrokerRequest(Request[UnregisterBrokerResponse]):
    __slots__ = ("broker_id",)
    FIELDS = ("broker_id int32 0+",)
    NAME = "UnregisterBroker"
    API_KEY = 64
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = UnregisterBrokerResponse

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id: int = broker_id
