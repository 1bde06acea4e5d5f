"""Base class of all public clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self
from uuid import UUID

from .._options.arguments import TIMEOUT
from .._options.checks import boolean
from .client import Client

if TYPE_CHECKING:
    from .telemetry.metrics_push import MetricKey


class Unpicklable:
    """Base class of clients, which belong to a process and an event loop."""

    def __getstate__(self) -> NoReturn:
        """Raise TypeError. The error of `pickle` itself would name an internal object."""
        raise TypeError(
            f"{type(self).__name__} objects cannot be pickled or copied: pass the options, and create a client in each "
            "process"
        )


class Facade(Unpicklable):
    """Implements ``async with``, the client's id, and the metrics that are pushed to brokers."""

    _client: Client

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster.

        With ``wait`` set to False, return at once and connect in the background. ``timeout_ms`` limits the call, by
        default to ``request_timeout_ms``.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Close all connections, within ``timeout_ms``."""
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._client.kind.block_done()
        await self.stop(self._client.config.close_timeout_ms)

    @property
    def client_id(self) -> str:
        """Name of this client in the brokers' logs and quotas."""
        return self._client.config.client_id

    async def client_instance_id(self, timeout_ms: float | None = None) -> UUID:
        """Return the id under which brokers store or forward this client's metrics (KIP-714).

        A broker assigns the id once. The call waits for it up to ``timeout_ms`` (default: ``request_timeout_ms``).
        Clients that use the connections of the same `Client` have the same id.

        Raises `IllegalStateError` without ``enable_metrics_push``, `UnsupportedVersionError` if the brokers do not
        accept metrics, and `RequestTimedOutError` if no id was assigned in time.
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
        """Push a metric of the application to brokers that subscribe to it (KIP-1076).

        The brokers see it as ``org.apache.kafka.`` followed by ``name``. ``measure`` is called for each push and
        returns the value. It must return quickly. If it raises an exception, the push does not include this metric. It
        is not called if no broker subscribes to the metric, or without ``enable_metrics_push``. With ``is_sum``, the
        value is a count that never decreases, otherwise a gauge. ``attributes`` distinguish metrics of the same name.
        For example::

            consumer.register_metric_for_subscription("orders.waiting", queue.qsize)

        The client must have been started, and pushes the metric until it is stopped. Another metric with the same
        ``name`` and ``attributes`` replaces it. Raises `ConfigError` or `ConfigTypeError` for invalid arguments.
        """
        from .._core.telemetry.measures import metric_measure  # imported here because most applications have no metrics

        key = _key(name, attributes)
        measure, is_sum = metric_measure("measure", measure), boolean("is_sum", is_sum)
        self._client.check()
        self._client.application_metrics.register(key, measure, is_sum=is_sum)

    def unregister_metric_from_subscription(
        self, name: str, *, attributes: Mapping[str, str | int] | None = None
    ) -> None:
        """Stop pushing a metric. Its function may be called one last time. An unknown metric is ignored."""
        key = _key(name, attributes)
        self._client.check()
        self._client.application_metrics.unregister(key)


def _key(name: str, attributes: Mapping[str, str | int] | None) -> MetricKey:
    from .._core.telemetry.measures import metric_attributes, metric_name

    return metric_name("name", name), metric_attributes("attributes", attributes)
