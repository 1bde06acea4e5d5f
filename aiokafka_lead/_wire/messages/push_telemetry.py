"""PushTelemetry (API key 72), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import ZERO_UUID, Request, Response

if TYPE_CHECKING:
    from uuid import UUID


class PushTelemetryResponse(Response):
    __slots__ = ("throttle_time_ms", "error_code")
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
    )
    NAME = "PushTelemetry"
    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code


class PushTelemetryRequest(Request[PushTelemetryResponse]):
    __slots__ = ("client_instance_id", "subscription_id", "terminating", "compression_type", "metrics")
    FIELDS = (
        "client_instance_id uuid 0+",
        "subscription_id int32 0+",
        "terminating bool 0+",
        "compression_type int8 0+",
        "metrics bytes 0+",
    )
    NAME = "PushTelemetry"
    API_KEY = 72
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = PushTelemetryResponse

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        terminating: bool = False,
        compression_type: int = 0,
        metrics: bytes = b"",
    ) -> None:
        self.client_instance_id: UUID = client_instance_id
        self.subscription_id: int = subscription_id
        self.terminating: bool = terminating
        self.compression_type: int = compression_type
        self.metrics: bytes = metrics
