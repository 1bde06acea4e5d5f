"""SaslAuthenticate (API key 36), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class SaslAuthenticateResponse(Response):
    __slots__ = ("error_code", "error_message", "auth_bytes", "session_lifetime_ms")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "auth_bytes bytes 0+",
        "session_lifetime_ms int64 1+ = 0 ignorable",
    )
    NAME = "SaslAuthenticate"
    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        auth_bytes: bytes = b"",
        session_lifetime_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.auth_bytes: bytes = auth_bytes
        self.session_lifetime_ms: int = session_lifetime_ms


class SaslAuthenticateRequest(Request[SaslAuthenticateResponse]):
    __slots__ = ("auth_bytes",)
    FIELDS = ("auth_bytes bytes 0+",)
    NAME = "SaslAuthenticate"
    API_KEY = 36
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = SaslAuthenticateResponse

    def __init__(
        self,
        *,
        auth_bytes: bytes = b"",
    ) -> None:
        self.auth_bytes: bytes = auth_bytes
