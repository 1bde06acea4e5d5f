"""CreateAcls (API key 30), versions 1-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class AclCreation(Struct):
    __slots__ = (
        "resource_type",
        "resource_name",
        "resource_pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    FIELDS = (
        "resource_type int8 0+",
        "resource_name string 0+",
        "resource_pattern_type int8 1+ = 3",
        "principal string 0+",
        "host string 0+",
        "operation int8 0+",
        "permission_type int8 0+",
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        resource_pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.resource_pattern_type: int = resource_pattern_type
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class AclCreationResult(Struct):
    __slots__ = ("error_code", "error_message")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class CreateAclsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []AclCreationResult 0+",
    )
    NAME = "CreateAcls"
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AclCreationResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[AclCreationResult] = [] if results is DEFAULT else results


class CreateAclsRequest(Request[CreateAclsResponse]):
    __slots__ = ("creations",)
    FIELDS = ("creations []AclCreation 0+",)
    NAME = "CreateAcls"
    API_KEY = 30
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = CreateAclsResponse

    def __init__(
        self,
        *,
        creations: list[AclCreation] = DEFAULT,
    ) -> None:
        self.creations: list[AclCreation] = [] if creations is DEFAULT else creations
