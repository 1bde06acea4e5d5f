"""DescribeAcls (API key 29), versions 1-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class AclDescription(Struct):
    __slots__ = ("principal", "host", "operation", "permission_type")
    FIELDS = (
        "principal string 0+",
        "host string 0+",
        "operation int8 0+",
        "permission_type int8 0+",
    )

    def __init__(
        self,
        *,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.principal: str = principal
        self.host: str = host
        self.operation: int = operation
        self.permission_type: int = permission_type


class DescribeAclsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "pattern_type", "acls")
    FIELDS = (
        "resource_type int8 0+",
        "resource_name string 0+",
        "pattern_type int8 1+ = 3",
        "acls []AclDescription 0+",
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 3,
        acls: list[AclDescription] = DEFAULT,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.pattern_type: int = pattern_type
        self.acls: list[AclDescription] = [] if acls is DEFAULT else acls


class DescribeAclsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "resources")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "resources []DescribeAclsResource 0+",
    )
    NAME = "DescribeAcls"
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        resources: list[DescribeAclsResource] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resources: list[DescribeAclsResource] = [] if resources is DEFAULT else resources


class DescribeAclsRequest(Request[DescribeAclsResponse]):
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
    NAME = "DescribeAcls"
    API_KEY = 29
    MIN_VERSION = 1
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DescribeAclsResponse

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
