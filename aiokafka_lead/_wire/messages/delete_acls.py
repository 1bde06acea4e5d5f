"""DeleteAcls (API key 31), versions 1-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DeleteAclsFilter(Struct):
    __slots__ = (
        "resource_type_filter",
        "resource_name_filter",
        "pattern_type_filter",
        "principal_filter",
        "host_filter",
        "operation",
        "permission_type",
    )
    FIELDS = (
        "resource_type_filter int8 0+",
        "resource_name_filter string 0+ null 0+",
        "pattern_type_filter int8 1+ = 3",
        "principal_filter string 0+ null 0+",
        "host_filter string 0+ null 0+",
        "operation int8 0+",
        "permission_type int8 0+",
    )

    def __init__(
        self,
        *,
        resource_type_filter: int = 0,
        resource_name_filter: str | None = "",
        pattern_type_filter: int = 3,
        principal_filter: str | None = "",
        host_filter: str | None = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.resource_type_filter: int = resource_type_filter
        self.resource_name_filter: str | None = resource_name_filter
        self.pattern_type_filter: int = pattern_type_filter
        self.principal_filter: str | None = principal_filter
        self.host_filter: str | None = host_filter
        self.operation: int = operation
        self.permission_type: int = permission_type


class DeleteAclsMatchingAcl(Struct):
    __slots__ = (
        "error_code",
        "error_message",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "resource_type int8 0+",
        "resource_name string 0+",
        "pattern_type int8 1+ = 3",
        "principal string 0+",
        "host string 0+",
        "operation int8 0+",
        "permission_type int8 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.pattern_type: int = pattern_type
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class DeleteAclsFilterResult(Struct):
    __slots__ = ("error_code", "error_message", "matching_acls")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "matching_acls []DeleteAclsMatchingAcl 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        matching_acls: list[DeleteAclsMatchingAcl] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.matching_acls: list[DeleteAclsMatchingAcl] = [] if matching_acls is DEFAULT else matching_acls


class DeleteAclsResponse(Response):
    __slots__ = ("throttle_time_ms", "filter_results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "filter_results []DeleteAclsFilterResult 0+",
    )
    NAME = "DeleteAcls"
    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        filter_results: list[DeleteAclsFilterResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.filter_results: list[DeleteAclsFilterResult] = [] if filter_results is DEFAULT else filter_results


class DeleteAclsRequest(Request[DeleteAclsResponse]):
    __slots__ = ("filters",)
    FIELDS = ("filters []DeleteAclsFilter 0+",)
    NAME = "DeleteAcls"
    API_KEY = 31
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteAclsResponse

    def __init__(
        self,
        *,
        filters: list[DeleteAclsFilter] = DEFAULT,
    ) -> None:
        self.filters: list[DeleteAclsFilter] = [] if filters is DEFAULT else filters
