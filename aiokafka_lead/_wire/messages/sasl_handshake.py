"""SaslHandshake (API key 17), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

from __future__ import annotations

from ..message import DEFAULT, Request, Response


class SaslHandshakeResponse(Response):
    __slots__ = ("error_code", "mechanisms")
    FIELDS = (
        "error_code int16 0+",
        "mechanisms []string 0+",
    )
    NAME = "SaslHandshake"
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1

    def __init__(
        self,
        *,
        error_code: int = 0,
        mechanisms: list[str] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.mechanisms: list[str] = [] if mechanisms is DEFAULT else mechanisms


class SaslHandshakeRequest(Request[SaslHandshakeResponse]):
    __slots__ = ("mechanism",)
    FIELDS = ("mechanism string 0+",)
    NAME = "SaslHandshake"
    API_KEY = 17
    MIN_VERSION = 0
    MAX_VERSION = 1
    RESPONSE = SaslHandshakeResponse

    def __init__(
        self,
        *,
        mechanism: str = "",
    ) -> None:
        self.mechanism: str = mechanism
