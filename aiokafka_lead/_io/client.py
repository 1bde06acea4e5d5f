"""Connections and metadata, which all kinds of clients have in common and can share; the base of public clients."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, cast
from uuid import UUID

from .. import errors
from .._options.arguments import TIMEOUT
from .._options.checks import as_keywords, boolean, no_options
from .._wire import Request, Response
from ..config import ClientConfig
from .connection.brokers import Brokers
from .connection.settings import AnyLane, CoordinatorLane, HeldLane, Lane, ShareLane
from .deadline import Deadline
from .life import Life
from .metadata.actor import MetadataActor
from .telemetry import ApplicationMetrics, MetricsPush

if TYPE_CHECKING:
    from .._core.telemetry.measures import Source
    from ..config.options import BootstrapServers, SharedClient
    from .sharing import OwnCalls
    from .telemetry import MetricKey

R = TypeVar("R", bound=Response)

C = TypeVar("C", bound=ClientConfig)

LAST_PUSH_WITHIN_S = 1.0
"""Time limit of the last push of metrics in a stop. Half of the stop's remaining time, if that is less."""


class Client(Life["Client"]):
    """The connections and the metadata of a public client. Internal.

    With a ``parent``, it uses the parent's connections and metadata, but has its own tasks, calls and fatal error. A
    fatal error of the parent also applies to it.
    """

    def __init__(
        self, config: ClientConfig, hot: Sequence[type[Request[Any]]] = (), parent: Client | None = None
    ) -> None:
        super().__init__(config)
        self.parent = parent
        self.children = set()
        self._hot = list(hot)
        self.rebalance_lane: AnyLane = Lane.REBALANCE
        self.coordinator_lane: AnyLane = Lane.COORDINATOR
        self.asks_coordinators_apart = False
        """True if this client has a parent and a lane of its own for coordinators."""
        self.lookup_lane = Lane.CONTROL
        """The lane for requests to leaders that look up positions."""
        self.share_lane: AnyLane = Lane.DATA
        if parent is None:
            calls: OwnCalls | None = None
            self.brokers = Brokers(config, _Tasks(self), self._hot)
            self.metadata = MetadataActor(config, self.brokers)
            self._metrics_push: MetricsPush | None = None
            if config.enable_metrics_push:
                self._metrics_push = MetricsPush(config.client_id, self.brokers, self.spawn, config.request_timeout_ms)
                self.metadata.add_listener(self._metrics_push.on_snapshot)
        else:
            from .sharing import OwnCalls, SharedBrokers, SharedMetadata

            calls = OwnCalls()
            self._metrics_push = parent._metrics_push
            self._shared_metadata = SharedMetadata(parent.metadata, calls)
            self.brokers = cast(Brokers, SharedBrokers(parent.brokers, calls))
            self.metadata = cast(MetadataActor, self._shared_metadata)
            self.lookup_lane = Lane.DATA  # DATA has connections to all leaders in use, CONTROL only to a few brokers
        self.application_metrics = ApplicationMetrics(self, self._metrics_push, self._log)
        self._calls = calls
        """Calls that are waiting for shared objects, or None without a parent."""
        self.commons: dict[type, Any] = {}
        """Further objects that all children share, by class."""

    # --- start and stop ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        if self.parent is not None:
            self.parent.adopt(self)

    async def _connect(self, deadline: Deadline | None, *, wait: bool) -> None:
        if self.parent is None:
            if wait:
                await self.metadata.bootstrap(deadline)
            else:
                self.metadata.begin()
            self.spawn(self.metadata.run, name="kafka metadata")
        elif wait and not self.metadata.full_answers:
            timeout_ms = self.config.request_timeout_ms if deadline is None else deadline.left_ms()
            await self.metadata.wait_newer(self.metadata.snapshot.generation, timeout_ms)

    async def _say_goodbye(self, within_s: float) -> None:
        if self.parent is None and self._metrics_push is not None:
            await self._metrics_push.finish(min(LAST_PUSH_WITHIN_S, within_s))

    def _let_go(self, error: errors.KafkaError) -> None:
        self.metadata.close(error)
        self.brokers.stop(error)
        if self.parent is not None and self in self.parent.children:
            self.parent.children.discard(self)
            self.parent.brokers.close_lane(self.share_lane, error)
            if self.asks_coordinators_apart:
                self.parent.brokers.close_lane(self.coordinator_lane, error)
            self.application_metrics.close()
            if self._metrics_push is not None:
                self._metrics_push.remove(self)
        elif self.parent is None and self._metrics_push is not None:
            self._metrics_push.close(error)

    def adopt(self, child: Client) -> None:
        """Let a child share this client's connections and metadata. Raises the same errors as `check`."""
        try:
            self.check()
        except errors.NotStartedError:
            raise errors.NotStartedError("the shared Client has not been started") from None
        self._hot += [request for request in child._hot if request not in self._hot]
        taken = {other.rebalance_lane for other in self.children}
        number = next(number for number in count() if HeldLane(number) not in taken)
        child.rebalance_lane, child.share_lane = HeldLane(number), ShareLane(number)
        if child.asks_coordinators_apart:
            child.coordinator_lane = CoordinatorLane(number)
        self.children.add(child)
        child._shared_metadata.open()

    def _failed(self, error: errors.KafkaError) -> None:
        self.metadata.close(error)

    def _refuse(self, error: errors.KafkaError) -> None:
        self.brokers.refuse(error)

    # --- metrics for brokers -----------------------------------------------------------------------------------------

    def measure(self, make: Callable[[], Source]) -> None:
        """Add a source of metrics for brokers (KIP-714). ``make`` creates it if a broker subscribes to metrics."""
        if self._metrics_push is not None and self._tasks is not None:
            self._metrics_push.add(self, make)

    @property
    def own_connections(self) -> Callable[[], int] | None:
        """Function that returns the number of connections made by this client, or None if they are shared."""
        return None if self.parent is not None else lambda: self.brokers.connections_made

    async def client_instance_id(self, timeout_ms: float | None) -> UUID:
        """Return the KIP-714 id of this client, or of the client whose connections it uses.

        Raises `IllegalStateError` without ``enable_metrics_push``, and the errors of `MetricsPush.client_instance_id`.
        """
        self.check()
        push = self._metrics_push
        if push is None:
            raise errors.IllegalStateError("there is no client instance id: enable_metrics_push is False")
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        if self._calls is None:
            return await push.client_instance_id(timeout_ms)
        return await self._calls.wait(push.client_instance_id, timeout_ms)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self,
        node_id: int,
        request: Request[R],
        *,
        lane: AnyLane = Lane.CONTROL,
        timeout_ms: float | None = None,
        lowest: int | None = None,
    ) -> R:
        """Send a request to a node and return the response.

        ``timeout_ms`` limits the call, including the time for connecting (default: ``request_timeout_ms``). Raises
        `UnsupportedVersionError` if the node does not support version ``lowest`` of the request, `KafkaConnectionError`
        if the node cannot be reached, and `RequestTimedOutError`.
        """
        deadline = self._deadline(timeout_ms)
        connection = await self.brokers.get(node_id, lane, timeout_ms=deadline.left_ms())
        version = None if lowest is None else connection.versions.version_for(type(request), lowest=lowest)
        return await connection.request(request, timeout_ms=deadline.left_ms(), version=version)

    async def request_any(self, request: Request[R], *, timeout_ms: float | None = None) -> R:
        """Send a request to the least loaded broker and return the response."""
        deadline = self._deadline(timeout_ms)
        return await self.request(await self.any_node(deadline), request, timeout_ms=deadline.left_ms())

    async def any_node(self, deadline: Deadline, avoid: Container[int] = ()) -> int:
        """Return the least loaded broker (see `least_loaded`). If no broker can be reached, wait for a bootstrap."""
        while True:
            node_id = self.brokers.least_loaded(avoid=avoid)
            if node_id is not None:
                return node_id
            generation = self.metadata.snapshot.generation
            self.metadata.request_update()
            await self.metadata.wait_newer(generation, deadline.left_ms())

    async def controller(self, timeout_ms: float | None = None) -> int:
        """Return the node to which to send requests for the controller.

        In KRaft, it may be any broker, because brokers forward the requests.
        """
        deadline = self._deadline(timeout_ms)
        while True:
            snapshot = self.metadata.snapshot
            if snapshot.controller_id >= 0 and snapshot.controller_id in snapshot.brokers:
                return snapshot.controller_id
            self.metadata.request_update()
            try:
                await self.metadata.wait_newer(snapshot.generation, deadline.left_ms())
            except errors.RequestTimedOutError:
                raise errors.KafkaConnectionError("the controller of the cluster is unknown") from None

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self.config.request_timeout_ms if timeout_ms is None else timeout_ms)


