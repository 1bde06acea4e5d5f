"""What a cluster wants to know of this client, as GetTelemetrySubscriptions has it."""

from __future__ import annotations

from typing import NamedTuple

from ..._records.layout import CODEC_NAMES
from ..._wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse

__all__ = ["DEFAULT_INTERVAL_S", "Subscription"]

DEFAULT_INTERVAL_S = 300.0
"""Where the broker names no interval that there could be (Java: ``DEFAULT_PUSH_INTERVAL_MS``)."""

_EVERYTHING = "*"
"""What brokers write for it (Java: ``ClientMetricsConfigs``); in the KIP it is an empty prefix."""


class Subscription(NamedTuple):
    """A subscription, which is the broker's answer to this very client."""

    subscription_id: int
    interval_s: float
    """From one push to the next."""
    codecs: tuple[str, ...]
    """In which payloads may come, the broker's favourite first, as far as they are known here."""
    max_bytes: int
    """The largest payload, after compression; 0 for no bound."""
    delta: bool
    """Whether counts are those since the last push, and not those since the start."""
    prefixes: tuple[str, ...]
    """The beginnings of the names of the metrics that are wanted."""

    @classmethod
    def from_response(cls, response: GetTelemetrySubscriptionsResponse) -> Subscription:
        """From an answer without an error."""
        known = [number for number in response.accepted_compression_types if 0 <= number < len(CODEC_NAMES)]
        return cls(
            response.subscription_id,
            response.push_interval_ms / 1000 if response.push_interval_ms > 0 else DEFAULT_INTERVAL_S,
            tuple(CODEC_NAMES[number] for number in known),
            max(0, response.telemetry_max_bytes),
            response.delta_temporality,
            tuple("" if prefix == _EVERYTHING else prefix for prefix in response.requested_metrics),
        )

    @property
    def wants_any(self) -> bool:
        """Whether any metric is wanted at all."""
        return bool(self.prefixes)

    def wants(self, name: str) -> bool:
        """Whether the metric of this name is wanted."""
        return name.startswith(self.prefixes)
