"""ExpireDelegationToken (API key 40), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class ExpireDelegationTokenResponse(Response):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    FIELDS = (
        "error_code int16 0+",
        "expiry_timestamp_ms int64 0+",
        "throttle_time_ms int32 0+",
    )
    NAME = "ExpireDelegationToken"
    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        expiry_timestamp_ms: int = 0,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.throttle_time_ms: int = throttle_time_ms


class ExpireDelegationTokenRequest(Request[ExpireDelegationTokenResponse]):
    __slots__ = ("hmac", "expiry_time_period_ms")
    FIELDS = (
        "hmac bytes 0+",
        "expiry_time_period_ms int64 0+",
    )
    NAME = "ExpireDelegationToken"
    API_KEY = 40
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = ExpireDelegationTokenResponse

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        expiry_time_period_ms: int = 0,
    ) -> None:
        self.hmac: bytes = hmac
        self.expiry_time_period_ms: int = expiry_time_period_ms
