"""Subscriptions to clients' metrics, and the clients that push them (KIP-714).

Java: ``ClientMetricsManager``, ``ClientMetricsConfigs``, ``ClientMetricsInstance``.
"""

from __future__ import annotations

import re
import zlib
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple
from uuid import UUID, uuid4

from ... import errors
from ..._cpython import naming
from ..._records.compression import decompress
from ..._records.layout import CODEC_NAMES
from .configs import ConfigType, split_list

NO_ID = UUID(int=0)

ALL_METRICS = "*"

ACCEPTED = tuple(reversed(CODEC_NAMES[1:]))
"""Compression types for pushes, in the order of the broker's preference."""

_INTERVAL_MS = (100, 3_600_000)

_ABOUT = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""Properties that a subscription may use to select clients."""

_MAX_DECOMPRESSED = 64 * 1024 * 1024


class ClientMetricsDefinition(NamedTuple):
    """A config of a subscription: its type, and its default as text."""

    type: ConfigType
    default: str


DEFINITIONS = {
    "interval.ms": ClientMetricsDefinition(ConfigType.INT, "300000"),
    "match": ClientMetricsDefinition(ConfigType.LIST, ""),
    "metrics": ClientMetricsDefinition(ConfigType.LIST, ""),
}


class TelemetryPush(NamedTuple):
    """One push of a client's metrics, as received by a broker's plugin."""

    broker: int
    client_id: str
    client_instance_id: UUID
    subscription_id: int
    terminating: bool
    """True if the client is stopping."""
    compression_type: str
    """Compression of the push in transit."""
    metrics: bytes
    """Decompressed metrics: ``MetricsData`` of opentelemetry-proto."""


naming.show_in("aiokafka_lead.testing", TelemetryPush)


class Wanted(NamedTuple):
    """The metrics that a client should push, and how often."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int


class _Instance:
    """A client instance that pushes metrics to a broker."""

    __slots__ = ("got_ms", "pushed_ms", "terminating", "version", "wanted")

    def __init__(self, wanted: Wanted, version: int) -> None:
        self.wanted = wanted
        self.version = version
        self.got_ms = 0
        """Time at which the client last requested its subscription. ``pushed_ms`` is the time of its last push."""
        self.pushed_ms = 0
        self.terminating = False


