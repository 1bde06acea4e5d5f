"""DescribeDelegationToken (API key 41), versions 1-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DescribeDelegationTokenOwner(Struct):
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


class DescribedDelegationTokenRenewer(Struct):
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


class DescribedDelegationToken(Struct):
    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )
    FIELDS = (
        "principal_type string 0+",
        "principal_name string 0+",
        "token_requester_principal_type string 3+",
        "token_requester_principal_name string 3+",
        "issue_timestamp int64 0+",
        "expiry_timestamp int64 0+",
        "max_timestamp int64 0+",
        "token_id string 0+",
        "hmac bytes 0+",
        "renewers []DescribedDelegationTokenRenewer 0+",
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: bytes = b"",
        renewers: list[DescribedDelegationTokenRenewer] = DEFAULT,
    ) -> None:
        self.principal_type: str = principal_type
        self.principal_name: str = principal_name
        self.token_requester_principal_type: str = token_requester_principal_type
        self.token_requester_principal_name: str = token_requester_principal_name
        self.issue_timestamp: int = issue_timestamp
        self.expiry_timestamp: int = expiry_timestamp
        self.max_timestamp: int = max_timestamp
        self.token_id: str = token_id
        self.hmac: bytes = hmac
        self.renewers: list[DescribedDelegationTokenRenewer] = [] if renewers is DEFAULT else renewers


class DescribeDelegationTokenResponse(Response):
    __slots__ = ("error_code", "tokens", "throttle_time_ms")
    FIELDS = (
        "error_code int16 0+",
        "tokens []DescribedDelegationToken 0+",
        "throttle_time_ms int32 0+",
    )
    NAME = "DescribeDelegationToken"
    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] = DEFAULT,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.tokens: list[DescribedDelegationToken] = [] if tokens is DEFAULT else tokens
        self.throttle_time_ms: int = throttle_time_ms


class DescribeDelegationTokenRequest(Request[DescribeDelegationTokenResponse]):
    __slots__ = ("owners",)
    FIELDS = ("owners []DescribeDelegationTokenOwner 0+ null 0+",)
    NAME = "DescribeDelegationToken"
    API_KEY = 41
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeDelegationTokenResponse

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = DEFAULT,
    ) -> None:
        self.owners: list[DescribeDelegationTokenOwner] | None = [] if owners is DEFAULT else owners
