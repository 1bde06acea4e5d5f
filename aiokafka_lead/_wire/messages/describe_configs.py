"""DescribeConfigs (API key 32), versions 1-4.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DescribeConfigsResource(Struct):
    __slots__ = ("resource_type", "resource_name", "configuration_keys")
    FIELDS = (
        "resource_type int8 0+",
        "resource_name string 0+",
        "configuration_keys []string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        configuration_keys: list[str] | None = DEFAULT,
    ) -> None:
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configuration_keys: list[str] | None = [] if configuration_keys is DEFAULT else configuration_keys


class DescribeConfigsSynonym(Struct):
    __slots__ = ("name", "value", "source")
    FIELDS = (
        "name string 1+",
        "value string 1+ null 0+",
        "source int8 1+",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        source: int = 0,
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.source: int = source


class DescribeConfigsResourceResult(Struct):
    __slots__ = (
        "name",
        "value",
        "read_only",
        "config_source",
        "is_sensitive",
        "synonyms",
        "config_type",
        "documentation",
    )
    FIELDS = (
        "name string 0+",
        "value string 0+ null 0+",
        "read_only bool 0+",
        "config_source int8 1+ = -1 ignorable",
        "is_sensitive bool 0+",
        "synonyms []DescribeConfigsSynonym 1+ ignorable",
        "config_type int8 3+ = 0 ignorable",
        "documentation string 3+ null 0+ ignorable",
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
        synonyms: list[DescribeConfigsSynonym] = DEFAULT,
        config_type: int = 0,
        documentation: str | None = "",
    ) -> None:
        self.name: str = name
        self.value: str | None = value
        self.read_only: bool = read_only
        self.config_source: int = config_source
        self.is_sensitive: bool = is_sensitive
        self.synonyms: list[DescribeConfigsSynonym] = [] if synonyms is DEFAULT else synonyms
        self.config_type: int = config_type
        self.documentation: str | None = documentation


class DescribeConfigsResult(Struct):
    __slots__ = ("error_code", "error_message", "resource_type", "resource_name", "configs")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "resource_type int8 0+",
        "resource_name string 0+",
        "configs []DescribeConfigsResourceResult 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        resource_type: int = 0,
        resource_name: str = "",
        configs: list[DescribeConfigsResourceResult] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.resource_type: int = resource_type
        self.resource_name: str = resource_name
        self.configs: list[DescribeConfigsResourceResult] = [] if configs is DEFAULT else configs


class DescribeConfigsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []DescribeConfigsResult 0+",
    )
    NAME = "DescribeConfigs"
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DescribeConfigsResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DescribeConfigsResult] = [] if results is DEFAULT else results


class DescribeConfigsRequest(Request[DescribeConfigsResponse]):
    __slots__ = ("resources", "include_synonyms", "include_documentation")
    FIELDS = (
        "resources []DescribeConfigsResource 0+",
        "include_synonyms bool 1+ = false",
        "include_documentation bool 3+ = false",
    )
    NAME = "DescribeConfigs"
    API_KEY = 32
    MIN_VERSION = 1
    MAX_VERSION = 4
    FLEXIBLE_FROM = 4
    RESPONSE = DescribeConfigsResponse

    def __init__(
        self,
        *,
        resources: list[DescribeConfigsResource] = DEFAULT,
        include_synonyms: bool = False,
        include_documentation: bool = False,
    ) -> None:
        self.resources: list[DescribeConfigsResource] = [] if resources is DEFAULT else resources
        self.include_synonyms: bool = include_synonyms
        self.include_documentation: bool = include_documentation
