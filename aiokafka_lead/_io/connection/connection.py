"""A connection to a broker. Requests are pipelined, and answers arrive in order.

Compiled through ``connection.pxd`` if a compiler is available.
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
from .failures import in_flight_error, with_broker
from .settings import ConnectionSettings
from .transport import Transport
from .turns import TurnQueue

R = TypeVar("R", bound=Response)

NO_VERSIONS = ApiVersions({})


class ConnectionOwner(Protocol):
    """Receives a connection's reports, synchronously. These methods must not raise."""

    def on_lost(self, connection: Connection, error: KafkaError, /) -> None:
        """Handle the end of the connection, before its requests in flight fail."""

    def on_change(self, connection: Connection, /) -> None:
        """Handle that requests can be sent again, or that all requests in flight have failed after the end."""


class Connection:
    """A connection from its opening to its end; it is never reopened.

    Invariant: ``on_done`` is called exactly once for each submitted request.
    """

    def __init__(
        self, node_id: int, endpoint: Endpoint, settings: ConnectionSettings, owner: ConnectionOwner, label: str
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.label = label
        """Name of the broker in errors: ``1 (host:9092)``."""
        self.versions = NO_VERSIONS
        """Versions offered by the broker; empty until the connection is ready."""
        self._versions: dict[type[Request[Any]], int] = {}
        """Version used for each class of request."""
        self.ready = False
        """True if requests may be submitted: the connection is set up, and neither retired nor closed."""
        self.stage = "connecting"
        """Current stage of the set-up, for the text of a timeout."""
        self.patience_s: float | None = None
        """Time limit of each answer during the set-up; None if there is only a limit for the whole set-up."""
        self.opening_s = 0.0
        """Time taken to connect to the broker or a proxy, including TLS."""
        self.closed_by: KafkaError | None = None
        """Error that ended the connection; None while it is open."""
        self.session = ENDLESS
        """The authenticated session, with the time to open the succeeding connection (KIP-368)."""
        self.retire_at = math.inf
        """Time to accept no more requests, and to close once pending requests are answered (KIP-368)."""
        self.used_at = time.monotonic()
        """Time of the last sent request."""
        self.on_successor: list[Callable[[Connection], Awaitable[None]]] = []
        """Callbacks that move state bound to this connection to its successor, before that takes over (KIP-368)."""
        self.handing_over = False
        """True while bound state is moved. The connection then stays open until `step_down`."""
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
        """Tasks that wait to send a request."""
        self._wake = Signal()
        """Wakes `watch` before ``_wake_at``."""
        self._wake_at = 0.0
        self._crash: Exception | None = None
        """Unexpected error of a callback, which `watch` raises."""

    def __repr__(self) -> str:
        state = "closed" if self.closed_by is not None else "ready" if self.ready else self.stage
        return f"<Connection to {self.label}: {state}, {self.in_flight} in flight>"

    @property
    def muted_s(self) -> float:
        """Remaining throttle time in s (KIP-219); 0 if the broker does not throttle this client."""
        return max(0.0, self._muted_until - time.monotonic()) if self._muted else 0.0

    @property
    def in_flight(self) -> int:
        """Number of sent requests without an answer."""
        return len(self._ledger)

    def can_send(self) -> bool:
        """Return True if a request can be sent now; otherwise listeners will be notified of the change.

        The connection has to be ready and neither throttled nor congested, with fewer requests in flight than the
        maximum. After `retire_at` it returns False, even if the timer is late because the event loop is busy.
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
        """Send a request now; return its version. ``on_done`` is called once, later, on the event loop.

        The caller must call `can_send` first, for the limit of requests in flight. ``version`` defaults to the highest
        version that client and broker support. A request without a response (``acks=0``) is done when the operating
        system has accepted it, which may be before this call returns. With ``raw``, the result is the response's frame;
        the caller decodes it later, and calls `mute` if it has a throttle time. After ``timeout_ms``
        (``request_timeout_ms``) without an answer the connection is closed, as in Java, since later answers cannot
        arrive either.

        Raises `KafkaConnectionError` if the connection is not ready, and `UnsupportedVersionError` if the broker does
        not offer the API or the version lacks a field. Nothing is sent then.
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
        """Send a request as soon as possible, and return the response. Waits and raises as `answer` does."""
        return cast(R, await self.answer(request, timeout_ms=timeout_ms, version=version))

    async def answer(
        self,
        request: Request[Any],
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        raw: bool = False,
    ) -> Any:
        """Send a request as soon as possible, and return the response, or its frame if ``raw``.

        ``timeout_ms`` (``request_timeout_ms``) limits the waits for sending and for the answer. A short timeout does
        not end the connection: it is closed if no answer has arrived within the longer of ``timeout_ms`` and
        ``request_timeout_ms``.

        Raises the errors of `submit`, `RequestTimedOutError`, and `KafkaConnectionError` if the connection is lost. A
        call that is cancelled or has timed out leaves the request in flight.
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
                self._turns.admit()
            fate = f"no answer to {name}"
            # The connection has a deadline for the request, so that only a shorter deadline needs a timer here.
            return await answer.wait(None if timeout_ms is None else deadline.left_s())
        except TimeoutError:
            muted_s = self.muted_s
            why = f"throttled for {muted_s:.0f} s more" if muted_s else f"{self.in_flight} requests are in flight"
            late = RequestTimedOutError(f"{fate} within {patience_ms:.0f} ms ({why})", broker=self.label)
            late.api = name
            raise late from None

    async def exchange(self, request: Request[R], version: int) -> R:
        """Send a request before the connection is ready; return the response. TimeoutError after `patience_s`."""
        if self.closed_by is not None:
            raise self._not_ready()
        answer: _Answer = _Answer()
        self._send(request, version, self._settings.request_timeout_s, answer.on_done, True)
        return cast(R, await answer.wait(self.patience_s))

    # --- its life, in the hands of the task that owns it ---

    def opened(self, transport: Transport) -> None:
        """Attach the open transport. Raises `KafkaError` if the connection has been closed already."""
        if self.closed_by is not None:
            transport.close()
            raise self._not_ready()
        self._transport = transport

    def become_ready(self, versions: ApiVersions, *, authenticated: bool, session: Session) -> None:
        """Complete the set-up. From now on requests may be submitted."""
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
        """Watch deadlines until the connection ends: requests, throttling, idleness, retirement."""
        while self.closed_by is None:
            now = time.monotonic()
            self._keep_deadlines(now)
            if self.closed_by is None:
                self._wake_at = self._next_deadline()
                await self._wake.wait(None if self._wake_at == math.inf else self._wake_at - now)
        if self._crash is not None:
            raise self._crash

    def retire(self) -> None:
        """Accept no more requests, and close once pending requests are answered."""
        self.ready = False
        self._turns.reject(KafkaConnectionError("the connection is being closed", broker=self.label))
        self._close_if_retired()

    def step_down(self) -> None:
        """Retire, since a successor is ready, once all waiting tasks have sent their requests."""
        self._stepping_down, self.handing_over = True, False
        if self._turns.empty:
            self.retire()

    def take_over(self, used_at: float) -> None:
        """Take over from a closed connection, including its idle time since ``used_at``."""
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

        ``expected`` is True if this client wanted to close it, so that it is not the broker's fault. ``culprit`` is the
        request that caused the end, with an error for that request.
        """
        if self.closed_by is not None:
            return
        self.closed_by = without_frames(error)  # it may hold the unreadable frame
        self.ready = False
        if self._transport is not None:
            self._transport.close()
        if not expected:
            self._owner.on_lost(self, error)
        for entry in self._ledger.drain():
            if culprit is not None and entry is culprit[0]:
                self._finish(entry.on_done, None, culprit[1])
            else:
                failure = in_flight_error(entry, error, self.label, ready=self.stage == "ready")
                self._finish(entry.on_done, None, failure)
        while self._unsent:
            not_sent = KafkaConnectionError(f"not sent: {error.message}", broker=self.label)
            self._finish(self._unsent.popleft(), None, not_sent)
        self._turns.reject(error)
        self._owner.on_change(self)
        self._wake.set()

    # --- called by the transport ---

    def on_frame(self, frame: Buffer, /) -> None:
        """Pass an answer to its request's ``on_done``."""
        try:
            entry = self._ledger.match(peek_correlation_id(frame))
            if entry is None:
                return  # the response to a request that expects none
            response: Any = frame
            if not entry.raw:
                response = decode_answer(entry.request_class.RESPONSE, entry.version, memoryview(frame))
        except KafkaError as error:
            self.close(with_broker(error, self.label))
            return
        self._ledger.pop()
        self._welcome = True
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
        """Handle that the operating system has accepted all data."""
        self._unsent_deadline = math.inf
        sent, self._unsent = self._unsent, deque()
        for on_done in sent:
            self._finish(on_done, None, None)
        self._tell_room()
        if not self.ready:
            self._close_if_retired()

    def on_closed(self, error: KafkaError, /) -> None:
        """Handle the end of the stream, or an invalid stream."""
        oldest = self._ledger.oldest()
        if oldest is not None and isinstance(error, FrameTooLargeError):
            # A retry would end in the same way, so the request of this frame fails with this error.
            self.close(with_broker(error, self.label), culprit=(oldest, with_broker(error, self.label)))
        elif oldest is not None and self.ready and not self._welcome and type(error) is KafkaConnectionError:
            # A listener with SASL answers ApiVersions without authentication, and then closes the connection.
            text = f"{error.message} instead of answering the first request; does this listener require SASL?"
            self.close(KafkaConnectionError(text, broker=self.label))
        else:
            self.close(with_broker(error, self.label))

    # --- inside ---

    def _send(
        self,
        request: Request[Any],
        version: int,
        timeout_s: float,
        on_done: OnDone,
        expect_response: bool,
        raw: bool = False,
    ) -> None:
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
        if deadline < self._wake_at:
            self._wake.set()

    def _finish(self, on_done: OnDone, response: Any, error: KafkaError | None) -> None:
        try:
            on_done(response, error)
        except Exception as crash:
            self._crash = self._crash or crash
            self.close(KafkaConnectionError(f"an internal error: {crash!r}", broker=self.label), expected=True)

    def _not_ready(self) -> KafkaError:
        if self.closed_by is None:
            return KafkaConnectionError("the connection is not ready", broker=self.label)
        return own_copy(self.closed_by)

    def mute(self, seconds: float) -> None:
        """Send nothing for the broker's throttle time (KIP-219), at most for ``request_timeout_ms``.

        If the throttle time is longer, the broker does not read requests before its end.
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
            self.close(KafkaConnectionError("the broker takes no more bytes", broker=self.label))
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
    """A response for which a task waits."""

    __slots__ = ()

    def on_done(self, response: Any, error: KafkaError | None) -> None:
        if error is None:
            self.set_result(response)
        else:
            self.set_error(error)
