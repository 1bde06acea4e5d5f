"""DeleteGroups (API key 42), versions 0-3.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class DeletableGroupResult(Struct):
    __slots__ = ("group_id", "error_code", "error_message")
    FIELDS = (
        "group_id string 0+",
        "error_code int16 0+",
        "error_message string 3+ null 3+ = null ignorable",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id: str = group_id
        self.error_code: int = error_code
        self.error_message: str | None = error_message


class DeleteGroupsResponse(Response):
    __slots__ = ("throttle_time_ms", "results")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "results []DeletableGroupResult 0+",
    )
    NAME = "DeleteGroups"
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.results: list[DeletableGroupResult] = [] if results is DEFAULT else results


class DeleteGroupsRequest(Request[DeleteGroupsResponse]):
    __slots__ = ("groups_names",)
    FIELDS = ("groups_names []string 0+",)
    NAME = "DeleteGroups"
    API_KEY = 42
    MIN_VERSION = 0
    MAX_VERSION = 3
    FLEXIBLE_FROM = 2
    RESPONSE = DeleteGroupsResponse

    def __init__(
        self,
        *,
        groups_names: list[str] = DEFAULT,
    ) -> None:
        self.groups_names: list[str] = [] if groups_names is DEFAULT else groups_names
