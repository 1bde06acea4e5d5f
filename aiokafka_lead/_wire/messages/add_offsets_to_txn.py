"""AddOffsetsToTxn (API key 25), versions 0-4.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from ..message import Request, Response


class AddOffsetsToTxnResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
    )
    NAME = "AddOffsetsToTxn"
    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code


class AddOffsetsToTxnRequest(Request[AddOffsetsToTxnResponse]):
    __slots__ = ("transactional_id", "producer_id", "producer_epoch", "group_id")
    FIELDS = (
        "transactional_id string 0+",
        "producer_id int64 0+",
        "producer_epoch int16 0+",
        "group_id string 0+",
    )
    NAME = "AddOffsetsToTxn"
    API_KEY = 25
    MIN_VERSION = 0
    MAX_VERSION = 4
    FLEXIBLE_FROM = 3
    RESPONSE = AddOffsetsToTxnResponse

    def __init__(
        self,
        *,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        group_id: str = "",
    ) -> None:
        self.transactional_id: str = transactional_id
        self.producer_id: int = producer_id
        self.producer_epoch: int = producer_epoch
        self.group_id: str = group_id
