"""ListTransactions (API key 66), versions 0-2.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class TransactionState(Struct):
    __slots__ = ("transactional_id", "producer_id", "transaction_state")
    FIELDS = (
        "transactional_id string 0+",
        "producer_id int64 0+",
        "transaction_state string 0+",
    )

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        transaction_state: str = "",
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.transaction_state: str = transaction_state


class ListTransactionsResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "unknown_state_filters", "transaction_states")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "unknown_state_filters []string 0+",
        "transaction_states []TransactionState 0+",
    )
    NAME = "ListTransactions"
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        unknown_state_filters: list[str] = DEFAULT,
        transaction_states: list[TransactionState] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.unknown_state_filters: list[str] = [] if unknown_state_filters is DEFAULT else unknown_state_filters
        self.transaction_states: list[TransactionState] = [] if transaction_states is DEFAULT else transaction_states


class ListTransactionsRequest(Request[ListTransactionsResponse]):
    __slots__ = ("state_filters", "producer_id_filters", "duration_filter", "transactional_id_pattern")
    FIELDS = (
        "state_filters []string 0+",
        "producer_id_filters []int64 0+",
        "duration_filter int64 1+ = -1",
        "transactional_id_pattern string 2+ null 2+ = null",
    )
    NAME = "ListTransactions"
    API_KEY = 66
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 0
    RESPONSE = ListTransactionsResponse

    def __init__(
        self,
        *,
        state_filters: list[str] = DEFAULT,
        producer_id_filters: list[int] = DEFAULT,
        duration_filter: int = -1,
        transactional_id_pattern: str | None = None,
    ) -> None:
        self.state_filters: list[str] = [] if state_filters is DEFAULT else state_filters
        self.producer_id_filters: list[int] = [] if producer_id_filters is DEFAULT else producer_id_filters
        self.duration_filter: int = duration_filter
        self.transactional_id_pattern: str | None = transactional_id_pattern
