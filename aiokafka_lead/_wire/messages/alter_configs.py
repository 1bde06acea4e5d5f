"""AlterConfigs (API key 33), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class AlterableConfig(Struct):
    __slots__ = ("name", "value")
    FIELDS = (
        "name string 0+",
        "value string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name: str = name
        self.value: str | None = value


class AlterConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configs")
    FIELDS = (
        "resource_type int8 0+",
        "resource_name string 0+",
        "configs []AlterableConfig 0+",
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[AlterableConfig] = DEFAULT,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configs: list[AlterableConfig] = [] if configs is DEFAULT else configs


class AlterConfigsResourceResponse(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "resource_type int8 0+",
        "resource_name string 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name


class AlterConfigsResponse(Response):
    __slots__ = ("throttle_time_ms", "responses")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "responses []AlterConfigsResourceResponse 0+",
    )
    NAME = "AlterConfigs"
    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[AlterConfigsResourceResponse] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.responses: list[AlterConfigsResourceResponse] = [] if responses is DEFAULT else responses


class AlterConfigsRequest(Request[AlterConfigsResponse]):
    __slots__ = ("resources", "validate_only")
    FIELDS = (
        "resources []AlterConfigsResource 0+",
        "validate_only bool 0+",
    )
    NAME = "AlterConfigs"
    API_KEY = 33
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2
    RESPONSE = AlterConfigsResponse

    def __init__(
        self,
        *,
        resources: list[AlterConfigsResource] = DEFAULT,
        validate_only: bool = False,
    ) -> None:
        self.resources: list[AlterConfigsResource] = [] if resources is DEFAULT else resources
        self.validate_only: bool = validate_only
