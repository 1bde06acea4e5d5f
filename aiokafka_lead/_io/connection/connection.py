"""A connection to a broker. Requests are pipelined, and responses arrive in order.

If a compiler is available, this code is compiled through ``connection.pxd``.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

from ..._core.connection.in_flight import InFlight, InFlightLedger, OnDone
from ..._core.connection.session import ENDLESS, Session
from ..._core.metadata.reachability import Endpoint
from ..._wire import ApiVersions, Buffer, Request, Response, decode_answer, encode_request, peek_correlation_id
from ...errors import FrameTooLargeError, KafkaConnectionError, KafkaError, RequestTimedOutError
from ...errors.base import own_copy, without_frames
from ..deadline import Deadline
from ..loop import Signal, Waiter
from .failures import end_error, in_flight_error, with_broker
from .settings import ConnectionSettings
from .transport import Transport
from .turns import TurnQueue

R = TypeVar("R", bound=Response)

NO_VERSIONS = ApiVersions({})


class ConnectionOwner(Protocol):
    """Receives a connection's events. The calls are synchronous and must not raise exceptions."""

    def on_lost(self, connection: Connection, error: KafkaError, /) -> None:
        """Handle the end of the connection. Its requests in flight fail after this call."""

    def on_change(self, connection: Connection, /) -> None:
        """Handle a change: requests can be sent again or, after the connection has ended, all requests in flight have
        failed.
        """


