"""The composition root: what producer, consumer and admin client have in common, and may share."""

from __future__ import annotations

import atexit
import warnings
from collections import deque
from collections.abc import Awaitable, Callable, Container, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import UUID

import anyio

from .._options.logs import client_log
from .._wire import Request, Response
from ..config import ClientConfig
from ..errors import (
    BackgroundTaskError,
    ClientClosedError,
    IllegalStateError,
    KafkaConnectionError,
    KafkaError,
    NotStartedError,
    RequestTimedOutError,
    WrongEventLoopError,
)
from ..errors.base import own_copy
from .cancellation import Waits, cancelled_by_scope, to_the_end
from .connection.brokers import Brokers
from .connection.connection import Lane
from .connection.settings import AnyLane, CoordinatorLane, HeldLane, ShareLane
from .deadline import Deadline
from .forks import tell_in_children
from .loop import Host, Signal, Waiter, import_anyio, in_task, loop_token, spawn_host, uninterrupted
from .metadata.actor import MetadataActor
from .sharing import OwnCalls, SharedBrokers, SharedMetadata
from .telemetry.application_metrics import ApplicationMetrics
from .telemetry.metrics_push import MetricsPush

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from .._core.telemetry.measures import Source

__all__ = ["Client"]


R = TypeVar("R", bound=Response)

STOP_TIMEOUT_MS = 10_000.0
"""How long `Client.stop` waits at most for tasks that are being cancelled, if it is given no time."""

LAST_PUSH_WITHIN_S = 1.0
"""How long `Client.stop` waits at most for the last push of metrics; half of its time where that is less."""


