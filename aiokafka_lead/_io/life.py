"""Start, stop, fatal errors and background tasks of clients of all kinds.

All kinds follow the same rules. tests/io/test_life.py and tests/service/test_lifecycle.py test each rule for each kind:

- A client starts once. A second `Life.start` has no effect and raises `IllegalStateError`. After a stop, even if the
  client had not been started, it raises `ClientClosedError`.
- A start that fails or is cancelled stops the client.
- A stop has two parts. In the orderly part, handlers end, records are sent and groups are left. Then connections are
  closed, which always happens. A stop of a client that has failed or is still starting skips the orderly part; the
  pending start raises `ClientClosedError`.
- A second stop waits for the first within the ``timeout_ms`` of the second. It does not shorten the first stop, which
  still sends its records.
- A cancelled stop limits the orderly part to `CANCELLED_WITHIN_MS`, closes all connections, and then raises the
  cancellation.
- A stop called by a handler, which would wait for the handler itself, begins, and the call returns at once. The run
  returns when the stop has ended.
- A stop on another event loop raises `WrongEventLoopError` without effect. If the client's event loop has ended, or
  this process is a child of the client's, a stop does nothing.
"""

from __future__ import annotations

import atexit
import math
import time
import warnings
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import anyio

from .._accel import warn_if_plain
from .._options.logs import client_log
from ..config import ClientConfig
from ..errors import (
    BackgroundTaskError,
    ClientClosedError,
    IllegalStateError,
    KafkaError,
    NotStartedError,
    WrongEventLoopError,
)
from ..errors.base import own_copy
from .cancellation import Waits, cancelled_by_scope, to_the_end
from .deadline import Deadline
from .forks import tell_in_children
from .loop import Host, Signal, Waiter, import_anyio, in_task, loop_token, spawn_host, uninterrupted

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

L = TypeVar("L", bound="Life[Any]")

CANCELLED_WITHIN_MS = 2000.0
"""Time limit of the orderly part of a cancelled stop or a failed start, for example to commit and to leave a group."""

_waiting: ContextVar[tuple[set[Life[Any]], ...]] = ContextVar("kafka_clients_whose_stop_waits", default=())
"""Clients whose stop waits for the code that runs in this context, as it does for handlers: a set for each block of
`Life.handling`, empty after its end, since tasks that a handler has started keep the context."""

CLOSE_WITHIN_MS = 100.0
"""Minimum time for cancelled tasks to end, even if the stop has no time left."""


