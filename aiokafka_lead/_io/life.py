"""Start, stop, fatal errors and background tasks of all clients.

All kinds of clients follow the same rules. tests/io/test_life.py and tests/service/test_lifecycle.py test each rule for
each kind.

- A client starts once. Another call of `Life.start` raises `IllegalStateError`. After a stop, even of a client that was
  never started, it raises `ClientClosedError`.
- If a start fails or is cancelled, the client is stopped.
- A stop has two parts. In the *orderly* part, handlers end, records are sent, and groups are left. Then connections are
  closed, which always happens. If a client has failed, or is still starting, a stop skips the orderly part, and the
  start that is in progress raises `ClientClosedError`.
- A second stop waits for the first one, within its own ``timeout_ms``. It does not shorten the first stop, which still
  sends its records.
- If a stop is cancelled, the orderly part is limited to `CANCELLED_WITHIN_MS`. Then all connections are closed, and the
  cancellation is raised.
- A stop that is called by a handler returns at once, because it would otherwise wait for the handler that has called
  it. The run returns when the stop has ended.
- A stop on another event loop raises `WrongEventLoopError` and has no effect. If the client's event loop has ended, or
  this process is a child of the client's process, a stop does nothing.
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

from .. import errors
from .._accel import warn_if_plain
from .._forks import tell_in_children
from .._options.logs import client_log
from ..config import ClientConfig
from ..errors.base import own_copy
from .cancellation import Waits, cancelled_by_scope, to_the_end
from .deadline import Deadline
from .kind import Dependent, Kind
from .loop import Host, Signal, Waiter, import_anyio, in_task, loop_token, spawn_host, uninterrupted

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

L = TypeVar("L", bound="Life[Any]")

CANCELLED_WITHIN_MS = 2000.0
"""Time limit in milliseconds of the orderly part of a stop that is cancelled, or that follows a failed start."""

_waiting: ContextVar[tuple[set[Life[Any]], ...]] = ContextVar("kafka_clients_whose_stop_waits", default=())
"""The clients whose stop would wait for the code running in this context, such as a handler.

There is a set for each block of `Life.handling`. The set is cleared when the block ends, because tasks started by a
handler keep the context.
"""

CLOSE_WITHIN_MS = 100.0
"""Minimum time in milliseconds for cancelled tasks to end, even if the stop's time is up."""


