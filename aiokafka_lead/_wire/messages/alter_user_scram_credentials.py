"""AlterUserScramCredentials (API key 51), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ScramCredentialDeletion(Struct):
    __slots__ = ("name", "mechanism")
    FIELDS = (
        "name string 0+",
        "mechanism int8 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism


class ScramCredentialUpsertion(Struct):
    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")
    FIELDS = (
        "name string 0+",
        "mechanism int8 0+",
        "iterations int32 0+",
        "salt bytes 0+",
        "salted_password bytes 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name: str = name
        self.mechanism: int = mechanism
        self.iterations: int = iterations
        self.salt: bytes = salt
        self.salted_password: bytes = salted_password


class AlterUserScramCredentialsResult(Struct):
    __slots__ = ("user", "error_code", "error_message")
    FIELDS = (
        "user string 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user: str = user
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class AlterUserScramCredentialsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []AlterUserScramCredentialsResult 0+",
    )
    NAME = "AlterUserScramCredentials"
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AlterUserScramCredentialsResult] = [] if results is DEFAULT else results


class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    __slots__ = ("deletions", "upsertions")
    FIELDS = (
        "deletions []ScramCredentialDeletion 0+",
        "upsertions []ScramCredentialUpsertion 0+",
    )
    NAME = "AlterUserScramCredentials"
    API_KEY = 51
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = AlterUserScramCredentialsResponse

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] = DEFAULT,
        upsertions: list[ScramCredentialUpsertion] = DEFAULT,
    ) -> None:
        self.deletions: list[ScramCredentialDeletion] = [] if deletions is DEFAULT else deletions
        self.upsertions: list[ScramCredentialUpsertion] = [] if upsertions is DEFAULT else upsertions
