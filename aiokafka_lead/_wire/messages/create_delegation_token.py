"""CreateDelegationToken (API key 38), versions 1-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class CreatableRenewers(Struct):
    __slots__ = ("principal_type", "principal_name")
    FIELDS = (
        "principal_type string 0+",
        "principal_name string 0+",
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name


class CreateDelegationTokenResponse(Response):
    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )
    FIELDS = (
        "error_code int16 0+",
        "principal_type string 0+",
        "principal_name string 0+",
        "token_requester_principal_type string 3+",
        "token_requester_principal_name string 3+",
        "issue_timestamp_ms int64 0+",
        "expiry_timestamp_ms int64 0+",
        "max_timestamp_ms int64 0+",
        "token_id string 0+",
        "hmac bytes 0+",
        "throttle_time_ms int32 0+",
    )
    NAME = "CreateDelegationToken"
    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name
        self.token_requester_principal_type: str = token_requester_principal_type
        self.token_requester_principal_name: str = token_requester_principal_name
        self.issue_timestamp_ms: int = issue_timestamp_ms
        self.expiry_timestamp_ms: int = expiry_timestamp_ms
        self.max_timestamp_ms: int = max_timestamp_ms
        self.token_id: str = token_id
        self.hmac: bytes = hmac
        self.throttle_time_ms: int = throttle_time_ms


class CreateDelegationTokenRequest(Request[CreateDelegationTokenResponse]):
    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")
    FIELDS = (
        "owner_principal_type string 3+ null 3+",
        "owner_principal_name string 3+ null 3+",
        "renewers []CreatableRenewers 0+",
        "max_lifetime_ms int64 0+",
    )
    NAME = "CreateDelegationToken"
    API_KEY = 38
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreateDelegationTokenResponse

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = DEFAULT,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type: str | None = owner_principal_type
        self.owner_principal_name: str | None = owner_principal_name
        self.renewers: list[CreatableRenewers] = [] if renewers is DEFAULT else renewers
        self.max_lifetime_ms: int = max_lifetime_ms