class Client:
    """Connections, metadata and background tasks of one facade. Internal.

    All tasks live in one task group, which a host task of the client's own keeps open, so that `start` and `stop` may
    be called from different tasks. The first error that escapes a task is fatal: `check` raises it from then on.

    With a ``parent`` it has that one's connections and metadata, and its own tasks, calls and fatal error; what is
    fatal for the parent is for it, too.
    """

    def __init__(
        self, config: ClientConfig, hot: Sequence[type[Request[Any]]] = (), parent: Client | None = None
    ) -> None:
        self.config = config
        self.parent = parent
        self._log = client_log("client", config.client_id)
        self._hot = list(hot)
        self.rebalance_lane: AnyLane = Lane.REBALANCE
        self.coordinator_lane: AnyLane = Lane.COORDINATOR
        self.asks_coordinators_apart = False
        """Whether it has a lane of its own for coordinators, among the children of its parent."""
        self.lookup_lane = Lane.CONTROL
        """For what leaders are asked about positions."""
        self.share_lane: AnyLane = Lane.DATA
        if parent is None:
            calls = None
            self.brokers = Brokers(config, _Tasks(self), self._hot)
            self.metadata = MetadataActor(config, self.brokers)
            self._metrics_push: MetricsPush | None = None
            if config.enable_metrics_push:
                self._metrics_push = MetricsPush(config.client_id, self.brokers, self.spawn, config.request_timeout_ms)
        else:
            calls = OwnCalls()
            self._metrics_push = parent._metrics_push
            self._shared_metadata = SharedMetadata(parent.metadata, calls)
            self.brokers = cast(Brokers, SharedBrokers(parent.brokers, calls))
            self.metadata = cast(MetadataActor, self._shared_metadata)
            self.lookup_lane = Lane.DATA  # whose connections are there, where CONTROL has one to some broker
        self.application_metrics = ApplicationMetrics(self, self._metrics_push, self._log)
        self._calls = calls
        """Those that wait for what the parent has; None without one."""
        self.stop_facade: Callable[[float | None], Awaitable[None]] = self.stop
        """Stops the client in an orderly way, with what is built on it."""
        self.facade = "Client"
        """The class that the application has made."""
        self.records_left: Callable[[], int] = int
        """Counts the records that are neither acknowledged nor given up."""
        self.stop_called = False
        """Whether the application has called `stop`, which may be under way."""
        self._told_unstopped = False
        self.children: set[Client] = set()
        """Those that have started, and share what is here."""
        self.commons: dict[type, Any] = {}
        """What all children have in common beyond that, by its class."""
        self.fatal: KafkaError | None = None
        """What ended a background task, once one has failed for good."""
        self._loop: object | None = None
        """The event loop that the client was started on."""
        self._host: Host | None = None
        self._tasks: TaskGroup | None = None
        """Open from the moment the host runs until it ends."""
        self._unspawned: deque[tuple[Callable[..., Awaitable[object]], tuple[Any, ...], str]] = deque()
        """Tasks that a callback wants to be started."""
        self._spawn_wanted = Signal()
        self._started: Waiter[None] = Waiter()
        self._running = False
        self._closed = False
        self.beginnings = Waits()
        """For what begins with the client, like a run: given up when the client is stopped."""
        self._fatal_listeners: list[Callable[[BaseException], None]] = []
        self._fork_listeners: list[Callable[[], None]] = []
        self.left_behind = False
        """Whether this process is a child of the one that the client was started in: it has nothing to stop here."""

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Bootstrap: connect, negotiate versions, take the first metadata; in the background, without ``wait``.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used, within
        ``request_timeout_ms``; authentication's and TLS's own errors as such. After an error, or when cancelled,
        nothing is left behind, and the client is closed. Without ``wait`` no broker need be there: calls wait for one
        within their own time, and raise these errors then.
        """
        if self._closed:
            raise ClientClosedError
        if self._loop is not None:
            raise IllegalStateError("start() was called before")
        if self.parent is not None:
            self.parent.adopt(self)
        self._loop = loop_token()
        tell_in_children(self)
        try:
            await import_anyio()
            if self._closed:
                raise ClientClosedError
            if self.parent is None:
                atexit.register(self._warn_if_unstopped)  # for an event loop that is left as it is, or closed
            self._host = spawn_host(partial(self._run, wait), name=f"kafka client {self.config.client_id}")
            await self._started.wait()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """End every task and connection. Always ends, within ``timeout_ms`` (10000); may be called again.

        Calls that wait raise `ClientClosedError`. A caller that is cancelled stays until everything has ended.
        """
        if not self.begin_stop():
            return
        self._closed = True
        self._running = False
        self.beginnings.hurry(0.0)
        if self._host is None or not self._here:
            return  # it was not started, or has ended with its event loop
        deadline = Deadline(STOP_TIMEOUT_MS if timeout_ms is None else timeout_ms)
        try:
            if self.parent is None and self._metrics_push is not None and self.fatal is None:
                within_s = 0.0 if cancelled_by_scope() else min(LAST_PUSH_WITHIN_S, deadline.left_s() / 2)
                await to_the_end(partial(self._metrics_push.finish, within_s), "kafka client's last push")
        finally:
            await self._end(deadline)

    async def _end(self, deadline: Deadline) -> None:
        assert self._host is not None
        self._let_go(ClientClosedError())
        self._host.cancel()
        if not await to_the_end(partial(self._host.wait, deadline.left_s()), "kafka client's end"):
            self._log.warning("a background task does not end")

    def _let_go(self, error: KafkaError) -> None:
        """Raise this from every call that waits; use nothing of the parent's any more."""
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
        """Share connections and metadata with this client from now on. Raises what `check` raises."""
        try:
            self.check()
        except NotStartedError:
            raise NotStartedError("the Client whose connections this one shares is not started") from None
        self._hot += [request for request in child._hot if request not in self._hot]
        taken = {other.rebalance_lane for other in self.children}
        number = next(number for number in count() if HeldLane(number) not in taken)
        child.rebalance_lane, child.share_lane = HeldLane(number), ShareLane(number)
        if child.asks_coordinators_apart:
            child.coordinator_lane = CoordinatorLane(number)
        self.children.add(child)
        child._shared_metadata.open()

    @property
    def running(self) -> bool:
        """Whether it has started and not stopped."""
        return self._running

    @property
    def at_work(self) -> bool:
        """Whether its tasks run: it has not failed, and its event loop has not ended."""
        return self._running and self.fatal is None

    def check(self) -> None:
        """Raise if the client cannot be used here and now: cheap.

        `NotStartedError`, `ClientClosedError`, `WrongEventLoopError`, or the error that ended a background task.
        """
        if not self._running:
            raise ClientClosedError if self._closed else NotStartedError
        if self.fatal is not None:
            raise own_copy(self.fatal)
        if not self._here:
            raise WrongEventLoopError

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` anywhere but on the event loop on which the client runs, or is starting."""
        if self._host is not None and not self._host.ended and not self._here:
            raise WrongEventLoopError

    def begin_stop(self) -> bool:
        """Note that the application calls `stop`; return False in a child process, which has nothing to stop.

        Raises as `check_loop` does.
        """
        if self.left_behind:
            return False
        self.check_loop()
        self.stop_called = True
        return True

    def _warn_if_unstopped(self) -> None:
        """The event loop or the process ends: say if `stop` was not called; once for clients that share connections."""
        if not self._running or self.stop_called or self.left_behind or self._told_unstopped:
            return
        self._told_unstopped = True
        open_clients = [self, *(child for child in self.children if not child.stop_called)]
        count = sum(client.records_left() for client in open_clients)
        lost = f"{count} records were not sent, or not acknowledged: " if count else ""
        text = f"unclosed {self.facade} (client_id={self.config.client_id!r}): {lost}call stop(), or use async with"
        if lost:
            self._log.warning("%s", text)  # Python shows no ResourceWarning by default, and these records are lost
        warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    @property
    def _here(self) -> bool:
        """Whether this is the event loop that the client was started on."""
        try:
            return loop_token() is self._loop
        except RuntimeError:  # another thread, without any event loop
            return False

    async def _run(self, wait: bool) -> None:
        """The host task: everything that runs in the background runs below it."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self.spawn(self._spawn_for_callbacks, name="kafka spawner")
                if wait:
                    await self._bootstrap()
                else:
                    if self.parent is None:
                        self.metadata.begin()
                    self._begin()
                await anyio.sleep_forever()
        finally:
            # However it ended, even with its event loop: nothing runs here any more.
            try:
                (self.parent or self)._warn_if_unstopped()
            finally:
                atexit.unregister(self._warn_if_unstopped)
                self._tasks = None
                self._running = False
                self._closed = True
                self._started.set_error(ClientClosedError())
                self._let_go(ClientClosedError())

    async def _bootstrap(self) -> None:
        try:
            if self.parent is None:
                await self.metadata.bootstrap()
            elif not self.metadata.full_answers:
                await self.metadata.wait_newer(self.metadata.snapshot.generation, self.config.request_timeout_ms)
        except KafkaError as error:
            self._started.set_error(error)
        except Exception as error:
            self._started.set_error(_unexpected("bootstrap", error))
        else:
            self._begin()

    def _begin(self) -> None:
        """From now on calls are taken."""
        if self.parent is None:
            self.spawn(self.metadata.run, name="kafka metadata")
        self._running = True
        self._started.set_result(None)

    # --- background tasks --------------------------------------------------------------------------------------------

    def spawn(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str) -> None:
        """Run a task until the client stops; an error that escapes it becomes the client's fatal error."""
        if self._tasks is None:
            raise ClientClosedError if self._closed else NotStartedError
        if in_task():
            self._tasks.start_soon(uninterrupted(self._supervise), fn, args, name, name=name)
        else:
            # In a protocol's callback anyio cannot tell on which event loop it is.
            self._unspawned.append((fn, args, name))
            self._spawn_wanted.set()

    async def _spawn_for_callbacks(self) -> None:
        """Start the tasks that callbacks want."""
        while True:
            await self._spawn_wanted.wait()
            while self._unspawned:
                fn, args, name = self._unspawned.popleft()
                self.spawn(fn, *args, name=name)

    def on_fork(self, listener: Callable[[], None]) -> None:
        """Call this in each child process that ``os.fork`` makes from now on; it must only set flags."""
        self._fork_listeners.append(listener)

    def forked(self) -> None:
        """This process is a child: every call raises that from now on, and no connection is made."""
        if not self._closed:
            self.left_behind = True
            self.fatal = IllegalStateError(
                "the client was started before os.fork(), and belongs to the parent: create a new one in the child"
            )
            self.brokers.refuse(self.fatal)
            for listener in self._fork_listeners:
                listener()

    def on_fatal(self, listener: Callable[[BaseException], None]) -> None:
        """Call this once, when a background task has failed for good."""
        self._fatal_listeners.append(listener)

    def fail(self, error: KafkaError) -> None:
        """Make this the fatal error, unless there is one already: every call raises it from now on."""
        if self.fatal is None and not self._closed:
            self._log.error("the client has failed: %s", error)
            self.fatal = error
            self._started.set_error(error)
            self.metadata.close(error)
            for listener in self._fatal_listeners:
                listener(error)
            for child in list(self.children):
                child.fail(error)

    async def _supervise(self, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...], name: str) -> None:
        try:
            await fn(*args)
        except KafkaError as error:
            self.fail(error)
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:
            self.fail(_unexpected(name, error))
            if not isinstance(error, Exception):
                raise  # code of the application wants the process to end

    # --- what it measures --------------------------------------------------------------------------------------------

    def measure(self, make: Callable[[], Source]) -> None:
        """Count for those who run the cluster from now on; the source is made when a broker wants metrics (KIP-714)."""
        if self._metrics_push is not None and self._tasks is not None:
            self._metrics_push.add(self, make)

    @property
    def own_connections(self) -> Callable[[], int] | None:
        """Says how many connections this client has made; None where others share them."""
        return None if self.parent is not None else lambda: self.brokers.connections_made

    async def client_instance_id(self, timeout_ms: float | None) -> UUID:
        """The id by which brokers know this client, or the one whose connections it shares (KIP-714).

        Raises `IllegalStateError` without ``enable_metrics_push``, and what `MetricsPush.client_instance_id` does.
        """
        self.check()
        push = self._metrics_push
        if push is None:
            raise IllegalStateError("there is no client instance id: enable_metrics_push is False")
        timeout_ms = self.config.request_timeout_ms if timeout_ms is None else timeout_ms
        if self._calls is None:
            return await push.client_instance_id(timeout_ms)
        return await self._calls.wait(push.client_instance_id, timeout_ms)

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self, node_id: int, request: Request[R], *, lane: AnyLane = Lane.CONTROL, timeout_ms: float | None = None
    ) -> R:
        """The node's response to a request; ``timeout_ms`` (``request_timeout_ms``) covers connecting as well."""
        deadline = self._deadline(timeout_ms)
        connection = await self.brokers.get(node_id, lane, timeout_ms=deadline.left_ms())
        return await connection.request(request, timeout_ms=deadline.left_ms())

    async def request_any(
        self, request: Request[R], *, timeout_ms: float | None = None, avoid: Container[int] = ()
    ) -> R:
        """The response of whichever broker has the least to do, those to ``avoid`` last."""
        deadline = self._deadline(timeout_ms)
        return await self.request(await self.any_node(deadline, avoid), request, timeout_ms=deadline.left_ms())

    async def any_node(self, deadline: Deadline, avoid: Container[int] = ()) -> int:
        """Whichever broker has the least to do; waits out a bootstrap if nobody is reachable. See `least_loaded`."""
        while True:
            node_id = self.brokers.least_loaded(avoid=avoid)
            if node_id is not None:
                return node_id
            generation = self.metadata.snapshot.generation
            self.metadata.request_update()
            await self.metadata.wait_newer(generation, deadline.left_ms())

    async def controller(self, timeout_ms: float | None = None) -> int:
        """The node that takes requests for the controller: in KRaft any broker, which forwards them."""
        deadline = self._deadline(timeout_ms)
        while True:
            snapshot = self.metadata.snapshot
            if snapshot.controller_id in snapshot.brokers:
                return snapshot.controller_id
            self.metadata.request_update()
            try:
                await self.metadata.wait_newer(snapshot.generation, deadline.left_ms())
            except RequestTimedOutError:
                raise KafkaConnectionError("the cluster has no controller that this client knows") from None

    def _deadline(self, timeout_ms: float | None) -> Deadline:
        return Deadline(self.config.request_timeout_ms if timeout_ms is None else timeout_ms)


class _Tasks:
    """The client's task group, as the connections see it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start_soon(self, func: Callable[..., Any], /, *args: Any, name: object = None) -> None:
        self._client.spawn(func, *args, name=str(name))


def _unexpected(name: str, error: BaseException) -> BackgroundTaskError:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    failure = BackgroundTaskError(f"{name} ended with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