def configured(
    kind: type[C],
    bootstrap_servers: BootstrapServers | None,
    client: SharedClient | None,
    options: Mapping[str, Any],
    *topics: Any,
    **more: Any,
) -> tuple[C, Client | None]:
    """Return a client's checked options, and its parent if it uses the connections of ``client``."""
    for topic in topics:
        no_options("topics", topic)
        if isinstance(topic, (list, tuple, set, frozenset)):
            raise errors.ConfigTypeError(
                f"topics are separate arguments, not a {type(topic).__name__}: put a * before it"
            )
    if "topics" in options and "group_id" in kind.__dataclass_fields__:
        raise errors.ConfigTypeError("topics are arguments without a name: put them before the options")
    if client is None:
        if bootstrap_servers is None:
            if dotted := [name for name in options if "." in name]:
                raise errors.ConfigTypeError(f"options are written with underscores; pass {as_keywords(dotted)}")
            address = next((topic for topic in topics if ":" in str(topic)), None)
            hint = "" if address is None else f"; {address!r} was passed as a topic"
            raise errors.ConfigTypeError(f"pass bootstrap_servers, or a Client to share its connections{hint}")
        return kind.from_options(bootstrap_servers, options, **more), None
    parent = getattr(client, "_client", None)
    if not isinstance(parent, Client) or type(parent.config) is not ClientConfig:
        raise errors.ConfigTypeError(f"client must be a Client, not {type(client).__name__}")
    if bootstrap_servers is not None or "bootstrap_servers" in options:
        raise errors.ConfigError("bootstrap_servers is an option of the shared Client")
    return kind.on_connections_of(parent.config, options, **more), parent


