"""ListGroups (API key 16), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class ListedGroup(Struct):
    __slots__ = ("group_id", "protocol_type", "group_state", "group_type")
    FIELDS = (
        "group_id string 0+",
        "protocol_type string 0+",
        "group_state string 4+ ignorable",
        "group_type string 5+ ignorable",
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        protocol_type: str = "",
        group_state: str = "",
        group_type: str = "",
    ) -> None:
        self.group_id: str = group_id
        self.protocol_type: str = protocol_type
        self.group_state: str = group_state
        self.group_type: str = group_type


class ListGroupsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "groups")
    FIELDS = (
        "throttle_time_ms int32 1+ ignorable",
        "error_code int16 0+",
        "groups []ListedGroup 0+",
    )
    NAME = "ListGroups"
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        groups: list[ListedGroup] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.groups: list[ListedGroup] = [] if groups is DEFAULT else groups


class ListGroupsRequest(Request[ListGroupsResponse]):
    __slots__ = ("states_filter", "types_filter")
    FIELDS = (
        "states_filter []string 4+",
        "types_filter []string 5+",
    )
    NAME = "ListGroups"
    API_KEY = 16
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = ListGroupsResponse

    def __init__(
        self,
        *,
        states_filter: list[str] = DEFAULT,
        types_filter: list[str] = DEFAULT,
    ) -> None:
        self.states_filter: list[str] = [] if states_filter is DEFAULT else states_filter
        self.types_filter: list[str] = [] if types_filter is DEFAULT else types_filter