class Connection:
    """A connection, from opening to closing. It is never reopened.

    Invariant: ``on_done`` is called exactly once for each submitted request.
    """

    def __init__(
        self, node_id: int, endpoint: Endpoint, settings: ConnectionSettings, owner: ConnectionOwner, label: str
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.label = label
        """Name of the broker in errors, such as ``1 (host:9092)``."""
        self.versions = NO_VERSIONS
        """API versions of the broker. Empty until the connection is ready."""
        self._versions: dict[type[Request[Any]], int] = {}
        """Version in use for each class of request."""
        self.ready = False
        """True if requests may be submitted: the connection is set up, and is neither retired nor closed."""
        self.stage = "connecting"
        """Current stage of the setup, for the message of a timeout."""
        self.patience_s: float | None = None
        """Time limit in seconds of each response during the setup, or None. The whole setup has a limit as well."""
        self.opening_s = 0.0
        """Seconds that it took to connect to the broker or to a proxy, including TLS."""
        self.closed_by: KafkaError | None = None
        """The error that ended the connection, or None while it is open."""
        self.session = ENDLESS
        """The authenticated session. It contains the time at which to open the next connection (KIP-368)."""
        self.retire_at = math.inf
        """Time from which no more requests are accepted.

        The connection then closes once it has no pending requests (KIP-368).
        """
        self.used_at = time.monotonic()
        """Time at which a request was last sent."""
        self.on_successor: list[Callable[[Connection], Awaitable[None]]] = []
        """Called before a successor takes over, to move state that is bound to this connection (KIP-368)."""
        self.handing_over = False
        """True while such state is being moved. The connection then stays open until `step_down`."""
        self._stepping_down = False
        self._settings = settings
        self._max_in_flight = settings.max_in_flight
        self._owner = owner
        self._transport: Transport | None = None
        self._ledger = InFlightLedger()
        self._unsent: deque[OnDone] = deque()
        """Callbacks of requests without a response that the operating system has not accepted yet."""
        self._unsent_deadline = math.inf
        self._muted = False
        """True while the broker throttles this client, until ``_muted_until`` (KIP-219)."""
        self._muted_until = 0.0
        self._welcome = False
        """True if the broker has authenticated this client or answered a request."""
        self._refused = False
        """True if `can_send` has returned False since listeners were last notified."""
        self._turns = TurnQueue(self.can_send)
        """Tasks that are waiting to send a request."""
        self._wake = Signal()
        """Wakes `watch` before ``_wake_at``."""
        self._wake_at = 0.0
        self._crash: Exception | None = None
        """An unexpected exception of a callback. `watch` raises it."""

    def __repr__(self) -> str:
        state = "closed" if self.closed_by is not None else "ready" if self.ready else self.stage
        return f"<Connection to {self.label}: {state}, {self.in_flight} in flight>"

    @property
    def muted_s(self) -> float:
        """Remaining throttle time in seconds (KIP-219). It is 0 if the broker does not throttle this client."""
        return max(0.0, self._muted_until - time.monotonic()) if self._muted else 0.0

    @property
    def in_flight(self) -> int:
        """Number of requests that have been sent but not answered."""
        return len(self._ledger)

    def can_send(self) -> bool:
        """Return True if a request can be sent now. Otherwise, listeners are notified when that changes.

        The connection must be ready, and neither throttled nor congested, and must have fewer requests in flight than
        the maximum. After `retire_at` it returns False, even if the timer is late because the event loop is busy.
        """
        if (
            self.ready
            and len(self._ledger) < self._max_in_flight
            and not self._muted
            and not (self.retire_at != math.inf and time.monotonic() >= self.retire_at)
            and not (self._transport is None or self._transport.paused)
        ):
            return True
        self._refused = True
        return False

    def submit(
        self,
        request: Request[Any],
        on_done: OnDone,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        expect_response: bool = True,
        raw: bool = False,
    ) -> int:
        """Send a request now and return its version. ``on_done`` is called later, once, on the event loop.

        - Call `can_send` first, because this method does not check the limit of requests in flight.
        - ``version`` defaults to the highest version that client and broker support.
        - A request that expects no response (``acks=0``) is done when the operating system has accepted it. That may be
          before this call returns.
        - With ``raw``, the result is the response's frame. The caller decodes it later, and calls `mute` if it contains
          a throttle time.
        - After ``timeout_ms`` without a response, by default ``request_timeout_ms``, the connection is closed. Later
          responses could not arrive either. Java does the same.

        Raises `KafkaConnectionError` if the connection is not ready, and `UnsupportedVersionError` if the broker does
        not support the API or the version lacks a field. In these cases, nothing is sent.
        """
        if not self.ready:
            raise self._not_ready()
        if version is None:
            request_class = type(request)
            version = self._versions.get(request_class)
            if version is None:
                version = self._versions[request_class] = self.versions.version_for(request_class)
        timeout_s = self._settings.request_timeout_s if timeout_ms is None else timeout_ms / 1000
        self._send(request, version, timeout_s, on_done, expect_response, raw)
        return version

    async def request(self, request: Request[R], *, timeout_ms: float | None = None, version: int | None = None) -> R:
        """Send a request as soon as possible, and return the response. Waits and raises like `answer`."""
        return cast(R, await self.answer(request, timeout_ms=timeout_ms, version=version))

    async def answer(
        self,
        request: Request[Any],
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        raw: bool = False,
    ) -> Any:
        """Send a request as soon as possible, and return the response. If ``raw``, return its frame.

        ``timeout_ms``, by default ``request_timeout_ms``, limits the waits for sending and for the response. A short
        timeout does not end the connection. It is closed if there is no response within the longer of ``timeout_ms``
        and ``request_timeout_ms``.

        Raises the errors of `submit`, `RequestTimedOutError`, and `KafkaConnectionError` if the connection is lost. If
        a call is cancelled or times out, its request stays in flight.
        """
        settings_ms = self._settings.request_timeout_s * 1000
        patience_ms = settings_ms if timeout_ms is None else timeout_ms
        deadline = Deadline(patience_ms)
        name = type(request).NAME
        fate = f"{name} was not sent"
        try:
            if self._turns or not self.can_send():
                if not self.ready:
                    raise self._not_ready()
                await self._turns.wait(deadline)
            answer: _Answer = _Answer()
            try:
                at_least_ms = max(patience_ms, settings_ms)
                self.submit(request, answer.on_done, timeout_ms=at_least_ms, version=version, raw=raw)
            finally:
                # Even if the request could not be sent, it is the next task's turn.
                self._turns.admit()
            fate = f"no answer to {name}"
            # The connection has a deadline for the request, so a timer is needed here only for a shorter deadline.
            return await answer.wait(None if timeout_ms is None else deadline.left_s())
        except TimeoutError:
            muted_s = self.muted_s
            why = f"throttled for {muted_s:.0f} s more" if muted_s else f"{self.in_flight} requests are in flight"
            late = RequestTimedOutError(f"{fate} within {patience_ms:.0f} ms ({why})", broker=self.label)
            late.api = name
            raise late from None

    async def exchange(self, request: Request[R], version: int) -> R:
        """Send a request before the connection is ready, and return the response.

        Raises TimeoutError after `patience_s`.
        """
        if self.closed_by is not None:
            raise self._not_ready()
        answer: _Answer = _Answer()
        self._send(request, version, self._settings.request_timeout_s, answer.on_done, True)
        return cast(R, await answer.wait(self.patience_s))

    # --- called by the task that owns the connection ---

    def opened(self, transport: Transport) -> None:
        """Use this open transport from now on. Raises `KafkaError` if the connection has already been closed."""
        if self.closed_by is not None:
            transport.close()
            raise self._not_ready()
        self._transport = transport

    def become_ready(self, versions: ApiVersions, *, authenticated: bool, session: Session) -> None:
        """Complete the setup. From now on, requests may be submitted.

        ``versions`` and ``session`` come from the handshake. ``authenticated`` is True if the client has logged in.
        """
        assert self._transport is not None
        self.versions = versions
        self.session = session
        self.retire_at = session.retire_at
        self.ready = True
        self.stage = "ready"
        self._welcome = authenticated
        self.used_at = time.monotonic()
        self._transport.limit_frames(self._settings.receive_max_bytes)

    async def watch(self) -> None:
        """Close the connection when a time limit passes, and return once it is closed.

        The limits are the deadlines of requests, the broker's throttling, idleness, and the end of the session.
        """
        while self.closed_by is None:
            now = time.monotonic()
            self._keep_deadlines(now)
            if self.closed_by is None:
                self._wake_at = self._next_deadline()
                await self._wake.wait(None if self._wake_at == math.inf else self._wake_at - now)
        if self._crash is not None:
            raise self._crash

    def retire(self) -> None:
        """Accept no more requests, and close once the pending ones have been answered."""
        self.ready = False
        self._turns.reject(KafkaConnectionError("the connection is being closed", broker=self.label))
        self._close_if_retired()

    def step_down(self) -> None:
        """Let a successor take over: retire once all waiting tasks have sent their requests."""
        self._stepping_down, self.handing_over = True, False
        if self._turns.empty:
            self.retire()

    def take_over(self, used_at: float) -> None:
        """Take over from a connection that has ended and was last used at ``used_at``, so that idleness counts from
        then.
        """
        self.used_at = used_at

    def revive(self) -> None:
        """Undo `retire`, unless the connection is closed."""
        self._stepping_down = False
        self.ready = self.closed_by is None
        self._tell_room()

    def close(
        self, error: KafkaError, *, expected: bool = False, culprit: tuple[InFlight, KafkaError] | None = None
    ) -> None:
        """Close the connection now. Requests in flight fail with an error that contains the reason.

        ``expected`` is True if this client wanted to close it, which is then not the broker's fault. ``culprit`` is the
        request that caused the end, with its own error.
        """
        if self.closed_by is not None:
            return
        was_ready = self.stage == "ready"
        if was_ready:
            error = end_error(error, self.label)
        self.closed_by = without_frames(error)  # it may contain the frame that could not be read
        self.ready = False
        if self._transport is not None:
            self._transport.close()
        if not expected:
            self._owner.on_lost(self, error)
        for entry in self._ledger.drain():
            if culprit is not None and entry is culprit[0]:
                self._finish(entry.on_done, None, culprit[1])
            else:
                failure = in_flight_error(entry, error, self.label, ready=was_ready)
                self._finish(entry.on_done, None, failure)
        while self._unsent:
            not_sent = KafkaConnectionError(f"not sent: {error.message}", broker=self.label)
            self._finish(self._unsent.popleft(), None, not_sent)
        self._turns.reject(error)
        self._owner.on_change(self)
        self._wake.set()

    # --- called by the transport ---

    def on_frame(self, frame: Buffer, /) -> None:
        """Pass a response to the ``on_done`` of its request."""
        try:
            entry = self._ledger.match(peek_correlation_id(frame))
            if entry is None:
                return  # the response belongs to a request that expects none
            response: Any = frame
            if not entry.raw:
                response = decode_answer(entry.request_class.RESPONSE, entry.version, memoryview(frame))
        except KafkaError as error:
            self.close(with_broker(error, self.label))
            return
        # Not earlier: if the response cannot be read, `close` must fail this request together with the others.
        self._ledger.pop()
        self._welcome = True
        # A raw frame has no such attribute. The caller that decodes it calls `mute`.
        throttle_time_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self.mute(throttle_time_ms / 1000)
        self._finish(entry.on_done, response, None)
        if self._refused:
            self._tell_room()
        if self._stepping_down and self.ready and self._turns.empty:
            self.retire()
        elif not self.ready:
            self._close_if_retired()

    def on_writable(self) -> None:
        """Complete the requests that expect no response. The operating system has now accepted all data."""
        self._unsent_deadline = math.inf
        sent, self._unsent = self._unsent, deque()
        for on_done in sent:
            self._finish(on_done, None, None)
        self._tell_room()
        if not self.ready:
            self._close_if_retired()

    def on_closed(self, error: KafkaError, /) -> None:
        """Fail the requests in flight, because the stream has ended or contains invalid data."""
        oldest = self._ledger.oldest()
        if oldest is not None and isinstance(error, FrameTooLargeError):
            # A retry would end in the same way, so fail the request of this frame with this error.
            self.close(with_broker(error, self.label), culprit=(oldest, with_broker(error, self.label)))
        elif oldest is not None and self.ready and not self._welcome and type(error) is KafkaConnectionError:
            # A broker's listener with SASL answers ApiVersions without authentication, and then closes the connection.
            text = f"{error.message} instead of answering the first request; does this listener require SASL?"
            self.close(KafkaConnectionError(text, broker=self.label))
        else:
            self.close(with_broker(error, self.label))

    # --- internal ---

    def _send(
        self,
        request: Request[Any],
        version: int,
        timeout_s: float,
        on_done: OnDone,
        expect_response: bool,
        raw: bool = False,
    ) -> None:
        """Write a request, and add it to the requests in flight if it expects a response.

        ``on_done`` is called with the response or the error (see `submit`). A request without a response is done once
        the operating system has accepted it, which may be at once.
        """
        assert self._transport is not None
        ledger = self._ledger
        chunks = encode_request(request, version, ledger.next_id, self._settings.client_id)
        self.used_at = now = time.monotonic()
        if expect_response:
            deadline = now + timeout_s
            ledger.add(type(request), version, deadline, on_done, raw)
            self._transport.write(chunks)
        else:
            ledger.skip()
            self._transport.write(chunks)
            if not self._transport.paused:
                self._finish(on_done, None, None)
                return
            self._unsent.append(on_done)
            deadline = self._unsent_deadline = min(self._unsent_deadline, now + timeout_s)
        # Requests usually expire in the order in which they are sent, so the watching task rarely has to wake.
        if deadline < self._wake_at:
            self._wake.set()

    def _finish(self, on_done: OnDone, response: Any, error: KafkaError | None) -> None:
        try:
            on_done(response, error)
        except Exception as crash:
            # This is a bug in the client. It is not the broker's fault, so it causes no backoff.
            self._crash = self._crash or crash
            self.close(KafkaConnectionError(f"an internal error: {crash!r}", broker=self.label), expected=True)

    def _not_ready(self) -> KafkaError:
        if self.closed_by is None:
            return KafkaConnectionError("the connection is not ready", broker=self.label)
        return own_copy(self.closed_by)

    def mute(self, seconds: float) -> None:
        """Send nothing during the broker's throttle time (KIP-219), but for at most ``request_timeout_ms``.

        If the throttle time is longer, the broker does not read requests until it ends.
        """
        self._muted = True
        seconds = min(seconds, self._settings.request_timeout_s)
        self._muted_until = max(self._muted_until, time.monotonic() + seconds)
        if self._muted_until < self._wake_at:
            self._wake.set()

    def _next_deadline(self) -> float:
        idle = math.inf if self._ledger or self._unsent else self.used_at + self._settings.max_idle_s
        muted = self._muted_until if self._muted else math.inf
        retire = self.retire_at if self.ready else math.inf
        return min(self._ledger.next_deadline(), self._unsent_deadline, idle, muted, retire)

    def _keep_deadlines(self, now: float) -> None:
        if self._muted and now >= self._muted_until:
            self._muted = False
            self._tell_room()
        late = self._ledger.expired(now)
        if late is not None:
            self._time_out(late)
        elif now >= self._unsent_deadline:
            self.close(KafkaConnectionError("the broker accepts no more data", broker=self.label))
        elif now >= self.retire_at and self.ready:
            self.retire()
        elif not self._ledger and not self._unsent and now >= self.used_at + self._settings.max_idle_s:
            idle = KafkaConnectionError("closed after connections_max_idle_ms without traffic", broker=self.label)
            self.close(idle, expected=True)

    def _time_out(self, late: InFlight) -> None:
        text = f"no answer to {late.request_class.NAME} in time"
        timed_out = RequestTimedOutError(text, broker=self.label)
        lost = KafkaConnectionError(text, broker=self.label)
        timed_out.api = lost.api = late.request_class.NAME
        self.close(lost, culprit=(late, timed_out))

    def _close_if_retired(self) -> None:
        needed = self._ledger or self._unsent or self.handing_over
        if self.closed_by is None and self.stage == "ready" and not needed:
            self.close(KafkaConnectionError("the connection was retired", broker=self.label), expected=True)

    def _tell_room(self) -> None:
        if self._refused and self.can_send():
            self._refused = False
            self._owner.on_change(self)
            self._turns.admit()


class _Answer(Waiter[Any]):
    """Awaits the response to one request, for `Connection.answer`."""

    __slots__ = ()

    def on_done(self, response: Any, error: KafkaError | None) -> None:
        if error is None:
            self.set_result(response)
        else:
            self.set_error(error)
