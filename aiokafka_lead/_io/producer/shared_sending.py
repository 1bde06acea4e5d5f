"""Sending for all producers of a shared client, with one task, one timer, and joint requests.

Each producer decides when to send which batches, as it would alone. While the connection is busy, batches of several
producers are collected and sent together, because a request costs the client and the broker more than each batch in it.
While no request is in flight to the broker, batches are sent at once.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from itertools import count
from typing import Any, cast

import anyio.lowlevel

from ..._core.connection.in_flight import OnDone
from ..._core.producer.outbox import Outbox, Parcel, Part, take_hints
from ..._wire.messages.produce import ProduceRequest, ProduceResponse
from ...errors import KafkaError
from ..client import Client
from ..connection.connection import Connection
from ..connection.settings import ProduceLane
from ..loop import Signal, Spawn
from .pacing import Pacing


class Seat:
    """The connection between one producer and `SharedSending`. Gives the producer turns to send its batches.

    A turn comes when the producer has something to do, or when it is due.
    """

    __slots__ = ("_sending", "_spawn", "_turn", "wakes_at")

    def __init__(self, sending: SharedSending) -> None:
        self._sending = sending
        self._turn: Callable[[], float] | None = None
        """Function that lets the producer send, or None while the producer is not running."""
        self._spawn: Spawn
        self.wakes_at = [math.inf]
        """The producer's entries among the timers. Each is earlier than the one before it."""

    def take(self, turn: Callable[[], float], spawn: Spawn) -> None:
        """Add a producer that has started. ``turn`` lets it send, and returns the time of the next call.

        Errors of ``turn`` are raised in a task that ``spawn`` starts.
        """
        self._turn, self._spawn = turn, spawn
        self._sending.join(self)

    def ring(self) -> None:
        """Request a turn, because the producer has something to do."""
        self._sending.ring(self)

    def can_send(self, connection: Connection, filled_bytes: int) -> bool:
        """Return True if a request is accepted now. Otherwise, the producer gets a turn when that changes.

        See `RequestWindow.is_full` for ``filled_bytes``.
        """
        return self._sending.can_send(connection, self, filled_bytes)

    def submit(
        self,
        connection: Connection,
        request: ProduceRequest,
        version: int,
        on_done: OnDone,
        unsent: Callable[[KafkaError], None],
    ) -> None:
        """Send a request that expects a response, at once or joined with requests of other producers.

        ``on_done`` is called with the response or the error, or ``unsent`` with the error of a request that was not
        sent.
        """
        self._sending.submit(connection, Parcel(connection, version, Part(self, request, on_done, unsent)))

    def leave(self) -> None:
        """Remove the producer from the shared task, because it has stopped."""
        self._turn = None
        self._sending.leave(self)

    def turn(self) -> float:
        """Let the producer send. Return the time of the next call."""
        if self._turn is None:
            return math.inf
        try:
            return self._turn()
        except Exception as error:  # this is a bug, which must not affect the other producers
            self._turn = None
            self._spawn(_raise, error, name="kafka producer")
            return math.inf


class _Broker:
    """The requests to one broker, and the producers that wait to send to it."""

    __slots__ = ("held", "line", "node_id", "outbox")

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.outbox = Outbox()
        self.line: dict[Seat, None] = {}
        """Producers whose batches will be sent once a request is accepted, in order."""
        self.held: set[Seat] = set()
        """Producers that join the line once the batches that they have submitted have been sent."""


