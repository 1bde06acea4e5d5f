"""Pushes metrics to brokers that subscribe to them (KIP-714). It takes no time until a broker does."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from ..._options.logs import ClientLog, client_log
from ...errors import ClientClosedError, KafkaError, RequestTimedOutError, UnsupportedVersionError
from ...errors.base import own_copy
from ..connection.brokers import Brokers
from ..deadline import Deadline
from ..loop import News, Spawn, Waiter

if TYPE_CHECKING:
    from ..._core.metadata.types import ClusterSnapshot, Moved
    from ..._core.telemetry.measures import Attributes, Source
    from .pusher import Pusher

    MetricKey = tuple[str, Attributes]
    """The name and the attributes of an application's metric."""

GET_TELEMETRY_SUBSCRIPTIONS = 71
"""The value of this member of `ApiKey`. Importing the module of `ApiKey` would take too long."""


class MetricsPush:
    """Collects the metrics of all clients on shared connections, and pushes them to brokers (KIP-714).

    If brokers have no receiver for metrics, they do not support these requests, and there is no task.
    """

    def __init__(self, client_id: str, brokers: Brokers, spawn: Spawn, request_timeout_ms: float) -> None:
        self._log = client_log("telemetry", client_id)
        self._brokers = brokers
        self._spawn = spawn
        self._request_timeout_ms = request_timeout_ms
        self._measured: dict[object, tuple[Callable[[], Source], float, int]] = {}
        """For each client, a function that creates its source, and the time at which its counts start.

        The time is in monotonic seconds, and in nanoseconds since 1970.
        """
        self._sources: dict[object, Source] = {}
        self._pusher: Pusher | None = None
        self._begun = False
        self._id_wanted = False
        self._done: Waiter[None] = Waiter()
        """Completed when the task has ended."""
        self._closed_by: KafkaError | None = None
        self._news = News()
        brokers.on_connected = self._connected

    # --- measuring clients -------------------------------------------------------------------------------------------

    def add(self, client: object, make: Callable[[], Source]) -> None:
        """Add a client whose counts start now. Its source is created when a broker subscribes to metrics."""
        self._measured[client] = (make, time.monotonic(), time.time_ns())
        if self._pusher is not None:
            self._add_source(self._pusher, client)
        else:
            self._maybe_begin()

    def remove(self, client: object) -> None:
        """Remove a client. Its last counts are still pushed."""
        self._measured.pop(client, None)
        source = self._sources.pop(client, None)
        if source is not None and self._pusher is not None:
            self._pusher.remove(source)

    def resource_of(self, client: object) -> Attributes:
        """Return the attributes that distinguish this client's metrics, as far as they are known."""
        source = self._sources.get(client)
        return () if source is None else source.resource()

    def _add_source(self, pusher: Pusher, client: object) -> None:
        make, monotonic_s, unix_ns = self._measured[client]
        source = self._sources[client] = make()
        pusher.add(source, monotonic_s, unix_ns)

    # --- start and stop ----------------------------------------------------------------------------------------------

    def on_snapshot(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        """Start to push once brokers are known. Before that, a bootstrap server may belong to another cluster."""
        self._maybe_begin()

    def _connected(self) -> None:
        self._maybe_begin()
        self._news.tell()

    def _maybe_begin(self) -> None:
        if self._begun or not (self._measured or self._id_wanted) or not self._served():
            return
        if any(node_id >= 0 for node_id in self._brokers.nodes):
            self._begun = True
            self._spawn(self._run, name="kafka metrics push")

    def _served(self) -> bool:
        offer = self._brokers.last_offer
        return offer is not None and GET_TELEMETRY_SUBSCRIPTIONS in offer.ranges

    async def _run(self) -> None:
        from .pusher import Pusher  # imported here because few brokers subscribe to metrics

        try:
            self._pusher = Pusher(self._log, self._brokers, self._news, self._request_timeout_ms)
            for client in self._measured:
                self._add_source(self._pusher, client)
            await self._pusher.run()
        except Exception:  # this is a bug, which must not stop the application
            self._log.exception("the push of metrics has failed, so no more metrics are pushed to brokers")
        finally:
            self._done.set_result(None)
            self._news.tell()

    async def finish(self, within_s: float) -> None:
        """Push the metrics for the last time, within this many seconds."""
        if self._pusher is None or self._done.done or not self._pusher.close():
            return
        try:
            await self._done.wait(within_s)
        except TimeoutError:
            self._log.debug("the last metrics were not pushed within %.1f s", within_s)

    def close(self, error: KafkaError) -> None:
        """Raise this error from calls that are waiting for the id."""
        self._closed_by = error
        self._news.tell()

    # --- the client instance id --------------------------------------------------------------------------------------

    async def client_instance_id(self, timeout_ms: float) -> UUID:
        """Return the client instance id, requesting it if it is unknown.

        Raises `UnsupportedVersionError` if the brokers do not accept metrics, the error with which they refuse this
        client, or `RequestTimedOutError`.
        """
        deadline = Deadline(timeout_ms)
        self._id_wanted = True
        self._maybe_begin()
        if self._pusher is not None:
            self._pusher.hurry()
        while True:
            found = None if self._pusher is None else self._pusher.client_instance_id
            if found is not None:
                return found
            self._check()
            try:
                await self._news.wait(deadline.left_s())
            except TimeoutError:
                raise RequestTimedOutError(
                    f"no broker returned a client instance id within {timeout_ms:g} ms"
                ) from None

    def _check(self) -> None:
        if self._closed_by is not None:
            raise own_copy(self._closed_by)
        if not self._begun and self._brokers.last_offer is not None and not self._served():
            raise UnsupportedVersionError("the brokers do not accept metrics of clients: that needs a plugin (KIP-714)")
        if self._done.done:
            refusal = None if self._pusher is None else self._pusher.refusal
            raise ClientClosedError if refusal is None else own_copy(refusal)


class ApplicationMetrics:
    """Registers the metrics of an application. Does nothing without metrics for brokers (``push`` is None)."""

    def __init__(self, client: object, push: MetricsPush | None, log: ClientLog) -> None:
        self._client = client
        self._push = push
        self._log = log
        self._registered: dict[MetricKey, object] = {}
        """For each metric, the object that identifies it in `MetricsPush`."""

    def register(self, key: MetricKey, measure: Callable[[], float], *, is_sum: bool) -> None:
        """Start pushing a metric. It replaces any metric with the same name and attributes."""
        self.unregister(key)
        if self._push is not None:
            registration = self._registered[key] = object()
            self._push.add(registration, partial(self._source, key, measure, is_sum=is_sum))

    def unregister(self, key: MetricKey) -> None:
        """Stop pushing a metric. An unknown metric is ignored."""
        registration = self._registered.pop(key, None)
        if registration is not None and self._push is not None:
            self._push.remove(registration)

    def close(self) -> None:
        """Stop pushing all metrics."""
        for key in list(self._registered):
            self.unregister(key)

    def _source(self, key: MetricKey, measure: Callable[[], float], *, is_sum: bool) -> Source:
        # Import these here, because few brokers subscribe to metrics.
        from ..._core.telemetry.measures import ApplicationSource

        assert self._push is not None
        name, attributes = key
        resource = partial(self._push.resource_of, self._client)
        return ApplicationSource(name, measure, attributes, resource, self._failed, is_sum=is_sum)

    def _failed(self, name: str, error: Exception) -> None:
        self._log.warning("the application's metric %s is not pushed: %r", name, error)
