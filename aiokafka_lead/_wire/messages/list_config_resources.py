"""ListConfigResources (API key 74), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ConfigResource(Struct):
    __slots__ = ("resource_name", "resource_type")
    FIELDS = (
        "resource_name string 0+",
        "resource_type int8 1+ = 16 ignorable",
    )

    def __init__(
        self,
        *,
        resource_name: str = "",
        resource_type: int = 16,
    ) -> None:
        self.resource_name: str = resource_name
        self.resource_type: int = resource_type


class ListConfigResourcesResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "config_resources")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "config_resources []ConfigResource 0+",
    )
    NAME = "ListConfigResources"
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        config_resources: list[ConfigResource] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.config_resources: list[ConfigResource] = [] if config_resources is DEFAULT else config_resources


class ListConfigResourcesRequest(Request[ListConfigResourcesResponse]):
    __slots__ = ("resource_types",)
    FIELDS = ("resource_types []int8 1+",)
    NAME = "ListConfigResources"
    API_KEY = 74
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0
    RESPONSE = ListConfigResourcesResponse

    def __init__(
        self,
        *,
        resource_types: list[int] = DEFAULT,
    ) -> None:
        self.resource_types: list[int] = [] if resource_types is DEFAULT else resource_types