class Kind:
    """The parts of start and stop that differ between kinds of clients. This base is the kind of an admin client."""

    stop_within_ms = 10_000.0
    """Time limit of a stop without a timeout."""
    begin_within_ms: float | None = None
    """Time limit of `begin` in a start without a timeout; None is the rest of ``request_timeout_ms``."""
    closing_share, closing_ms = 0.1, 500.0
    """Share of a stop's time reserved for closing connections, and the maximum of that time."""

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Start background work. With ``wait``, the client is connected, otherwise still connecting.

        With ``wait``, return when the client is ready, or at the deadline; the rest happens in the background.
        """

    def block_done(self) -> None:
        """Count all records as done, since the ``async with`` block has ended without an error."""

    def check_stop(self) -> None:
        """Raise if the caller must not stop the client."""

    def refuse(self) -> None:
        """Accept no more calls, since a stop begins."""

    async def finish(self, deadline: Deadline) -> None:
        """End the application's work in an orderly way. Cancelled if that takes too long.

        Runs in the task that stops the client.
        """

    async def depart(self, deadline: Deadline) -> None:
        """Send the last messages to brokers, however `finish` has ended. Not cancelled before the deadline."""

    def dependents(self) -> Collection[Life[Any]]:
        """Return the clients that must stop before this client. Those that `finish` did not stop are stopped later."""
        return ()

    def release(self) -> None:
        """Raise `ClientClosedError` from waiting calls; called before connections are closed."""


class Life(Generic[L]):
    """Base of `Client`: start, stop, and the background tasks in between.

    All tasks run in one task group, which a host task keeps open, so that `start` and `stop` may be called from
    different tasks. The first error that escapes a task is fatal: from then on `check` raises it.
    """

    parent: L | None
    """Client whose connections this client uses; None if it does not share connections."""
    children: set[L]
    """Started clients that use the connections of this client."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.kind = Kind()
        """Behaviour of this kind of client; replaced by clients other than admin clients."""
        self.facade = "Client"
        """Name of the class created by the application."""
        self.records_left: Callable[[], int] = int
        """Returns the number of records that are neither acknowledged nor given up."""
        self.fatal: KafkaError | None = None
        """Error that ended the client; None unless it has failed."""
        self.left_behind = False
        """True in a child of the process that started the client, where a stop does nothing."""
        self.beginnings = Waits()
        """Work that begins with the client, such as a run; abandoned if the client is stopped."""
        self.owner: Life[Any] | None = None
        """Client that starts and stops this client; None if the application does."""
        self._log = client_log("client", config.client_id)
        self._told_unstopped = False
        self._loop: object | None = None
        """Event loop that started the client."""
        self._host: Host | None = None
        self._tasks: TaskGroup | None = None
        """Open while the host task runs."""
        self._unspawned: deque[tuple[Callable[..., Awaitable[object]], tuple[Any, ...], str]] = deque()
        """Tasks that callbacks have requested and `_spawn_for_callbacks` starts."""
        self._spawn_wanted = Signal()
        self._started: Waiter[None] = Waiter()
        self._running = False
        self._closed = False
        self._stop_by = Deadline(math.inf)
        """Deadline of the current stop."""
        self._stopped: Waiter[None] | None = None
        """Created by the first `stop`, and done when it has ended."""
        self._stopped_aside = False
        """True if the stop runs in a separate task, since a handler has called it."""
        self._orderly = Waits()
        """Orderly parts of current stops."""
        self._fatal_listeners: list[Callable[[BaseException], None]] = []
        self._fork_listeners: list[Callable[[], None]] = []

    # --- methods of a concrete client --------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Raise if the client cannot be started now."""
        raise NotImplementedError

    async def _connect(self, deadline: Deadline | None, *, wait: bool) -> None:
        """Connect to the cluster by the deadline (``request_timeout_ms``); without ``wait`` in the background."""
        raise NotImplementedError

    async def _say_goodbye(self, within_s: float) -> None:
        """Send the remaining data on the connections."""
        raise NotImplementedError

    def _let_go(self, error: KafkaError) -> None:
        """Close connections, and raise this error from all waiting calls."""
        raise NotImplementedError

    def _failed(self, error: KafkaError) -> None:
        """Raise this error from all waiting calls, since the client has failed."""
        raise NotImplementedError

    def _refuse(self, error: KafkaError) -> None:
        """Make no more connections, since this process is a child."""
        raise NotImplementedError

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and begin; with ``wait``, return when the client is ready.

        ``timeout_ms`` limits the whole call. Without it, connecting is limited to ``request_timeout_ms`` and beginning
        to `Kind.begin_within_ms`. Raises `KafkaConnectionError` with the reason for each bootstrap server if none could
        be used in time, authentication and TLS errors unchanged, and errors of the kind of client. After an error or a
        cancellation, the client is stopped. Without ``wait``, no broker is needed: later calls wait for a broker within
        their timeouts, and then raise these errors.
        """
        if self._closed:
            raise ClientClosedError
        if self._loop is not None:
            raise IllegalStateError("start() has already been called")
        warn_if_plain()
        self._prepare()
        self._loop = loop_token()
        tell_in_children(self)
        deadline = Deadline(self.config.request_timeout_ms if timeout_ms is None else timeout_ms)
        try:
            await import_anyio()
            if self._closed:
                raise ClientClosedError
            if self.parent is None:
                atexit.register(self._warn_if_unstopped)  # for an event loop that is left as it is, or closed
            run = partial(self._run, None if timeout_ms is None else deadline, wait)
            self._host = spawn_host(run, name=f"kafka client {self.config.client_id}")
            await self._started.wait()
            if timeout_ms is None and self.kind.begin_within_ms is not None:
                deadline = Deadline(self.kind.begin_within_ms)
            await self.kind.begin(deadline, wait=wait)
            if self._stopped is not None:
                raise ClientClosedError
        except BaseException:
            if self._stopped is None:
                await self._stop(2 * CANCELLED_WITHIN_MS)
            else:
                await to_the_end(self._stopped.wait, "kafka client's end")
            raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """End the client's work in an orderly way, then all tasks and connections. May be called again.

        Returns within ``timeout_ms`` (`Kind.stop_within_ms`); in a block of `handling`, at once. Waiting calls raise
        `ClientClosedError`.
        """
        if self.left_behind:
            return
        self.check_loop()
        self.kind.check_stop()
        within_ms = self.kind.stop_within_ms if timeout_ms is None else timeout_ms
        if any(self in clients for clients in _waiting.get()):
            if self._stopped is None:
                self._stopped_aside = True
                spawn_host(partial(self._end_stop_aside, self._begin_stop(within_ms)), name="kafka stop by a handler")
        elif self._stopped is None:
            await self._stop(within_ms)
        else:
            await self._stopped.done_within(None if timeout_ms is None else timeout_ms / 1000)

    @asynccontextmanager
    async def handling(self) -> AsyncIterator[None]:
        """Let calls of `stop` return at once in this block, and in tasks that it starts, as a stop waits for its end.

        After the block wait for the end of a stop that was begun so.
        """
        clients = [client for client in (self, self.parent, self.owner) if client is not None]
        waiting = set(clients)
        before = _waiting.get()
        _waiting.set((*before, waiting))
        try:
            yield
        finally:
            _waiting.set(before)
            waiting.clear()
        if self._stopped is not None and any(client._stopped_aside for client in clients):
            await self._stopped.wait()

    async def _stop(self, timeout_ms: float) -> None:
        await self._end_stop(self._begin_stop(timeout_ms))

    async def _end_stop_aside(self, stopped: Waiter[None]) -> None:
        _waiting.set(())
        await self._end_stop(stopped)

    def _begin_stop(self, timeout_ms: float) -> Waiter[None]:
        self._stopped = Waiter()
        self._stop_by = Deadline(timeout_ms)
        self.kind.refuse()
        self.beginnings.hurry(0.0)
        return self._stopped

    async def _end_stop(self, stopped: Waiter[None]) -> None:
        try:
            if self._host is not None and self._here:  # else it was not started, or has ended with its event loop
                await self._end_orderly()
        finally:
            try:
                await self._end()
            finally:
                stopped.set_result(None)

    async def _end_orderly(self) -> None:
        cancelled = partial(self.hurry, CANCELLED_WITHIN_MS)
        try:
            if self.at_work:
                with self._orderly.within(self._orderly_left_s()):
                    await self.kind.finish(self._stop_by)
        except anyio.get_cancelled_exc_class():
            cancelled()
            raise
        finally:
            await to_the_end(self._depart, "kafka client's departure", cancelled)

    async def _depart(self) -> None:
        if self.at_work:
            with self._orderly.within(self._closing_left_s()):
                await self.kind.depart(self._stop_by)
        await self.stop_all(self.kind.dependents(), self._stop_by.left_ms() * (1 - Kind.closing_share))

    async def stop_all(self, clients: Collection[Life[Any]], timeout_ms: float) -> None:
        """Stop dependent clients concurrently. With an infinite timeout, their default timeouts apply."""

        async def stop(client: Life[Any]) -> None:
            try:
                await client.stop(None if timeout_ms == math.inf else timeout_ms)
            except KafkaError as error:
                self._log.warning("a client failed to stop: %s", error)

        if clients:
            async with anyio.create_task_group() as tasks:
                for client in clients:
                    tasks.start_soon(stop, client)

    def _closing_left_s(self) -> float:
        return max(self._stop_by.left_s(), CLOSE_WITHIN_MS / 1000)

    def _orderly_left_s(self) -> float:
        kept_ms = min(self._stop_by.timeout_ms * self.kind.closing_share, self.kind.closing_ms)
        return max(0.0, self._stop_by.left_s() - kept_ms / 1000)

    def hurry(self, timeout_ms: float) -> None:
        """Shorten the current stop, if any, to end within this time."""
        if self._stopped is not None and self._stop_by.bring_forward(timeout_ms):
            self._orderly.hurry(time.monotonic() + self._orderly_left_s())
            for client in self.kind.dependents():
                client.hurry(timeout_ms)

    async def _end(self) -> None:
        """End all tasks and connections. If the caller is cancelled, it still waits for that."""
        self._closed = True
        self._running = False
        self.kind.release()
        if not self._here:
            return  # not started, or its event loop has ended
        if self._host is None:
            self._let_go(ClientClosedError())  # the start has ended before the host task began
            return
        try:
            if self.fatal is None:
                within_s = 0.0 if cancelled_by_scope() else self._stop_by.left_s() / 2
                await to_the_end(partial(self._say_goodbye, within_s), "kafka client's last push")
        finally:
            self._let_go(ClientClosedError())
            self._host.cancel()
            within_s = min(self._closing_left_s(), Kind.stop_within_ms / 1000)
            if not await to_the_end(partial(self._host.wait, within_s), "kafka client's end"):
                self._log.warning("a background task did not end in time")

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """True between start and stop."""
        return self._running

    @property
    def stopping(self) -> bool:
        """True once a stop has begun."""
        return self._stopped is not None

    @property
    def at_work(self) -> bool:
        """True while the client's tasks run: it has neither stopped nor failed, and its event loop has not ended."""
        return self._running and self.fatal is None

    def check(self) -> None:
        """Raise an error if the client cannot be used now, from this task. Cheap.

        Raises `NotStartedError`, `ClientClosedError`, `WrongEventLoopError`, or the fatal error.
        """
        if not self._running:
            raise ClientClosedError if self._closed else NotStartedError
        if self.fatal is not None:
            raise own_copy(self.fatal)
        if not self._here:
            raise WrongEventLoopError

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` if the client runs, or is starting, on another event loop."""
        if self._host is not None and not self._host.ended and not self._here:
            raise WrongEventLoopError

    def _warn_if_unstopped(self) -> None:
        """Warn if `stop` was not called before the end of the event loop or process; once for shared connections."""
        if not self._running or self.stopping or self.left_behind or self._told_unstopped:
            return
        self._told_unstopped = True
        open_clients: list[Life[Any]] = [self, *(child for child in self.children if not child.stopping)]
        count = sum(client.records_left() for client in open_clients)
        lost = f"{count} records were not sent, or not acknowledged: " if count else ""
        text = f"unclosed {self.facade} (client_id={self.config.client_id!r}): {lost}call stop(), or use async with"
        if lost:
            self._log.warning("%s", text)  # Python shows no ResourceWarning by default, and these records are lost
        warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    @property
    def _here(self) -> bool:
        """True if called on the event loop that started the client."""
        try:
            return loop_token() is self._loop
        except RuntimeError:  # a thread without an event loop
            return False

    # --- background tasks --------------------------------------------------------------------------------------------

    async def _run(self, deadline: Deadline | None, wait: bool) -> None:
        """Run the host task, the parent of all background tasks."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self.spawn(self._spawn_for_callbacks, name="kafka spawner")
                try:
                    await self._connect(deadline, wait=wait)
                except KafkaError as error:
                    self._started.set_error(error)
                except Exception as error:
                    self._started.set_error(_unexpected("bootstrap", error))
                else:
                    self._running = True
                    self._started.set_result(None)
                await anyio.sleep_forever()
        finally:
            # The tasks have ended in some way, perhaps with the event loop.
            try:
                if not self.stopping:
                    (self.parent or self)._warn_if_unstopped()
            finally:
                atexit.unregister(self._warn_if_unstopped)
                self._tasks = None
                self._running = False
                self._closed = True
                self._started.set_error(ClientClosedError())
                self._let_go(ClientClosedError())

    def spawn(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str) -> None:
        """Run a task until the client stops; an error that escapes it becomes the client's fatal error."""
        if self._tasks is None:
            raise ClientClosedError if self._closed else NotStartedError
        if in_task():
            self._tasks.start_soon(uninterrupted(self._supervise), fn, args, name, name=name)
        else:
            # A protocol's callback runs outside of tasks, where anyio cannot find the event loop.
            self._unspawned.append((fn, args, name))
            self._spawn_wanted.set()

    async def _spawn_for_callbacks(self) -> None:
        """Start the tasks that callbacks have requested."""
        while True:
            await self._spawn_wanted.wait()
            while self._unspawned:
                fn, args, name = self._unspawned.popleft()
                self.spawn(fn, *args, name=name)

    def on_fork(self, listener: Callable[[], None]) -> None:
        """Call ``listener`` in each later child process made by ``os.fork``. It must only set flags."""
        self._fork_listeners.append(listener)

    def forked(self) -> None:
        """Make all calls raise in a child process, and make no connections there."""
        if not self._closed:
            self.left_behind = True
            self.fatal = IllegalStateError(
                "the client was started before os.fork(), and belongs to the parent: create a new one in the child"
            )
            self._refuse(self.fatal)
            for listener in self._fork_listeners:
                listener()

    def on_fatal(self, listener: Callable[[BaseException], None]) -> None:
        """Call ``listener`` once if the client fails."""
        self._fatal_listeners.append(listener)

    def fail(self, error: KafkaError) -> None:
        """Set the fatal error, unless there is one already. All later calls raise it."""
        if self.fatal is None and not self._closed:
            self._log.error("the client has failed: %s", error)
            self.fatal = error
            self._started.set_error(error)
            self._failed(error)
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
                raise  # the application's code ends the process


def _unexpected(name: str, error: BaseException) -> BackgroundTaskError:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    failure = BackgroundTaskError(f"{name} ended with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
