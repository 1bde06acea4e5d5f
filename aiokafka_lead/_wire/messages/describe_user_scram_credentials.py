"""DescribeUserScramCredentials (API key 50), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class UserName(Struct):
    __slots__ = ("name",)
    FIELDS = ("name string 0+",)

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name: str = name


class CredentialInfo(Struct):
    __slots__ = ("mechanism", "iterations")
    FIELDS = (
        "mechanism int8 0+",
        "iterations int32 0+",
    )

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism: int = mechanism
        self.iterations: int = iterations


class DescribeUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message", "credential_infos")
    FIELDS = (
        "user string 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "credential_infos []CredentialInfo 0+",
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = DEFAULT,
    ) -> None:
        self.user: str = user
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.credential_infos: list[CredentialInfo] = [] if credential_infos is DEFAULT else credential_infos


class DescribeUserScramCredentialsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "results []DescribeUserScramCredentialsResult 0+",
    )
    NAME = "DescribeUserScramCredentials"
    API_KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.results: list[DescribeUserScramCredentialsResult] = [] if results is DEFAULT else results


class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    __slots__ = ("users",)
    FIELDS = ("users []UserName 0+ null 0+",)
    NAME = "DescribeUserScramCredentials"
    API_KEY = 50
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeUserScramCredentialsResponse

    def __init__(
        self,
        *,
        users: list[UserName] | None = DEFAULT,
    ) -> None:
        self.users: list[UserName] | None = [] if users is DEFAULT else users
