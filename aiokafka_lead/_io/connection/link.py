"""The task that keeps a node connected on a lane while a connection is needed."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from ssl import SSLContext
from typing import Any

import anyio

from ..._core.connection.foreign import HANDSHAKE_MAX_BYTES
from ..._core.metadata.reachability import Endpoint, NodeState, Reachability
from ..._options.addresses import Search, without_root
from ..._options.logs import ClientLog
from ..._values import NamedTuple
from ..._wire import ApiVersions, Request
from ...errors import KafkaConnectionError, KafkaError
from ...errors.base import own_copy
from ...errors.shown import shown
from ..loop import Spawner, Waiter, sleep_until, uninterrupted
from .connection import Connection
from .failures import RESOLVING, of_addresses, timeout_kind
from .handshake import Expected, Security, has_newer_version, may_lack_version, shake_hands
from .renewal import Renewal
from .settings import AnyLane, ConnectionSettings
from .transport import AddressInfo, Way, dial, resolve


class LinkContext(NamedTuple):
    """Data shared by all links of a client."""

    settings: ConnectionSettings
    security: Security
    hot: Sequence[type[Request[Any]]]
    """Requests whose codecs are created before a connection is ready."""
    reachability: Reachability
    way: Way | None
    """The proxy or function that connects to brokers, or None to connect directly."""
    expected: Callable[[Endpoint], Expected | None]
    """Returns the cluster to which an address must lead, or None if it is unknown or not checked."""
    tasks: Spawner
    notify: Callable[[int], None]
    """Called with the node's id when `Link.state` has changed, and when its connection accepts requests again."""
    connected: Callable[[ApiVersions], None]
    """Called with the broker's API versions when a connection has become ready."""
    log: ClientLog


