"""The composition root: what producer, consumer and admin client have in common."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

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
from .cancellation import to_the_end
from .connection.brokers import Brokers
from .connection.connection import Connection, Lane
from .deadline import Deadline
from .forks import tell_in_children
from .loop import Host, Signal, Waiter, import_anyio, in_task, loop_token, spawn_host
from .metadata.actor import MetadataActor

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

__all__ = ["Client"]


R = TypeVar("R", bound=Response)

STOP_TIMEOUT_MS = 10_000.0
"""How long `Client.stop` waits at most for tasks that are being cancelled, if it is given no time."""


class Client:
    """Connections, metadata and background tasks of one facade. Internal.

    All tasks live in one task group, which a host task of the client's own keeps open, so that `start` and `stop` may
    be called from different tasks. The first error that escapes a task is fatal: `check` raises it from then on.
    """

    def __init__(self, config: ClientConfig, hot: Sequence[type[Request[Any]]] = ()) -> None:
        self.config = config
        self._log = client_log("client", config.client_id)
        self.brokers = Brokers(config, _Tasks(self), hot)
        self.metadata = MetadataActor(config, self.brokers)
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
        self._fatal_listeners: list[Callable[[BaseException], None]] = []
        self._fork_listeners: list[Callable[[], None]] = []
        self.left_behind = False
        """Whether this process is a child of the one that the client was started in: it has nothing to stop here."""

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Bootstrap: connect, negotiate versions, take the first metadata.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used, within
        ``request_timeout_ms``; authentication's and TLS's own errors as such. After an error, or when cancelled,
        nothing is left behind, and the client is closed.
        """
        if self._closed:
            raise ClientClosedError
        if self._loop is not None:
            raise IllegalStateError("start() was called before")
        self._loop = loop_token()
        tell_in_children(self)
        try:
            await import_anyio()
            if self._closed:
                raise ClientClosedError
            self._host = spawn_host(self._run, name=f"kafka client {self.config.client_id}")
            await self._started.wait()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """End every task and connection. Always ends, within ``timeout_ms`` (10000); may be called again.

        Calls that wait raise `ClientClosedError`. A caller that is cancelled stays until everything has ended.
        """
        if self.left_behind:
            return
        if self._host is not None and loop_token() is not self._loop:
            raise WrongEventLoopError
        self._closed = True
        self._running = False
        if self._host is None:
            return
        closed = ClientClosedError()
        self.metadata.close(closed)
        self.brokers.stop(closed)
        self._host.cancel()
        timeout_s = (STOP_TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
        if not await to_the_end(partial(self._host.wait, timeout_s), "kafka client's end"):
            self._log.warning("a background task does not end")

    def check(self) -> None:
        """Raise if the client cannot be used here and now: cheap.

        `NotStartedError`, `ClientClosedError`, `WrongEventLoopError`, or the error that ended a background task.
        """
        if not self._running:
            raise ClientClosedError if self._closed else NotStartedError
        if self.fatal is not None:
            raise own_copy(self.fatal)
        try:
            here = loop_token()
        except RuntimeError:  # another thread, without any event loop
            here = None
        if here is not self._loop:
            raise WrongEventLoopError

    async def _run(self) -> None:
        """The host task: everything that runs in the background runs below it."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self.spawn(self._spawn_for_callbacks, name="kafka spawner")
                await self._bootstrap()
                await anyio.sleep_forever()
        finally:
            # However it ended, even with its event loop: nothing runs here any more.
            self._tasks = None
            self._running = False
            self._closed = True
            self._started.set_error(ClientClosedError())
            self.metadata.close(ClientClosedError())

    async def _bootstrap(self) -> None:
        try:
            await self.metadata.bootstrap()
        except KafkaError as error:
            self._started.set_error(error)
        except Exception as error:
            self._started.set_error(_unexpected("bootstrap", error))
        else:
            self.spawn(self.metadata.run, name="kafka metadata")
            self._running = True
            self._started.set_result(None)

    # --- background tasks --------------------------------------------------------------------------------------------

    def spawn(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str) -> None:
        """Run a task until the client stops; an error that escapes it becomes the client's fatal error."""
        if self._tasks is None:
            raise ClientClosedError if self._closed else NotStartedError
        if in_task():
            self._tasks.start_soon(self._supervise, fn, args, name, name=name)
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

    async def _supervise(self, fn: Callable[..., Awaitable[object]], args: tuple[Any, ...], name: str) -> None:
        try:
            await fn(*args)
        except KafkaError as error:
            self.fail(error)
        except Exception as error:
            self.fail(_unexpected(name, error))

    # --- requests ----------------------------------------------------------------------------------------------------

    async def request(
        self, node_id: int, request: Request[R], *, lane: Lane = Lane.CONTROL, timeout_ms: float | None = None
    ) -> R:
        """The node's response to a request; ``timeout_ms`` (``request_timeout_ms``) covers connecting as well."""
        deadline = self._deadline(timeout_ms)
        connection = await self.brokers.get(node_id, lane, timeout_ms=deadline.left_ms())
        return await connection.request(request, timeout_ms=deadline.left_ms())

    async def request_any(self, request: Request[R], *, timeout_ms: float | None = None) -> R:
        """The response of whichever broker has the least to do."""
        deadline = self._deadline(timeout_ms)
        connection = await self.any_connection(timeout_ms=deadline.left_ms())
        return await connection.request(request, timeout_ms=deadline.left_ms())

    async def any_connection(self, *, timeout_ms: float | None = None) -> Connection:
        """A connection to whichever broker has the least to do; waits out a bootstrap if nobody is reachable."""
        deadline = self._deadline(timeout_ms)
        while True:
            node_id = self.brokers.least_loaded()
            if node_id is not None:
                return await self.brokers.get(node_id, timeout_ms=deadline.left_ms())
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
