"""InitProducerId (API key 22), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class InitProducerIdResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "producer_id",
        "producer_epoch",
        "ongoing_txn_producer_id",
        "ongoing_txn_producer_epoch",
    )
    FIELDS = (
        "throttle_time_ms int32 0+ ignorable",
        "error_code int16 0+",
        "producer_id int64 0+ = -1",
        "producer_epoch int16 0+",
        "ongoing_txn_producer_id int64 6+ = -1",
        "ongoing_txn_producer_epoch int16 6+ = -1",
    )
    NAME = "InitProducerId"
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = 0,
        ongoing_txn_producer_id: int = -1,
        ongoing_txn_producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.ongoing_txn_producer_id: int = ongoing_txn_producer_id
        self.ongoing_txn_producer_epoch: int = ongoing_txn_producer_epoch


class InitProducerIdRequest(Request[InitProducerIdResponse]):
    __slots__ = (
        "transactional_id",
        "transaction_timeout_ms",
        "producer_id",
        "producer_epoch",
        "enable2_pc",
        "keep_prepared_txn",
    )
    FIELDS = (
        "transactional_id string 0+ null 0+",
        "transaction_timeout_ms int32 0+",
        "producer_id int64 3+ = -1",
        "producer_epoch int16 3+ = -1",
        "enable2_pc bool 6+ = false",
        "keep_prepared_txn bool 6+ = false",
    )
    NAME = "InitProducerId"
    API_KEY = 22
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 2
    RESPONSE = InitProducerIdResponse

    def __init__(
        self,
        *,
        transactional_id: str | None = "",
        transaction_timeout_ms: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
        enable2_pc: bool = False,
        keep_prepared_txn: bool = False,
    ) -> None:
        self.transactional_id: str | None = transactional_id
        self.transaction_timeout_ms: int = transaction_timeout_ms
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.enable2_pc: bool = enable2_pc
        self.keep_prepared_txn: bool = keep_prepared_txn
