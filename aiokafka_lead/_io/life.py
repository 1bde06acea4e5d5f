"""The lifetime of a client of any kind: start, stop, fatal errors, background tasks.

All kinds follow the same rules; tests/io/test_life.py and tests/service/test_lifecycle.py test each rule for each kind:

- A client starts once. A second `Life.start` raises `IllegalStateError` without effect; after a stop, even one before
  the start, it raises `ClientClosedError`.
- A start that fails, or is cancelled, stops the client.
- A stop has two parts: an orderly one, in which handlers end, records are sent and groups are left, and the closing of
  connections, which always happens. A stop of a client that has failed, or is only starting, closes it at once; a
  start under way raises `ClientClosedError`.
- A second stop waits for the first one, within its own ``timeout_ms``, and does not shorten it: records that the first
  one was to send are sent.
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
"""Time that a cancelled stop, or a failed start, has to commit, to leave a group and the like."""

_waiting: ContextVar[frozenset[Life[Any]]] = ContextVar("kafka_clients_whose_stop_waits", default=frozenset())
"""Clients whose stop waits for the code that runs in this context, as it does for handlers."""

CLOSE_WITHIN_MS = 100.0
"""Least time for tasks to end once they are cancelled. They need next to none, but a stop may have none left."""


class Kind:
    """The part of a lifetime that differs between kinds of clients. This base is an admin client's."""

    stop_within_ms = 10_000.0
    """Time of a stop without a timeout."""
    begin_within_ms: float | None = None
    """Time of `begin` in a start without a timeout; None means the rest of ``request_timeout_ms``."""
    closing_share, closing_ms = 0.1, 500.0
    """Part of a stop's time that its orderly part leaves for closing connections, and its upper limit."""

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Start background work, now that the client is connected, or without ``wait`` is about to be.

        With ``wait``, return when the client is ready, or at the deadline, with the rest in the background.
        """

    def block_done(self) -> None:
        """Let the application be done with its records: its ``async with`` block has ended without an error."""

    def check_stop(self) -> None:
        """Raise if the caller must not stop the client."""

    def refuse(self) -> None:
        """Take no new calls: a stop begins."""

    async def finish(self, deadline: Deadline) -> None:
        """End the application's work in an orderly way. Cancelled when that takes too long.

        Runs in the task that stops the client.
        """

    async def depart(self, deadline: Deadline) -> None:
        """Send last messages to the brokers, after any end of `finish`; never cancelled before the deadline."""

    def dependents(self) -> Collection[Life[Any]]:
        """Return the clients that must not outlive this one: `finish` stops them, or else the code after `depart`."""
        return ()

    def release(self) -> None:
        """Let waiting calls raise `ClientClosedError`, just before connections are closed."""


class Life(Generic[L]):
    """Base of the client: its start and stop, and the background tasks that live meanwhile.

    All tasks live in one task group, which a host task of the client's own keeps open, so that `start` and `stop` may
    be called from different tasks. The first error that escapes a task is fatal: `check` raises it from then on.
    """

    parent: L | None
    """Client whose connections this one shares."""
    children: set[L]
    """Started clients that share the connections of this one."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.kind = Kind()
        """Set by the kind of client that this is part of."""
        self.facade = "Client"
        """Class created by the application."""
        self.records_left: Callable[[], int] = int
        """Counts the records that are neither acknowledged nor given up."""
        self.fatal: KafkaError | None = None
        """Error that ended a background task, once one has failed for good."""
        self.left_behind = False
        """True in a child of the process that started the client: a stop does nothing here."""
        self.beginnings = Waits()
        """Work that begins with the client, like a run: abandoned when the client is stopped."""
        self.owner: Life[Any] | None = None
        """Client that starts and stops this one, if the application does not."""
        self._log = client_log("client", config.client_id)
        self._told_unstopped = False
        self._loop: object | None = None
        """Event loop that started the client."""
        self._host: Host | None = None
        self._tasks: TaskGroup | None = None
        """Open from the moment the host runs until it ends."""
        self._unspawned: deque[tuple[Callable[..., Awaitable[object]], tuple[Any, ...], str]] = deque()
        """Tasks to be started for callbacks."""
        self._spawn_wanted = Signal()
        self._started: Waiter[None] = Waiter()
        self._running = False
        self._closed = False
        self._stop_by = Deadline(math.inf)
        """Deadline of the current stop."""
        self._stopped: Waiter[None] | None = None
        """Created by the first `stop`, done when that has ended."""
        self._stopped_aside = False
        """True if the stop runs in a task of its own, since a handler has called it."""
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
        """Close connections, and raise this error from every waiting call."""
        raise NotImplementedError

    def _failed(self, error: KafkaError) -> None:
        """Raise this error from every waiting call: the client has failed."""
        raise NotImplementedError

    def _refuse(self, error: KafkaError) -> None:
        """Make no more connections, since this process is a child."""
        raise NotImplementedError

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and begin; with ``wait``, return when the client is ready.

        All of it takes ``timeout_ms`` at most. Without one, connecting has ``request_timeout_ms``, and beginning its
        kind's own time. Raises `KafkaConnectionError` with the reason for each bootstrap server if none could be used
        in time; authentication and TLS errors unchanged; and errors of the kind of client. After an error or a
        cancellation, the client is stopped. Without ``wait`` no broker is needed: calls wait for one within their own
        time, and then raise these errors.
        """
        if self._closed:
            raise ClientClosedError
        if self._loop is not None:
            raise IllegalStateError("start() was called before")
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
        """End the client's work in an orderly way, then every task and connection. May be called again.

        Returns within ``timeout_ms``; without one, in the time that its kind of client takes. In a block of `handling`
        it returns at once. Waiting calls raise `ClientClosedError`.
        """
        if self.left_behind:
            return
        self.check_loop()
        self.kind.check_stop()
        within_ms = self.kind.stop_within_ms if timeout_ms is None else timeout_ms
        if self in _waiting.get():
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
        before = _waiting.get()
        _waiting.set(before.union(clients))
        try:
            yield
        finally:
            _waiting.set(before)
        if self._stopped is not None and any(client._stopped_aside for client in clients):
            await self._stopped.wait()

    async def _stop(self, timeout_ms: float) -> None:
        await self._end_stop(self._begin_stop(timeout_ms))

    async def _end_stop_aside(self, stopped: Waiter[None]) -> None:
        _waiting.set(frozenset())
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
        """Stop this client's dependent clients concurrently; an infinite timeout means none."""

        async def stop(client: Life[Any]) -> None:
            try:
                await client.stop(None if timeout_ms == math.inf else timeout_ms)
            except KafkaError as error:
                self._log.warning("a client did not stop as it should: %s", error)

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
        """Let a current stop end within this time."""
        if self._stopped is not None and self._stop_by.bring_forward(timeout_ms):
            self._orderly.hurry(time.monotonic() + self._orderly_left_s())
            for client in self.kind.dependents():
                client.hurry(timeout_ms)

    async def _end(self) -> None:
        """End every task and connection. A cancelled caller stays until that is done."""
        self._closed = True
        self._running = False
        self.kind.release()
        if not self._here:
            return  # it was not started, or has ended with its event loop
        if self._host is None:
            self._let_go(ClientClosedError())  # its start has ended before its tasks began
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
                self._log.warning("a background task does not end")

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
        """True while its tasks run: it has not failed, and its event loop has not ended."""
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

    def _warn_if_unstopped(self) -> None:
        """Warn at the end of the event loop or process if `stop` was not called; once for shared connections."""
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
        """True on the event loop that started the client."""
        try:
            return loop_token() is self._loop
        except RuntimeError:  # another thread, without any event loop
            return False

    # --- background tasks --------------------------------------------------------------------------------------------

    async def _run(self, deadline: Deadline | None, wait: bool) -> None:
        """The host task, the parent of all background tasks."""
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
            # In a protocol's callback anyio cannot tell on which event loop it is.
            self._unspawned.append((fn, args, name))
            self._spawn_wanted.set()

    async def _spawn_for_callbacks(self) -> None:
        """Start the tasks for callbacks."""
        while True:
            await self._spawn_wanted.wait()
            while self._unspawned:
                fn, args, name = self._unspawned.popleft()
                self.spawn(fn, *args, name=name)

    def on_fork(self, listener: Callable[[], None]) -> None:
        """Call this in each child process that ``os.fork`` makes from now on; it must only set flags."""
        self._fork_listeners.append(listener)

    def forked(self) -> None:
        """Called in a child process: every call raises from now on, and no connection is made."""
        if not self._closed:
            self.left_behind = True
            self.fatal = IllegalStateError(
                "the client was started before os.fork(), and belongs to the parent: create a new one in the child"
            )
            self._refuse(self.fatal)
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
                raise  # code of the application asks the process to end


def _unexpected(name: str, error: BaseException) -> BackgroundTaskError:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    failure = BackgroundTaskError(f"{name} ended with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