class ClientMetrics:
    """Holds the metric subscriptions of a cluster, the formats that its brokers accept, and the received pushes."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._overrides: dict[str, dict[str, str]] = {}
        self._version = 0
        self._instances: dict[tuple[int, UUID], _Instance] = {}
        self.accepted = list(ACCEPTED)
        """Compression types, preferred first."""
        self.max_bytes = 1_048_576
        self.delta = True
        self.pushes: deque[TelemetryPush] = deque(maxlen=10_000)

    # --- subscriptions -----------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return sorted(self._overrides)

    def overrides(self, name: str) -> Mapping[str, str]:
        return self._overrides.get(name, {})

    def get(self, name: str, option: str) -> str:
        value = self.overrides(name).get(option)
        return DEFINITIONS[option].default if value is None else value

    def check(self, name: str, overrides: Mapping[str, str]) -> None:
        """Raise an error if ``overrides``, the new configs of a subscription, are invalid."""
        if not name:
            raise errors.InvalidRequestError("Subscription name can't be empty")
        for option in overrides:
            if option not in DEFINITIONS:
                raise errors.InvalidRequestError(f"Unknown client metrics configuration: {option}")
        if "interval.ms" in overrides:
            interval = overrides["interval.ms"]
            if not re.fullmatch(r"[+-]?\d+", interval):
                raise errors.InvalidConfigError(
                    f"Invalid value {interval} for configuration interval.ms: Not a number of type INT"
                )
            if not _INTERVAL_MS[0] <= int(interval) <= _INTERVAL_MS[1]:
                raise errors.InvalidRequestError(
                    f"Invalid value {interval} for interval.ms, interval must be between 100 and 3600000 (1 hour)"
                )
        _patterns(overrides.get("match", ""))

    def replace(self, name: str, overrides: Mapping[str, str]) -> None:
        """Replace the configs of a subscription, which must have been checked.

        Without configs, remove the subscription.
        """
        self._version += 1
        if overrides:
            self._overrides[name] = dict(overrides)
        else:
            self._overrides.pop(name, None)

    def _wanted(self, client_instance_id: UUID, about: Mapping[str, str]) -> Wanted:
        metrics: set[str] = set()
        interval_ms = int(DEFINITIONS["interval.ms"].default)
        known = {**about, "client_instance_id": str(client_instance_id)}
        for name in self._overrides:
            patterns = _patterns(self.get(name, "match"))
            if all(pattern.fullmatch(known.get(what, "")) for what, pattern in patterns.items()):
                metrics.update(split_list(self.get(name, "metrics")))
                interval_ms = min(interval_ms, int(self.get(name, "interval.ms")))
        chosen = (ALL_METRICS,) if ALL_METRICS in metrics else tuple(sorted(metrics))
        checksum = zlib.crc32(f"{chosen}{interval_ms}{client_instance_id}".encode())
        return Wanted(checksum - (1 << 31), chosen, interval_ms)

    # --- clients -----------------------------------------------------------------------------------------------------

    def subscription(self, broker: int, client_instance_id: UUID, about: Mapping[str, str]) -> tuple[UUID, Wanted]:
        """Return the id of a client and its subscription. A client without an id gets a new one.

        Raises the errors of a broker's response.
        """
        if client_instance_id == NO_ID:
            client_instance_id = uuid4()
        instance, now = self._instance(broker, client_instance_id, about), self._now_ms()
        if now - max(instance.got_ms, instance.pushed_ms) < instance.wanted.interval_ms:
            raise errors.ThrottlingQuotaExceededError("the request arrived before the next push interval time")
        instance.got_ms = now
        return client_instance_id, instance.wanted

    def push(self, push: TelemetryPush, about: Mapping[str, str]) -> None:
        """Accept a push, which is still compressed. Raises the errors of a broker's response."""
        if push.client_instance_id == NO_ID:
            raise errors.InvalidRequestError("invalid client instance id")
        instance, now = self._instance(push.broker, push.client_instance_id, about), self._now_ms()
        before, instance.terminating = instance.terminating, push.terminating
        if before:
            raise errors.InvalidRequestError("the client has already sent its terminating push")
        # The first push after a subscription may come early, because clients randomize its time.
        due = instance.got_ms > instance.pushed_ms or now - instance.pushed_ms >= instance.wanted.interval_ms
        if not due and not push.terminating:
            raise errors.ThrottlingQuotaExceededError("the request arrived before the next push interval time")
        if due:
            instance.pushed_ms = now
        if push.subscription_id != instance.wanted.subscription_id:
            raise errors.UnknownSubscriptionIdError
        if push.compression_type not in ("none", *self.accepted):
            raise errors.UnsupportedCompressionTypeError
        if len(push.metrics) > self.max_bytes:
            raise errors.TelemetryTooLargeError
        self.pushes.append(push._replace(metrics=_decompressed(push)))

    def _instance(self, broker: int, client_instance_id: UUID, about: Mapping[str, str]) -> _Instance:
        key = (broker, client_instance_id)
        instance = self._instances.get(key)
        if instance is None or instance.version < self._version:
            instance = self._instances[key] = _Instance(self._wanted(client_instance_id, about), self._version)
        return instance


def _patterns(match: str) -> dict[str, re.Pattern[str]]:
    found = {}
    for each in split_list(match):
        what, _, pattern = (part.strip() for part in each.partition("="))
        try:
            if what not in _ABOUT or not pattern or "=" in pattern:
                raise ValueError
            found[what] = re.compile(pattern)
        except (ValueError, re.error):
            raise errors.InvalidConfigError(f"Illegal client matching pattern: {each}") from None
    return found


def _decompressed(push: TelemetryPush) -> bytes:
    if push.compression_type == "none":
        return push.metrics
    try:
        return decompress(push.compression_type, push.metrics, _MAX_DECOMPRESSED)
    except errors.CorruptRecordError as error:
        raise errors.InvalidRecordError(str(error)) from error


def codec_name(number: int) -> str:
    """Return the name of a compression type. The name of an unknown type contains its number."""
    return CODEC_NAMES[number] if 0 <= number < len(CODEC_NAMES) else f"type {number}"
