"""GetTelemetrySubscriptions (API key 71), versions 0.

Made by `python -m aiokafka_lead._wire.codegen`; do not edit.
"""

# ruff: noqa: RUF023 (slots are in the order of the schema)

from __future__ import annotations

from typing import TYPE_CHECKING

from ..message import DEFAULT, ZERO_UUID, Request, Response

if TYPE_CHECKING:
    from uuid import UUID


class GetTelemetrySubscriptionsResponse(Response):
    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "client_instance_id",
        "subscription_id",
        "accepted_compression_types",
        "push_interval_ms",
        "telemetry_max_bytes",
        "delta_temporality",
        "requested_metrics",
    )
    FIELDS = (
        "throttle_time_ms int32 0+",
        "error_code int16 0+",
        "client_instance_id uuid 0+",
        "subscription_id int32 0+",
        "accepted_compression_types []int8 0+",
        "push_interval_ms int32 0+",
        "telemetry_max_bytes int32 0+",
        "delta_temporality bool 0+",
        "requested_metrics []string 0+",
    )
    NAME = "GetTelemetrySubscriptions"
    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        client_instance_id: UUID = ZERO_UUID,
        subscription_id: int = 0,
        accepted_compression_types: list[int] = DEFAULT,
        push_interval_ms: int = 0,
        telemetry_max_bytes: int = 0,
        delta_temporality: bool = False,
        requested_metrics: list[str] = DEFAULT,
    ) -> None:
        self.throttle_time_ms: int = throttle_time_ms
        self.error_code: int = error_code
        self.client_instance_id: UUID = client_instance_id
        self.subscription_id: int = subscription_id
        self.accepted_compression_types: list[int] = (
            [] if accepted_compression_types is DEFAULT else accepted_compression_types
        )
        self.push_interval_ms: int = push_interval_ms
        self.telemetry_max_bytes: int = telemetry_max_bytes
        self.delta_temporality: bool = delta_temporality
        self.requested_metrics: list[str] = [] if requested_metrics is DEFAULT else requested_metrics


class GetTelemetrySubscriptionsRequest(Request[GetTelemetrySubscriptionsResponse]):
    __slots__ = ("client_instance_id",)
    FIELDS = ("client_instance_id uuid 0+",)
    NAME = "GetTelemetrySubscriptions"
    API_KEY = 71
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0
    RESPONSE = GetTelemetrySubscriptionsResponse

    def __init__(
        self,
        *,
        client_instance_id: UUID = ZERO_UUID,
    ) -> None:
        self.client_instance_id: UUID = client_instance_id
