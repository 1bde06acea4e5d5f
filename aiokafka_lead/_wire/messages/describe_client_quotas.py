"""DescribeClientQuotas (API key 48), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ComponentData(Struct):
    __slots__ = ("entity_type", "match_type", "match")
    FIELDS = (
        "entity_type string 0+",
        "match_type int8 0+",
        "match string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        match_type: int = 0,
        match: str | None = "",
    ) -> None:
        self.entity_type: str = entity_type
        self.match_type: int = match_type
        self.match: str | None = match


class EntityData(Struct):
    __slots__ = ("entity_type", "entity_name")
    FIELDS = (
        "entity_type string 0+",
        "entity_name string 0+ null 0+",
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type: str = entity_type
        self.entity_name: str | None = entity_name


class ValueData(Struct):
    __slots__ = ("key", "value")
    FIELDS = (
        "key string 0+",
        "value float64 0+",
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
    ) -> None:
        self.key: str = key
        self.value: float = value


class EntryData(Struct):
    __slots__ = ("entity", "values")
    FIELDS = (
        "entity []EntityData 0+",
        "values []ValueData 0+",
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = DEFAULT,
        values: list[ValueData] = DEFAULT,
    ) -> None:
        self.entity: list[EntityData] = [] if entity is DEFAULT else entity
        self.values: list[ValueData] = [] if values is DEFAULT else values


class DescribeClientQuotasResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "error_message", "entries")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "entries []EntryData 0+ null 0+",
    )
    NAME = "DescribeClientQuotas"
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        entries: list[EntryData] | None = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.entries: list[EntryData] | None = [] if entries is DEFAULT else entries


class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse]):
    __slots__ = ("components", "strict")
    FIELDS = (
        "components []ComponentData 0+",
        "strict bool 0+",
    )
    NAME = "DescribeClientQuotas"
    API_KEY = 48
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1
    RESPONSE = DescribeClientQuotasResponse

    def __init__(
        self,
        *,
        components: list[ComponentData] = DEFAULT,
        strict: bool = False,
    ) -> None:
        self.components: list[ComponentData] = [] if components is DEFAULT else components
        self.strict: bool = strict
