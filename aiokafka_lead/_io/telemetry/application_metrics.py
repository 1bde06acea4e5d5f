"""The metrics that an application has registered with one client (KIP-1076)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..._options.logs import ClientLog

if TYPE_CHECKING:
    from ..._core.telemetry.measures import Attributes, Source
    from .metrics_push import MetricsPush

    MetricKey = tuple[str, Attributes]
    """A metric's name, and its attributes."""

__all__ = ["ApplicationMetrics"]


class ApplicationMetrics:
    """Which there are; ``push`` None: nothing is pushed."""

    def __init__(self, client: object, push: MetricsPush | None, log: ClientLog) -> None:
        self._client = client
        self._push = push
        self._log = log
        self._registered: dict[MetricKey, object] = {}
        """What `MetricsPush` knows each of them by."""

    def register(self, key: MetricKey, measure: Callable[[], float], *, is_sum: bool) -> None:
        """Push this one from now on, in place of one of the same name and attributes."""
        self.unregister(key)
        if self._push is not None:
            registration = self._registered[key] = object()
            self._push.add(registration, partial(self._source, key, measure, is_sum=is_sum))

    def unregister(self, key: MetricKey) -> None:
        """Push this one no more, if it is known."""
        registration = self._registered.pop(key, None)
        if registration is not None and self._push is not None:
            self._push.remove(registration)

    def close(self) -> None:
        """Push none of them any more."""
        for key in list(self._registered):
            self.unregister(key)

    def _source(self, key: MetricKey, measure: Callable[[], float], *, is_sum: bool) -> Source:
        from ..._core.telemetry.application import ApplicationSource  # only here: most clusters want no metrics

        assert self._push is not None
        name, attributes = key
        resource = partial(self._push.resource_of, self._client)
        return ApplicationSource(name, measure, attributes, resource, self._failed, is_sum=is_sum)

    def _failed(self, name: str, error: Exception) -> None:
        self._log.warning("the application's metric %s is not pushed: %r", name, error)
