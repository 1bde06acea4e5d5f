"""EndTxn (API key 26), versions 0-5.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class EndTxnResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code", "producer_id", "producer_epoch")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "producer_id int64 5+ = -1 ignorable",
        "producer_epoch int16 5+ = -1 ignorable",
    )
    NAME = "EndTxn"
    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch


class EndTxnRequest(Request[EndTxnResponse]):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "committed")
    FIELDS = (
        "transactional_id string 0+",
        "producer_id int64 0+",
        "producer_epoch int16 0+",
        "committed bool 0+",
    )
    NAME = "EndTxn"
    API_KEY = 26
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3
    RESPONSE = EndTxnResponse

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        committed: bool = False,
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.committed: bool = committed
