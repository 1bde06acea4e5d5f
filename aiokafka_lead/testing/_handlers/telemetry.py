"""GetTelemetrySubscriptions and PushTelemetry (KIP-714), if the brokers have a receiver of metrics."""

from __future__ import annotations

from ..._records.layout import CODEC_IDS
from ..._wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from ..._wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from ...errors import BrokerError
from .._server.context import RequestContext
from .._state.client_metrics import TelemetryPush, codec_name


def _about(context: RequestContext) -> dict[str, str]:
    """Return the properties by which subscriptions select this client."""
    address, _, port = context.connection.peer.rpartition(":")
    name, version = context.connection.software
    return {
        "client_id": context.client_id or "",
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": address,
        "client_source_port": port,
    }


def get_telemetry_subscriptions(
    context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    metrics = context.engine.client_metrics
    try:
        client_instance_id, wanted = metrics.subscription(
            context.node.node_id, request.client_instance_id, _about(context)
        )
    except BrokerError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=client_instance_id,
        subscription_id=wanted.subscription_id,
        accepted_compression_types=[CODEC_IDS[name] for name in metrics.accepted],
        push_interval_ms=wanted.interval_ms,
        telemetry_max_bytes=metrics.max_bytes,
        delta_temporality=metrics.delta,
        requested_metrics=list(wanted.metrics),
    )


def push_telemetry(context: RequestContext, request: PushTelemetryRequest) -> PushTelemetryResponse:
    push = TelemetryPush(
        context.node.node_id,
        context.client_id or "",
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        codec_name(request.compression_type),
        bytes(request.metrics),
    )
    try:
        context.engine.client_metrics.push(push, _about(context))
    except BrokerError as error:
        return PushTelemetryResponse(error_code=error.code)
    return PushTelemetryResponse()


HANDLERS = {
    GetTelemetrySubscriptionsRequest: get_telemetry_subscriptions,
    PushTelemetryRequest: push_telemetry,
}
