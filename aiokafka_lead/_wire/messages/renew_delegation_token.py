"""RenewDelegationToken (API key 39), versions 1-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

from __future__ import annotations

from ..message import Request, Response


class RenewDelegationTokenResponse(Response):
    __slots__ = ("error_code", "expiry_timestamp_ms", "throttle_time_ms")
    FIELDS = (
        "error_code int16 0+",
        "expiry_timestamp_ms int64 0+",
        "throttle_time_ms int32 0+",
    )
    NAME = "RenewDelegationToken"
    API_KEY = 39
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


class RenewDelegationTokenRequest(Request[RenewDelegationTokenResponse]):
    __slots__ = ("hmac", "renew_period_ms")
    FIELDS = (
        "hmac bytes 0+",
        "renew_period_ms int64 0+",
    )
    NAME = "RenewDelegationToken"
    API_KEY = 39
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = RenewDelegationTokenResponse

    def __init__(
        self,
        *,
        hmac: bytes = b"",
        renew_period_ms: int = 0,
    ) -> None:
        self.hmac: bytes = hmac
        self.renew_period_ms: int = renew_period_ms
