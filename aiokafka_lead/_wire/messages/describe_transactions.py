"""DescribeTransactions (API key 65), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import DEFAULT, Request, Response, Struct


class TopicData(Struct):
    __slots__ = ("topic", "partitions")
    FIELDS = (
        "topic string 0+",
        "partitions []int32 0+",
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = DEFAULT,
    ) -> None:
        self.topic: str = topic
        self.partitions: list[int] = [] if partitions is DEFAULT else partitions


class TransactionState(Struct):
    __slots__ = (
        "error_code",
        "transactional_id",
        "transaction_state",
        "transaction_timeout_ms",
        "transaction_start_time_ms",
        "producer_id",
        "producer_epoch",
        "topics",
    )
    FIELDS = (
        "error_code int16 0+",
        "transactional_id string 0+",
        "transaction_state string 0+",
        "transaction_timeout_ms int32 0+",
        "transaction_start_time_ms int64 0+",
        "producer_id int64 0+",
        "producer_epoch int16 0+",
        "topics []TopicData 0+",
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        transactional_id: str = "",
        transaction_state: str = "",
        transaction_timeout_ms: int = 0,
        transaction_start_time_ms: int = 0,
        producer_id: int = 0,
        producer_epoch: int = 0,
        topics: list[TopicData] = DEFAULT,
    ) -> None:
        self.error_code: int = error_code
        self.transactional_id: str = transactional_id
        self.transaction_state: str = transaction_state
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.transaction_start_time_ms: int = transaction_start_time_ms
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.topics: list[TopicData] = [] if topics is DEFAULT else topics


class DescribeTransactionsResponse(Response):
    __slots__ = ("throttle_time_ms", "transaction_states")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "transaction_states []TransactionState 0+",
    )
    NAME = "DescribeTransactions"
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        transaction_states: list[TransactionState] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.transaction_states: list[TransactionState] = [] if transaction_states is DEFAULT else transaction_states


class DescribeTransactionsRequest(Request[DescribeTransactionsResponse]):
    __slots__ = ("transactional_ids",)
    FIELDS = ("transactional_ids []string 0+",)
    NAME = "DescribeTransactions"
    API_KEY = 65
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = DescribeTransactionsResponse

    def __init__(
        self,
        *,
        transactional_ids: list[str] = DEFAULT,
    ) -> None:
        self.transactional_ids: list[str] = [] if transactional_ids is DEFAULT else transactional_ids