class _Tasks:
    """The client's `Client.spawn` in the form of an anyio task group, in which `Brokers` starts its tasks."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start_soon(self, func: Callable[..., Any], /, *args: Any, name: object = None) -> None:
        self._client.spawn(func, *args, name=str(name))


class Unpicklable:
    """Base class of clients, which belong to a process and an event loop."""

    def __getstate__(self) -> NoReturn:
        """Raise TypeError. The error of `pickle` itself would name an internal object."""
        raise TypeError(
            f"{type(self).__name__} objects cannot be pickled or copied: pass the options, and create a client in each "
            "process"
        )


class Elsewhere:
    """Method of other Kafka clients. An `AttributeError` names the method to call instead."""

    def __init__(self, instead: str) -> None:
        self._instead = instead

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, client: object, owner: type) -> NoReturn:
        raise AttributeError(f"{owner.__name__!r} object has no attribute {self._name!r}: use {self._instead}")


class Facade(Unpicklable):
    """Base class of the public clients: ``async with``, the client id, and metrics for brokers."""

    _client: Client
    if not TYPE_CHECKING:
        close = Elsewhere("await stop(), or async with")

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
        """Stop pushing a metric. Its function may still be called once. An unknown metric is ignored."""
        key = _key(name, attributes)
        self._client.check()
        self._client.application_metrics.unregister(key)


def _key(name: str, attributes: Mapping[str, str | int] | None) -> MetricKey:
    from .._core.telemetry.measures import metric_attributes, metric_name

    return metric_name("name", name), metric_attributes("attributes", attributes)