class Link:
    """Connects to an endpoint on demand, waits for backoffs to end, and owns the connection until it closes.

    Its task runs only while a connection is wanted, connecting or open. The endpoint of a link never changes. A closed
    link stays closed, and abandons any attempt to connect.
    """

    def __init__(self, node_id: int, endpoint: Endpoint, lane: AnyLane, context: LinkContext) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.lane = lane
        host, port = endpoint
        name = shown(host)
        address = f"[{name}]:{port}" if ":" in host else f"{name}:{port}"
        self.label = address if node_id < 0 else f"{node_id} ({address})"
        """Name of the broker in errors and logs. It contains the node id, except for a bootstrap server."""
        self.connection: Connection | None = None
        """The connection while it is ready, otherwise None."""
        self._attempt: Connection | None = None
        """The connection, from the start of an attempt until it is closed and a successor has taken over.

        It is None at other times.
        """
        self._context = context
        self._log = context.log
        self._about = {"broker": self.label}
        self._connecting = False
        self._wanted = False
        """True if a connection has been requested since the last attempt started."""
        self._running = False
        self._next_login_at = 0.0
        """Earliest time of the next login, after a session that was too short for a successor to take over."""
        self._closed = False
        self._leaving = False
        """True if the current connection is the last one, because the node has been removed."""
        self._renewal: Renewal | None = None
        """The renewal that opens the successor of the connection, or None."""
        self._scope: anyio.CancelScope | None = None
        self._waiters: list[Waiter[Connection | None]] = []

    def state(self, now: float) -> NodeState:
        """Return the link's state at the time ``now``: ready, connecting, in backoff, or free to connect."""
        if self.connection is not None:
            return NodeState.READY
        if self._connecting:
            return NodeState.CONNECTING
        return NodeState.BACKOFF if now < self._context.reachability.retry_at(self.endpoint) else NodeState.CONNECTABLE

    @property
    def stage(self) -> str | None:
        """The stage of the connection that is being set up, for error messages, or None if there is none."""
        return self._attempt.stage if self._attempt is not None else None

    @property
    def idle(self) -> bool:
        """True if the link's task is not running. There is then neither a connection nor an attempt to connect."""
        return not self._running

    def want(self) -> None:
        """Request a connection. It is opened now, or when the backoff ends."""
        self._wanted = True
        if not self._running and not self._closed:
            self._running = True
            try:
                self._context.tasks.start_soon(self._run, name=f"kafka {self.lane.value} connection to {self.label}")
            except BaseException:
                self._running = False
                raise

    async def wait(self, timeout_s: float) -> Connection | None:
        """Wait for the end of the next attempt to connect, and return its connection.

        Returns None if the link is closed or replaced. Raises the error of the attempt, or TimeoutError after
        ``timeout_s`` seconds.
        """
        if self._closed:
            return None
        waiter: Waiter[Connection | None] = Waiter()
        self._waiters.append(waiter)
        self.want()
        try:
            return await waiter.wait(timeout_s)
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def retire(self) -> None:
        """Close once pending requests have been answered, because the node was removed or has another link."""
        self._leaving = True
        if self.connection is not None:
            # Do not connect again once this connection has closed.
            self._wanted = False
            self.connection.retire()
        else:
            self.close(KafkaConnectionError("the broker is no longer part of the cluster", broker=self.label))

    def revive(self) -> bool:
        """Undo `retire`. Return False if the link is closed."""
        self._leaving = False
        if self.connection is not None:
            self.connection.revive()
        return not self._closed

    def close(self, error: KafkaError | None) -> None:
        """Close the link at once. Requests in flight and waiting tasks fail with the error.

        No error means that the link is being replaced. Waiting tasks then try again.
        """
        if self._closed:
            return
        self._closed = True
        if self.connection is not None:
            moved = KafkaConnectionError("the broker has another address now", broker=self.label)
            self.connection.close(error or moved, expected=True)
        self._settle(None, error)
        if self._scope is not None:
            self._scope.cancel()

    # --- called by the connection ---

    def on_lost(self, connection: Connection, error: KafkaError, /) -> None:
        # A failed setup is reported by the code that awaits it.
        if connection is self.connection:
            self.connection = None
            self._context.reachability.lost(self.endpoint, time.monotonic(), error)
            self._log.info("connection lost: %s", error, extra=self._about)

    def on_change(self, connection: Connection, /) -> None:
        if connection is self._attempt and connection.closed_by is not None:
            self.connection = None
            self._take_over(connection)
        self._context.notify(self.node_id)

    # --- the task ---

    async def _run(self) -> None:
        try:
            with anyio.CancelScope() as self._scope:
                while self._wanted and not self._closed:
                    # After a failure, another lane may have extended the backoff.
                    while time.monotonic() < (begin_at := self._begin_at()):
                        await sleep_until(begin_at)
                    self._wanted = False
                    await self._serve()
        finally:
            self._running = False
            self._connecting = False
            self._scope = None

    def _begin_at(self) -> float:
        """Return the earliest time of the next attempt to connect."""
        return max(self._context.reachability.retry_at(self.endpoint), self._next_login_at)

    def _new_connection(self) -> Connection:
        return Connection(self.node_id, self.endpoint, self._context.settings, self, self.label)

    async def _serve(self) -> None:
        """Open a connection, and serve it and its successors until they close. Runs as the link's task."""
        self._connecting = True
        self._context.notify(self.node_id)
        crash: Exception | None = None
        try:
            async with anyio.create_task_group() as group:
                try:
                    await self._keep(await self._connect(group), group)
                except Exception as error:
                    crash = error  # kept here, because the task group would wrap it
                    self._end_attempt(KafkaConnectionError(f"an internal error: {error!r}"))
        finally:
            self._connecting = False
            # Only if this task was cancelled is the connection still open here.
            self._end_attempt(KafkaConnectionError("the client has closed the connection", broker=self.label))
            self.connection = self._attempt = None
        if crash is not None:
            raise crash

    def _new_attempt(self) -> Connection:
        self._attempt = self._new_connection()
        return self._attempt

    def _end_attempt(self, error: KafkaError) -> None:
        if self._attempt is not None:
            self._attempt.close(error, expected=True)

    async def _keep(self, connection: Connection | None, group: Spawner) -> None:
        """Wait until the connection and all its successors have closed."""
        while connection is not None:
            set_up = partial(self._set_up, group=group)
            within_s = self._context.settings.request_timeout_s
            renewal = self._renewal = Renewal(connection, self._new_connection, set_up, self._log, within_s)
            if connection.session.renew_at < math.inf:
                group.start_soon(uninterrupted(renewal.run))
            try:
                await connection.watch()
            finally:
                renewal.stop()
            connection = self._attempt if self._attempt is not connection else None

    def _take_over(self, ended: Connection) -> None:
        """Replace the ended connection by the successor that a renewal has opened. Do nothing if there is none."""
        successor = None if self._renewal is None or self._leaving or self._closed else self._renewal.take()
        if successor is None:
            return
        successor.take_over(ended.used_at)
        self._attempt = successor
        self._wanted = False
        self._use(successor)
        self._log.debug("connected to %s for %s, to renew the session", self.label, self.lane.value, extra=self._about)
        self._settle(successor, None)

    async def _connect(self, group: Spawner) -> Connection | None:
        """Connect, and return the ready connection, or None if it is no longer wanted or the attempt has failed.

        A failure is raised from the calls that wait for the connection.
        """
        try:
            connection = await self._set_up(self._new_attempt, group)
        except KafkaError as failure:
            error = failure
        else:
            return connection if self._became_ready(connection) else None
        self._connecting = False
        known = self._context.reachability.last_error(self.endpoint)
        self._context.reachability.failed(self.endpoint, time.monotonic(), error)
        # Log once per outage, instead of once per attempt.
        repeated = known is not None and known.message == error.message
        self._log.log(logging.DEBUG if repeated else logging.WARNING, "no connection: %s", error, extra=self._about)
        self._end_attempt(error)
        self._settle(None, error)
        self._context.notify(self.node_id)
        return None

    async def _set_up(self, new: Callable[[], Connection], group: Spawner) -> Connection:
        """Return a connection to the first working address of the host, within a time limit.

        ``new`` creates a connection for each address. Raises `KafkaError` with the broker's name and the failure of
        each address.
        """
        timeout_s = self._context.reachability.setup_timeout_s(self.endpoint)
        search: Search[KafkaError, AddressInfo] = self._context.reachability.search(self.endpoint)
        connection = new()
        try:
            with anyio.fail_after(timeout_s):
                tls = await self._tls_context(connection)
                search.found = await self._addresses(connection)
            # Start a second time limit, so that slow name resolution does not shorten the rest.
            with anyio.fail_after(timeout_s):
                while not await self._set_up_next(connection, tls, search, group):
                    connection = new()
                return connection
        except TimeoutError:
            search.failed(KafkaConnectionError(f"no answer during {connection.stage}"), silent=True)
            text = f"no answer within {timeout_s * 1000:.0f} ms during {connection.stage}"
            error: KafkaError = timeout_kind(connection.stage)(text)
        except KafkaError as failure:
            error = failure
        if len(search.found) > 1:
            error = of_addresses(search.errors, error)
        raise (error if error.broker else type(error)(error.message, broker=self.label)) from error.__cause__

    async def _set_up_next(
        self, connection: Connection, tls: SSLContext | None, search: Search[KafkaError, AddressInfo], group: Spawner
    ) -> bool:
        """Set up ``connection`` at the next address of ``search``. Return True if it is ready.

        Returns False if another address should be tried. Raises all other errors.
        """
        reachability = self._context.reachability
        older = reachability.asks_older_version(self.endpoint)
        error: KafkaError
        try:
            await self._open(connection, tls, search, group, older=older)
        except TimeoutError:
            silent, error = True, KafkaConnectionError(f"no answer during {connection.stage}")
        except KafkaError as failure:
            if may_lack_version(connection, failure) and reachability.hung_up(self.endpoint, older=older):
                self._log.debug("%s; trying an older version of ApiVersions", failure, extra=self._about)
                connection.close(failure, expected=True)
                return False
            silent, error = False, failure
        else:
            search.succeeded()
            return True
        news = search.failed(error, silent=silent)
        connection.close(error, expected=True)
        if not search.left():
            raise error
        level = logging.WARNING if news else logging.DEBUG
        so_far = of_addresses(search.errors, error).message
        self._log.log(level, "trying another address of %s: %s", self.label, so_far, extra=self._about)
        return False

    async def _tls_context(self, connection: Connection) -> SSLContext | None:
        tls, login = self._context.security.tls, self._context.security.login
        if tls is not None:
            connection.stage = "reading the TLS certificates"
        context = None if tls is None else await tls.next()
        if login is not None:
            from .login import warn_of_exposure  # not imported without authentication

            warn_of_exposure(self._log, login, context)
        return context

    async def _addresses(self, connection: Connection) -> Mapping[str, AddressInfo]:
        way = self._context.way
        if way is not None:
            return way.addresses(*self.endpoint)
        connection.stage = RESOLVING
        return await resolve(*self.endpoint)

    async def _open(
        self,
        connection: Connection,
        tls: SSLContext | None,
        search: Search[KafkaError, AddressInfo],
        group: Spawner,
        *,
        older: bool,
    ) -> None:
        """Open the connection at the next address and make it ready.

        With ``older``, the handshake starts with an older version of ApiVersions. Raises TimeoutError if the address
        does not respond in time.
        """
        began, way = time.monotonic(), self._context.way
        connection.stage = "connecting" if way is None else f"connecting through {way.label}"
        candidates = search.candidates()
        with anyio.fail_after(search.patience_s):
            dialled = await dial(candidates, search, way=way)
        search.reached(dialled.address)
        patience_s = search.patience_s
        connection.patience_s = None if patience_s == math.inf else patience_s
        if tls is not None:
            connection.stage = "the TLS handshake"
        with anyio.fail_after(connection.patience_s):
            transport = await dialled.open(
                without_root(self.endpoint[0]),
                ssl_context=tls,
                handler=connection,
                max_frame_bytes=min(HANDSHAKE_MAX_BYTES, self._context.settings.receive_max_bytes),
            )
        connection.opening_s = time.monotonic() - began
        group.start_soon(uninterrupted(transport.run))
        connection.opened(transport)
        security, expected = self._context.security, self._context.expected(self.endpoint)
        await shake_hands(connection, security, self._context.hot, expected, older=older)
        if has_newer_version(connection.versions):
            self._context.reachability.has_newer_version(self.endpoint)
        self._context.connected(connection.versions)

    def _became_ready(self, connection: Connection) -> bool:
        if self._closed:
            connection.close(KafkaConnectionError("no longer wanted", broker=self.label), expected=True)
            return False
        self._connecting = False
        self._use(connection)
        self._log.debug("connected to %s for %s", self.label, self.lane.value, extra=self._about)
        self._settle(connection, None)
        self._context.notify(self.node_id)
        return True

    def _use(self, connection: Connection) -> None:
        self.connection = connection
        self._next_login_at = connection.session.next_login_at
        self._context.reachability.succeeded(self.endpoint, time.monotonic())

    def _settle(self, connection: Connection | None, error: KafkaError | None) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if error is not None:
                # Each task raises its own copy, because raising an error adds a traceback to it.
                waiter.set_error(own_copy(error))
            else:
                waiter.set_result(connection)
