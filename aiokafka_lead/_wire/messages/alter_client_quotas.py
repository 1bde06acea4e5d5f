"""AlterClientQuotas (API key 49), versions 0-1.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class RequestEntityData(Struct):
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


class OpData(Struct):
    __slots__ = ("key", "value", "remove")
    FIELDS = (
        "key string 0+",
        "value float64 0+",
        "remove bool 0+",
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.key: str = key
        self.value: float = value
        self.remove: bool = remove


class RequestEntryData(Struct):
    __slots__ = ("entity", "ops")
    FIELDS = (
        "entity []RequestEntityData 0+",
        "ops []OpData 0+",
    )

    def __init__(
        self,
        *,
        entity: list[RequestEntityData] = DEFAULT,
        ops: list[OpData] = DEFAULT,
    ) -> None:
        self.entity: list[RequestEntityData] = [] if entity is DEFAULT else entity
        self.ops: list[OpData] = [] if ops is DEFAULT else ops


class ResponseEntityData(Struct):
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


class ResponseEntryData(Struct):
    __slots__ = ("error_code", "error_message", "entity")
    FIELDS = (
        "error_code int16 0+",
        "error_message string 0+ null 0+",
        "entity []ResponseEntityData 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = "",
        entity: list[ResponseEntityData] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.error_message: str | None = error_message
        self.entity: list[ResponseEntityData] = [] if entity is DEFAULT else entity


class AlterClientQuotasResponse(Response):
    __slots__ = ("throttle_time_ms", "entries")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "entries []ResponseEntryData 0+",
    )
    NAME = "AlterClientQuotas"
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        entries: list[ResponseEntryData] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.entries: list[ResponseEntryData] = [] if entries is DEFAULT else entries


class AlterClientQuotasRequest(Request[AlterClientQuotasResponse]):
    __slots__ = ("entries", "validate_only")
    FIELDS = (
        "entries []RequestEntryData 0+",
        "validate_only bool 0+",
    )
    NAME = "AlterClientQuotas"
    API_KEY = 49
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 1
    RESPONSE = AlterClientQuotasResponse

    def __init__(
        self,
        *,
        entries: list[RequestEntryData] = DEFAULT,
        validate_only: bool = False,
    ) -> None:
        self.entries: list[RequestEntryData] = [] if entries is DEFAULT else entries
        self.validate_only: bool = validate_only