class Life(Generic[L]):
    """Base class of `Client`: start, stop, and background tasks.

    All tasks run in one task group. A host task keeps it open, so that `start` and `stop` may be called from different
    tasks. The first error that a task does not catch is fatal, and `check` raises it from then on.
    """

    parent: L | None
    """The client whose connections this client uses, or None."""
    children: set[L]
    """Started clients that use the connections of this client."""

    def __init__(self, config: ClientConfig) -> None:
        self.config = config
        self.kind = Kind()
        """The behavior of this kind of client. Clients other than admin clients replace it."""
        self.facade = "Client"
        """Name of the public class that the application uses."""
        self.records_left: Callable[[], int] = int
        """Returns the number of records that have been neither acknowledged nor given up."""
        self.fatal: errors.KafkaError | None = None
        """The error that ended the client, or None."""
        self.left_behind = False
        """True in a child of the process that started the client. A stop does nothing in it."""
        self.beginnings = Waits()
        """Work that begins with the client, such as a run. It is abandoned if the client is stopped."""
        self.owner: Life[Any] | None = None
        """The client that starts and stops this one, or None if the application does."""
        self._log = client_log("client", config.client_id)
        self._told_unstopped = False
        self._loop: object | None = None
        """The event loop on which the client was started."""
        self._host: Host | None = None
        self._tasks: TaskGroup | None = None
        """The task group, which is open while the host task runs."""
        self._unspawned: deque[tuple[Callable[..., Awaitable[object]], tuple[Any, ...], str]] = deque()
        """Tasks requested by callbacks. `_spawn_for_callbacks` starts them."""
        self._spawn_wanted = Signal()
        self._started: Waiter[None] = Waiter()
        self._running = False
        self._closed = False
        self._stop_by = Deadline(math.inf)
        """Deadline of the current stop."""
        self._stopped: Waiter[None] | None = None
        """Created by the first `stop`, and completed at its end."""
        self._stopped_aside = False
        """True if the stop runs in its own task, because a handler has called it."""
        self._orderly = Waits()
        """The orderly parts of current stops."""
        self._fatal_listeners: list[Callable[[BaseException], None]] = []
        self._fork_listeners: list[Callable[[], None]] = []

    # --- implemented by concrete clients -----------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Raise an error if the client cannot be started now."""
        raise NotImplementedError

    async def _connect(self, deadline: Deadline | None, *, wait: bool) -> None:
        """Connect to the cluster by the deadline, or in the background if ``wait`` is False."""
        raise NotImplementedError

    async def _say_goodbye(self, within_s: float) -> None:
        """Send the last requests of the client itself, such as its metrics, within ``within_s`` seconds."""
        raise NotImplementedError

    def _let_go(self, error: errors.KafkaError) -> None:
        """Close connections, and raise this error from all waiting calls."""
        raise NotImplementedError

    def _failed(self, error: errors.KafkaError) -> None:
        """Raise this error from all waiting calls, because the client has failed."""
        raise NotImplementedError

    def _refuse(self, error: errors.KafkaError) -> None:
        """Make no more connections, because this process is a forked child."""
        raise NotImplementedError

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and start the client's work. If ``wait`` is True, return when the client is ready.

        ``timeout_ms`` limits the whole call. By default, connecting is limited to ``request_timeout_ms``, and the start
        of the work to `Kind.begin_within_ms`. If no bootstrap server could be used in time, raises
        `KafkaConnectionError` with the reason for each. Errors of authentication and TLS, and errors specific to the
        kind of client, are raised unchanged. After an error or a cancellation, the client is stopped.

        If ``wait`` is False, no broker is needed. Later calls wait for a broker within their own timeouts, and then
        raise these errors.
        """
        if self._closed:
            raise errors.ClientClosedError
        if self._loop is not None:
            raise errors.IllegalStateError("start() has already been called")
        warn_if_plain()
        self._prepare()
        self._loop = loop_token()
        tell_in_children(self)
        deadline = Deadline(self.config.request_timeout_ms if timeout_ms is None else timeout_ms)
        try:
            await import_anyio()
            if self._closed:
                raise errors.ClientClosedError
            if self.parent is None:
                atexit.register(self._warn_if_unstopped)  # in case the event loop is abandoned or closed
            run = partial(self._run, None if timeout_ms is None else deadline, wait)
            self._host = spawn_host(run, name=f"kafka client {self.config.client_id}")
            await self._started.wait()
            if timeout_ms is None and self.kind.begin_within_ms is not None:
                deadline = Deadline(self.kind.begin_within_ms)
            await self.kind.begin(deadline, wait=wait)
            if self._stopped is not None:
                raise errors.ClientClosedError
        except BaseException:
            if self._stopped is None:
                await self._stop(2 * CANCELLED_WITHIN_MS)
            else:
                await to_the_end(self._stopped.wait, "kafka client's end")
            raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Finish the client's work in an orderly way, and then end all tasks and connections. May be called repeatedly.

        Returns within ``timeout_ms``, by default `Kind.stop_within_ms`. In a block of `handling`, it returns at once.
        Waiting calls raise `ClientClosedError`.
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
        """In the block, let calls of `stop` return at once, because the stop waits for the end of the block.

        This also applies to tasks that are started in the block. If the client has been stopped in this way, the end of
        the block waits for the end of the stop.
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
            if self._host is not None and self._here:  # otherwise, it has not been started, or its event loop has ended
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

    async def stop_all(self, clients: Collection[Dependent], timeout_ms: float) -> None:
        """Stop dependent clients concurrently. With an infinite timeout, each uses its default timeout."""

        async def stop(client: Dependent) -> None:
            try:
                await client.stop(None if timeout_ms == math.inf else timeout_ms)
            except errors.KafkaError as error:
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
        """Limit the rest of the current stop, if there is one, to ``timeout_ms``."""
        if self._stopped is not None and self._stop_by.bring_forward(timeout_ms):
            self._orderly.hurry(time.monotonic() + self._orderly_left_s())
            for client in self.kind.dependents():
                client.hurry(timeout_ms)

    async def _end(self) -> None:
        """End all tasks and connections. A cancelled caller still waits until this is done."""
        self._closed = True
        self._running = False
        self.kind.release()
        if not self._here:
            return  # not started, or its event loop has ended
        if self._host is None:
            self._let_go(errors.ClientClosedError())  # the start ended before the host task began
            return
        try:
            if self.fatal is None:
                within_s = 0.0 if cancelled_by_scope() else self._stop_by.left_s() / 2
                await to_the_end(partial(self._say_goodbye, within_s), "kafka client's last push")
        finally:
            self._let_go(errors.ClientClosedError())
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
        """True while the client's tasks are running.

        That is, it has neither stopped nor failed, and its event loop has not ended.
        """
        return self._running and self.fatal is None

    def check(self) -> None:
        """Raise an error if the client cannot be used now from this task. The check is cheap.

        Raises `NotStartedError`, `ClientClosedError`, `WrongEventLoopError`, or the fatal error.
        """
        if not self._running:
            raise errors.ClientClosedError if self._closed else errors.NotStartedError
        if self.fatal is not None:
            raise own_copy(self.fatal)
        if not self._here:
            raise errors.WrongEventLoopError

    def check_loop(self) -> None:
        """Raise `WrongEventLoopError` if the client is running or starting on another event loop."""
        if self._host is not None and not self._host.ended and not self._here:
            raise errors.WrongEventLoopError

    def _warn_if_unstopped(self) -> None:
        """Warn if `stop` was not called before the end of the event loop or process.

        Shared connections cause a single warning.
        """
        if not self._running or self.stopping or self.left_behind or self._told_unstopped:
            return
        self._told_unstopped = True
        open_clients: list[Life[Any]] = [self, *(child for child in self.children if not child.stopping)]
        count = sum(client.records_left() for client in open_clients)
        lost = f"{count} records were not sent, or not acknowledged: " if count else ""
        text = f"unclosed {self.facade} (client_id={self.config.client_id!r}): {lost}call stop(), or use async with"
        if lost:
            # By default, Python does not show a ResourceWarning, but these records are lost.
            self._log.warning("%s", text)
        warnings.warn(text, ResourceWarning, source=self, stacklevel=2)

    @property
    def _here(self) -> bool:
        """True if called on the event loop on which the client was started."""
        try:
            return loop_token() is self._loop
        except RuntimeError:  # this thread has no event loop
            return False

    # --- background tasks --------------------------------------------------------------------------------------------

    async def _run(self, deadline: Deadline | None, wait: bool) -> None:
        """Run the host task, which is the parent of all background tasks."""
        try:
            async with anyio.create_task_group() as self._tasks:
                self.spawn(self._spawn_for_callbacks, name="kafka spawner")
                try:
                    await self._connect(deadline, wait=wait)
                except errors.KafkaError as error:
                    self._started.set_error(error)
                except Exception as error:
                    self._started.set_error(_unexpected("bootstrap", error))
                else:
                    self._running = True
                    self._started.set_result(None)
                await anyio.sleep_forever()
        finally:
            # The tasks have ended for some reason, perhaps because the event loop has.
            try:
                if not self.stopping:
                    (self.parent or self)._warn_if_unstopped()
            finally:
                atexit.unregister(self._warn_if_unstopped)
                self._tasks = None
                self._running = False
                self._closed = True
                self._started.set_error(errors.ClientClosedError())
                self._let_go(errors.ClientClosedError())

    def spawn(self, fn: Callable[..., Awaitable[object]], *args: Any, name: str) -> None:
        """Run ``fn`` in a task until the client stops. An error that it does not catch is fatal for the client."""
        if self._tasks is None:
            raise errors.ClientClosedError if self._closed else errors.NotStartedError
        if in_task():
            self._tasks.start_soon(uninterrupted(self._supervise), fn, args, name, name=name)
        else:
            # Callbacks of a protocol run outside of tasks, where anyio cannot find the event loop.
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
        """Call ``listener`` in each child process that ``os.fork`` creates from now on. It must only set flags."""
        self._fork_listeners.append(listener)

    def forked(self) -> None:
        """Make all calls raise an error in this child process, and make no connections."""
        if not self._closed:
            self.left_behind = True
            self.fatal = errors.IllegalStateError(
                "the client was started before os.fork(), and belongs to the parent: create a new one in the child"
            )
            self._refuse(self.fatal)
            for listener in self._fork_listeners:
                listener()

    def on_fatal(self, listener: Callable[[BaseException], None]) -> None:
        """Call ``listener`` with the fatal error, once, if the client fails."""
        self._fatal_listeners.append(listener)

    def fail(self, error: errors.KafkaError) -> None:
        """Set the fatal error unless there is one. All later calls raise it."""
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
        except errors.KafkaError as error:
            self.fail(error)
        except (anyio.get_cancelled_exc_class(), GeneratorExit):
            raise
        except BaseException as error:
            self.fail(_unexpected(name, error))
            if not isinstance(error, Exception):
                raise  # the application's own code is ending the process


def _unexpected(name: str, error: BaseException) -> errors.BackgroundTaskError:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    failure = errors.BackgroundTaskError(f"{name} ended with {type(error).__name__}: {error}")
    failure.__cause__ = error
    return failure
