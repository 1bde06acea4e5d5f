"""What every client has for the metrics that clusters ask for: its id, and metrics of the application's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from .._options.arguments import TIMEOUT
from .._options.checks import boolean
from .client import Client

if TYPE_CHECKING:
    from .telemetry.metrics_push import MetricKey

__all__ = ["PushedMetrics"]


class PushedMetrics:
    """What every facade has."""

    _client: Client

    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """The id under which brokers hand on this client's metrics (KIP-714), for those who look for them.

        It is given by a broker, and waited for ``timeout_ms`` (``request_timeout_ms``) at most; then it stays the same.
        Clients of one `Client` have one. Raises `IllegalStateError` without ``enable_metrics_push``,
        `UnsupportedVersionError` where the brokers take no metrics, and `RequestTimedOutError`.
        """
        return await self._client.client_instance_id(TIMEOUT("timeout_ms", timeout_ms))

    def register_metric_for_subscription(
        self,
        name: str,
        measure: Callable[[], float],
        *,
        is_sum: bool = False,
        attributes: Mapping[str, str | int] | None = None,
    ) -> None:
        """Push this metric of the application's to brokers that ask for it (KIP-1076), until the client is stopped.

        They know it as ``org.apache.kafka.`` and ``name``. ``measure`` says its value whenever a push is due, and must
        not take long; where it raises, this metric is left out. ``is_sum``: the value counts something and never falls;
        else it is a value of the moment. One of the same name and ``attributes`` is replaced. Where no broker asks, or
        without ``enable_metrics_push``, ``measure`` is not called. The client must have been started.
        """
        from .._core.telemetry.application import metric_measure  # only here: most applications have none

        key = _key(name, attributes)
        measure, is_sum = metric_measure("measure", measure), boolean("is_sum", is_sum)
        self._client.check()
        self._client.application_metrics.register(key, measure, is_sum=is_sum)

    def unregister_metric_from_subscription(
        self, name: str, *, attributes: Mapping[str, str | int] | None = None
    ) -> None:
        """Ask for this metric's value once more at most, and push it no more; nothing happens if it is not known."""
        key = _key(name, attributes)
        self._client.check()
        self._client.application_metrics.unregister(key)


def _key(name: str, attributes: Mapping[str, str | int] | None) -> MetricKey:
    from .._core.telemetry.application import metric_attributes, metric_name

    return metric_name("name", name), metric_attributes("attributes", attributes)