class SharedSending:
    """Sends for all producers of a shared client in one task, and joins their small requests to the same broker."""

    def __init__(self, parent: Client) -> None:
        self._parent = parent
        self._wake = Signal()
        self._seats: set[Seat] = set()
        """The running producers."""
        self._rung: dict[Seat, None] = {}
        """Producers that have something to do."""
        self._timers: list[tuple[float, int, Seat]] = []
        self._timer_ids = count()
        self._pacing = Pacing()
        self._brokers: dict[int, _Broker] = {}
        self._stirred: dict[_Broker, None] = {}
        """Brokers to which requests may now be possible."""
        self._calling: _Broker | None = None
        """The broker whose waiting producers are having their turns, or None."""
        self._look_at = math.inf
        """Time from which a broker may count as slow, so that its waiting requests may use another connection."""
        self._in_turns = False
        self._running = False

    @classmethod
    def of(cls, parent: Client) -> SharedSending:
        """Return the client's instance. The first call creates it."""
        sending: SharedSending | None = parent.commons.get(cls)
        if sending is None:
            sending = parent.commons[cls] = cls(parent)
        return sending

    def join(self, seat: Seat) -> None:
        """Add a producer that has started. The first one also starts the task."""
        self._seats.add(seat)
        if not self._running:
            self._running = True
            self._parent.brokers.add_listener(self._on_node)
            self._parent.spawn(self._run, name="kafka shared producers")
        self.ring(seat)

    def leave(self, seat: Seat) -> None:
        """Remove a producer that has stopped. Batches already submitted are still sent."""
        self._seats.discard(seat)
        self._rung.pop(seat, None)
        for broker in self._brokers.values():
            broker.line.pop(seat, None)
            broker.held.discard(seat)
            broker.outbox.forget(seat)
        self._timers = [timer for timer in self._timers if timer[2] is not seat]
        heapq.heapify(self._timers)

    def ring(self, seat: Seat) -> None:
        """Give this producer a turn soon, because it has something to do."""
        self._rung[seat] = None
        self._wake.set()

    # --- requests ----------------------------------------------------------------------------------------------------

    def can_send(self, connection: Connection, seat: Seat, filled_bytes: int) -> bool:
        """See `Seat.can_send`."""
        broker = self._broker(connection.node_id)
        if broker.outbox.holds_back(seat):
            broker.held.add(seat)
            return False
        if not broker.line or broker is self._calling:
            free = connection.can_send() and not self._pacing.is_full(connection, filled_bytes)
            if broker.outbox.takes(seat, free, time.monotonic()):
                return True
        else:
            self._stir(broker)
        broker.line[seat] = None
        return False

    def submit(self, connection: Connection, parcel: Parcel) -> None:
        """See `Seat.submit`."""
        broker = self._broker(connection.node_id)
        idle = not (connection.in_flight or len(broker.outbox) or self._in_turns)
        broker.outbox.add(parcel, time.monotonic())
        if idle:
            self._send_to(broker, time.monotonic())
        else:
            self._stir(broker)

    def _broker(self, node_id: int) -> _Broker:
        broker = self._brokers.get(node_id)
        if broker is None:
            broker = self._brokers[node_id] = _Broker(node_id)
        return broker

    def _stir(self, broker: _Broker) -> None:
        self._stirred[broker] = None
        self._wake.set()

    def _serve(self, broker: _Broker, now: float) -> None:
        """Send waiting requests, and batches of waiting producers, as long as requests are accepted."""
        self._send_to(broker, now)
        if broker.line:
            connection = self._parent.brokers.ready(broker.node_id)
            self._calling = broker
            try:
                for seat in list(broker.line):
                    free = connection is None or (connection.can_send() and not self._pacing.is_full(connection))
                    if not broker.outbox.is_open(free, now):
                        break
                    if broker.outbox.takes(seat, free, now):
                        del broker.line[seat]
                        self._give_turn(seat, now)
            finally:
                self._calling = None
            self._send_to(broker, now)
        if len(broker.outbox) or broker.line:
            self._look_at = min(self._look_at, broker.outbox.slow_at())

    def _send_to(self, broker: _Broker, now: float) -> None:
        while (parcel := broker.outbox.first(now, beside=False)) is not None and self._may_leave(parcel):
            self._submit(broker, parcel, None)
        self._send_beside(broker, now)

    def _may_leave(self, parcel: Parcel) -> bool:
        connection = cast(Connection, parcel.way)
        if not connection.ready:
            return True  # It fails, and its batches are then sent again to their new leaders.
        return connection.can_send() and not self._pacing.is_full(connection)

    def _send_beside(self, broker: _Broker, now: float) -> None:
        """Use additional connections for requests that would wait too long for the first connection.

        There are never more connections than separate producers would have.
        """
        coming = 0
        for number in range(1, len(self._seats)):
            parcel = broker.outbox.first(now, beside=True)
            if parcel is None or not broker.outbox.wants_connection(coming, now):
                return
            connection = self._parent.brokers.ready(broker.node_id, ProduceLane(number))
            if connection is None:
                coming += 1
            elif connection.in_flight == 0 and connection.can_send():
                self._submit(broker, parcel, connection)

    def _submit(self, broker: _Broker, parcel: Parcel, beside: Connection | None) -> None:
        """Send a request on its connection, or on the additional connection ``beside``."""

        apart = beside is not None

        def done(response: Any, error: KafkaError | None) -> None:
            self._ended(broker, parcel, beside=apart)
            if response is not None and response.node_endpoints:
                self._merge_hints(response, parcel.version)
            parcel.done(response, error)

        broker.outbox.left(parcel, time.monotonic(), beside=apart)
        self._line_up(broker, parcel)
        try:
            if beside is not None:
                beside.submit(parcel.request(), done, version=parcel.version)
            else:
                self._pacing.submit(cast(Connection, parcel.way), parcel.request(), parcel.version, done)
        except KafkaError as error:
            self._ended(broker, parcel, beside=apart)
            parcel.refused(error)

    def _ended(self, broker: _Broker, parcel: Parcel, *, beside: bool) -> None:
        broker.outbox.ended(parcel, time.monotonic(), beside=beside)
        self._line_up(broker, parcel)
        if len(broker.outbox) or broker.line:
            self._stir(broker)

    def _line_up(self, broker: _Broker, parcel: Parcel) -> None:
        """Let the producers that were waiting for this request join those that want to send."""
        for part in parcel.parts if broker.held else ():
            seat = cast("Seat", part.owner)
            if seat in broker.held and not broker.outbox.holds_back(seat):
                broker.held.discard(seat)
                broker.line[seat] = None
                self._stir(broker)

    def _merge_hints(self, response: ProduceResponse, version: int) -> None:
        """Merge a response's leader hints once, on behalf of all its producers."""
        metadata = self._parent.metadata
        hints = take_hints(response, version, metadata.snapshot.topic_names)
        if hints:
            metadata.offer_hints(hints)

    def _on_node(self, node_id: int) -> None:
        broker = self._brokers.get(node_id)
        if broker is not None and (len(broker.outbox) or broker.line):
            self._stir(broker)

    # --- giving turns to producers -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Give each producer its turns until cancelled."""
        while True:
            self._give_turns(time.monotonic())
            if self._rung or self._stirred:
                await anyio.lowlevel.checkpoint()
                continue
            at = min(self._look_at, self._timers[0][0] if self._timers else math.inf)
            await self._wake.wait(None if at == math.inf else max(0.0, at - time.monotonic()))

    def _give_turns(self, now: float) -> None:
        """Give a turn to each producer that has requested one or is due at the time ``now``."""
        if self._look_at <= now:
            self._look_at = math.inf
            self._stirred.update(dict.fromkeys(self._brokers.values()))
        rung, self._rung = self._rung, {}
        timers = self._timers
        while timers and timers[0][0] <= now:
            seat = heapq.heappop(timers)[2]
            seat.wakes_at.pop()
            rung[seat] = None
        self._in_turns = True
        try:
            self._serve_stirred(now)  # producers that are already waiting come first
            for seat in rung:
                self._give_turn(seat, now)
            self._serve_stirred(now)
        finally:
            self._in_turns = False

    def _serve_stirred(self, now: float) -> None:
        stirred, self._stirred = self._stirred, {}
        for broker in stirred:
            self._serve(broker, now)

    def _give_turn(self, seat: Seat, now: float) -> None:
        at = seat.turn()
        if at <= now:
            self._rung[seat] = None
        elif at < seat.wakes_at[-1]:
            seat.wakes_at.append(at)
            heapq.heappush(self._timers, (at, next(self._timer_ids), seat))


async def _raise(error: Exception) -> None:
    raise error
