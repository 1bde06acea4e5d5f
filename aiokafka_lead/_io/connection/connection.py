"""One connection to a broker: requests go out in a pipeline, answers come back in order.

Compiled through ``connection.pxd`` where a compiler is.
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
from ...errors import (
    FrameTooLargeError,
    KafkaConnectionError,
    KafkaError,
    RequestTimedOutError,
)
from ...errors.base import own_copy, without_frames
from ..deadline import Deadline
from ..loop import Signal, Waiter
from .failures import in_flight_error, with_broker
from .settings import ConnectionSettings, Lane
from .transport import Transport
from .turns import TurnQueue

__all__ = ["Connection", "ConnectionOwner", "ConnectionSettings", "Lane", "OnDone"]

R = TypeVar("R", bound=Response)

NO_VERSIONS = ApiVersions({})


class ConnectionOwner(Protocol):
    """What a connection reports to, synchronously. None of these may raise."""

    def on_lost(self, connection: Connection, error: KafkaError, /) -> None:
        """It is over, and no longer ready; requests in flight are about to fail."""

    def on_change(self, connection: Connection, /) -> None:
        """It takes requests again after it did not, or is over and every request in flight has failed."""


class Connection:
    """A connection from the moment it is open until it is over; never reused after that.

    Invariant: every request that was submitted ends with exactly one call of its ``on_done``.
    """

    def __init__(
        self, node_id: int, endpoint: Endpoint, settings: ConnectionSettings, owner: ConnectionOwner, label: str
    ) -> None:
        self.node_id = node_id
        self.endpoint = endpoint
        self.label = label
        """The broker in errors: ``1 (host:9092)``."""
        self.versions = NO_VERSIONS
        """What the broker offers; empty until the connection is ready."""
        self._versions: dict[type[Request[Any]], int] = {}
        """The version of each request sent before."""
        self.ready = False
        """Whether requests may be submitted: set up, and neither retired nor over."""
        self.stage = "connecting"
        """What is being done while the connection is set up, for the text of a timeout."""
        self.patience_s: float | None = None
        """How long each answer is waited for meanwhile; None where only the set-up as a whole has a bound."""
        self.opening_s = 0.0
        """Seconds that it took to open it, TLS included: to the broker, or to a proxy before it."""
        self.closed_by: KafkaError | None = None
        """Why the connection is over; None while it is not."""
        self.session = ENDLESS
        """When to make the connection that takes over (KIP-368)."""
        self.retire_at = math.inf
        """When to stop taking requests and close once those in flight are answered (KIP-368)."""
        self.used_at = time.monotonic()
        """When a request was sent last."""
        self.on_successor: list[Callable[[Connection], Awaitable[None]]] = []
        """What is bound to this connection: called with the one that takes over, before that does (KIP-368)."""
        self.handing_over = False
        """Set while what is bound to it moves, and would end with it. The connection stays open until `step_down`."""
        self._stepping_down = False
        self._settings = settings
        self._max_in_flight = settings.max_in_flight
        self._owner = owner
        self._transport: Transport | None = None
        self._ledger = InFlightLedger()
        self._unsent: deque[OnDone] = deque()
        """Requests without answer that the operating system has not taken yet."""
        self._unsent_deadline = math.inf
        self._muted = False
        """Whether the broker asked for silence until ``_muted_until`` (KIP-219)."""
        self._muted_until = 0.0
        self._welcome = False
        """Whether the broker is known to serve this client: it has authenticated it, or answered a request."""
        self._refused = False
        """Whether `can_send` has answered False since listeners last heard of room."""
        self._turns = TurnQueue(self.can_send)
        """Tasks in `request` that have to wait."""
        self._wake = Signal()
        """Wakes `watch` before ``_wake_at``."""
        self._wake_at = 0.0
        self._crash: Exception | None = None
        """What a callback raised: a bug, which `watch` lets loose."""

    def __repr__(self) -> str:
        state = "closed" if self.closed_by is not None else "ready" if self.ready else self.stage
        return f"<Connection to {self.label}: {state}, {self.in_flight} in flight>"

    @property
    def in_flight(self) -> int:
        """Requests that have been sent and not answered."""
        return len(self._ledger)

    def can_send(self) -> bool:
        """Whether a request would go out now: ready, fewer than the most in flight, not throttled, not congested.

        It would not either once it is time to retire, even if the timer for that is late on a busy event loop. Where
        the answer is False, listeners hear when it changes.
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
        """Sends a request now and returns its version; ``on_done`` is called once, on the event loop, later.

        The bound of requests in flight is the caller's to keep, with `can_send`. ``version`` is the highest that both
        sides know, unless given. A request without a response (``acks=0``) is done when the operating system has taken
        it, which may be before this returns. A ``raw`` one is answered with the response's frame, for those who read
        it in their own time, and who `mute` the connection if it says so. ``timeout_ms`` is ``request_timeout_ms``
        unless given; when it passes the connection is closed, since the answers behind could not come either (as in
        Java).

        Raises `KafkaConnectionError` when the connection is not ready, `UnsupportedVersionError` when the broker does
        not offer the API or the version lacks a field; then nothing was sent.
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
        """Sends a request as soon as there is room, and returns the response.

        Waiting and errors: see `answer`.
        """
        return cast(R, await self.answer(request, timeout_ms=timeout_ms, version=version))

    async def answer(
        self,
        request: Request[Any],
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
        raw: bool = False,
    ) -> Any:
        """Sends a request as soon as there is room, and returns the response, or its frame where it is to be ``raw``.

        ``timeout_ms`` (``request_timeout_ms``) covers both waits. Somebody in a hurry does not end the connection for
        others: it is closed when no answer has come within the longer of the two.

        Raises what `submit` raises, `RequestTimedOutError`, and `KafkaConnectionError` when the connection is lost. A
        call that is cancelled or has timed out leaves the request on its way.
        """
        settings_ms = self._settings.request_timeout_s * 1000
        patience_ms = settings_ms if timeout_ms is None else timeout_ms
        deadline = Deadline(patience_ms)
        name = type(request).NAME
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
            # The connection keeps its own deadline, so that only a shorter one needs a timer here.
            return await answer.wait(None if timeout_ms is None else deadline.left_s())
        except TimeoutError:
            text = f"no answer to {name} within {patience_ms:.0f} ms ({self.in_flight} requests are in flight)"
            late = RequestTimedOutError(text, broker=self.label)
            late.api = name
            raise late from None

    async def exchange(self, request: Request[R], version: int) -> R:
        """A request while the connection is being set up, before it is ready; TimeoutError after `patience_s`."""
        if self.closed_by is not None:
            raise self._not_ready()
        answer: _Answer = _Answer()
        self._send(request, version, self._settings.request_timeout_s, answer.on_done, True)
        return cast(R, await answer.wait(self.patience_s))

    # --- its life, in the hands of the task that owns it ---

    def opened(self, transport: Transport) -> None:
        """Bytes can go to the broker now. Raises `KafkaError` where the connection was closed meanwhile."""
        if self.closed_by is not None:
            transport.close()
            raise self._not_ready()
        self._transport = transport

    def become_ready(self, versions: ApiVersions, *, authenticated: bool, session: Session) -> None:
        """Set-up is complete: requests may come."""
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
        """Keeps deadlines until the connection is over: requests, throttling, idleness, retirement."""
        while self.closed_by is None:
            now = time.monotonic()
            self._keep_deadlines(now)
            if self.closed_by is None:
                self._wake_at = self._next_deadline()
                await self._wake.wait(None if self._wake_at == math.inf else self._wake_at - now)
        if self._crash is not None:
            raise self._crash

    def retire(self) -> None:
        """Takes no more requests, and closes as soon as those in flight are answered."""
        self.ready = False
        self._turns.reject(KafkaConnectionError("the connection is being closed", broker=self.label))
        self._close_if_retired()

    def step_down(self) -> None:
        """`retire`, since another connection is ready to take over; tasks in line have their turn first."""
        self._stepping_down, self.handing_over = True, False
        if self._turns.empty:
            self.retire()

    def take_over(self, used_at: float) -> None:
        """The connection before this one is over; it was idle since ``used_at``, and so counts this one."""
        self.used_at = used_at

    def revive(self) -> None:
        """Takes back `retire`, if it is not too late."""
        self._stepping_down = False
        self.ready = self.closed_by is None
        self._tell_room()

    def close(
        self, error: KafkaError, *, expected: bool = False, culprit: tuple[InFlight, KafkaError] | None = None
    ) -> None:
        """Ends the connection now, and every request in flight with an error that says so.

        ``expected``: the end is this client's own wish and says nothing about the broker. ``culprit``: the request that
        is to blame, and the error that it gets instead.
        """
        if self.closed_by is not None:
            return
        self.closed_by = without_frames(error)  # which may hold the frame that could not be read
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
        """An answer: hands it to the request's ``on_done``."""
        try:
            entry = self._ledger.match(peek_correlation_id(frame))
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
        """The operating system has taken everything."""
        self._unsent_deadline = math.inf
        sent, self._unsent = self._unsent, deque()
        for on_done in sent:
            self._finish(on_done, None, None)
        self._tell_room()
        if not self.ready:
            self._close_if_retired()

    def on_closed(self, error: KafkaError, /) -> None:
        """The stream has ended or is garbage."""
        oldest = self._ledger.oldest()
        if oldest is not None and isinstance(error, FrameTooLargeError):
            # Trying again would end the same way, so the request that the frame answers gets this very error.
            self.close(with_broker(error, self.label), culprit=(oldest, with_broker(error, self.label)))
        elif oldest is not None and self.ready and not self._welcome and type(error) is KafkaConnectionError:
            # A listener with SASL answers ApiVersions to anyone, and then hangs up.
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
        """Sends nothing for so long: the broker wants it (KIP-219)."""
        self._muted = True
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
    """The response, for a task that waits for it."""

    __slots__ = ()

    def on_done(self, response: Any, error: KafkaError | None) -> None:
        if error is None:
            self.set_result(response)
        else:
            self.set_error(error)
