"""How the producers of one shared client send: by one task, on one timer, and in requests that several of them fill.

Each producer decides what it sends, and when, as it does alone. What it hands over while the connection is busy leaves
together with what others hand over meanwhile: a request costs the client and the broker more than a batch in it. Where
nothing is under way to the broker, nothing waits for anything.
"""

from __future__ import annotations

import heapq
import math
import time
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

import anyio.lowlevel

from ..._core.producer.joint_request import JointRequest, is_plain, partitions_of, parts_of, take_hints
from ..._core.producer.produce_codec import BatchesResponse
from ..._wire.messages.produce import ProduceRequest, ProduceResponse
from ...errors import KafkaError
from ..client import Client
from ..connection.connection import Connection, OnDone
from ..loop import Signal, Spawn
from .pacing import Pacing

__all__ = ["Seat", "SharedSending"]

Unsent = Callable[[KafkaError], None]
"""Called instead of ``on_done`` where a request was never sent."""


class Seat:
    """One producer's place: it is called when it has something to do, or its time has come."""

    __slots__ = ("_sending", "_spawn", "_turn", "wakes_at")

    def __init__(self, sending: SharedSending) -> None:
        self._sending = sending
        self._turn: Callable[[], float] | None = None
        """None while the producer does not run."""
        self._spawn: Spawn
        self.wakes_at = [math.inf]
        """Its entries among the timers: each is earlier than those before it."""

    def take(self, turn: Callable[[], float], spawn: Spawn) -> None:
        """The producer runs from now on: ``turn`` has it send, and returns when to call it again.

        What that raises is raised in a task of ``spawn``.
        """
        self._turn, self._spawn = turn, spawn
        self._sending.start()
        self.ring()

    def ring(self) -> None:
        """There is something to do."""
        self._sending.ring(self)

    def can_send(self, connection: Connection) -> bool:
        """Whether a request would be taken now; where not, the producer's turn comes when that changes."""
        return self._sending.can_send(connection, self)

    def submit(
        self, connection: Connection, request: ProduceRequest, version: int, on_done: OnDone, unsent: Unsent
    ) -> None:
        """Send a request that is answered, together with others where it has to wait."""
        self._sending.submit(connection, request, version, on_done, unsent)

    def leave(self) -> None:
        """The producer has ended."""
        self._turn = None

    def turn(self) -> float:
        """Have the producer send; returns when to call this again."""
        if self._turn is None:
            return math.inf
        try:
            return self._turn()
        except Exception as error:  # a bug: it must not harm the others
            self._turn = None
            self._spawn(_raise, error, name="kafka producer")
            return math.inf


class SharedSending:
    """Of one shared client."""

    def __init__(self, parent: Client) -> None:
        self._parent = parent
        self._wake = Signal()
        self._rung: dict[Seat, None] = {}
        """Those that have something to do."""
        self._timers: list[tuple[float, int, Seat]] = []
        self._timer_ids = count()
        self._pacing = Pacing()
        self._outboxes: dict[Connection, deque[_Waiting]] = {}
        """Requests that are not sent yet, by the connection that was ready for them."""
        self._refused: dict[Connection, dict[Seat, None]] = {}
        """Those that had more to send than waits in the outbox."""
        self._in_turns = False
        self._running = False

    @classmethod
    def of(cls, parent: Client) -> SharedSending:
        """The one of this client."""
        sending: SharedSending | None = parent.commons.get(cls)
        if sending is None:
            sending = parent.commons[cls] = cls(parent)
        return sending

    def start(self) -> None:
        """Begin to give turns, unless that was done."""
        if not self._running:
            self._running = True
            self._parent.brokers.add_listener(self._on_node)
            self._parent.spawn(self._run, name="kafka shared producers")

    def ring(self, seat: Seat) -> None:
        """The producer has something to do."""
        self._rung[seat] = None
        self._wake.set()

    # --- requests ----------------------------------------------------------------------------------------------------

    def can_send(self, connection: Connection, seat: Seat) -> bool:
        """See `Seat.can_send`."""
        outbox = self._outboxes.get(connection)
        if not outbox:
            return connection.can_send()
        if len(outbox) == 1:
            return True  # which others may join
        self._refused.setdefault(connection, {})[seat] = None
        return False

    def submit(
        self, connection: Connection, request: ProduceRequest, version: int, on_done: OnDone, unsent: Unsent
    ) -> None:
        """See `Seat.submit`."""
        outbox = self._outboxes.get(connection)
        if outbox is None:
            if not self._in_turns and connection.in_flight == 0:
                self._submit(connection, _Waiting(request, version, on_done, unsent))
                return
            outbox = self._outboxes[connection] = deque()
            self._wake.set()
        if not outbox or not outbox[-1].joined(request, version, on_done, unsent):
            outbox.append(_Waiting(request, version, on_done, unsent))

    def _send(self) -> None:
        for connection, outbox in list(self._outboxes.items()):
            while outbox and self._may_leave(connection, outbox):
                self._submit(connection, outbox.popleft())
            if not outbox:
                del self._outboxes[connection]
                for seat in self._refused.pop(connection, ()):
                    seat.ring()

    def _may_leave(self, connection: Connection, outbox: deque[_Waiting]) -> bool:
        if not connection.ready:
            return True  # to fail, and so be sent elsewhere
        return connection.can_send() and (len(outbox) > 1 or not self._pacing.is_full(connection))

    def _submit(self, connection: Connection, waiting: _Waiting) -> None:
        def done(response: Any, error: KafkaError | None) -> None:
            if response is not None and response.node_endpoints:
                self._merge_hints(response, waiting.version)
            waiting.done(response, error)
            if self._outboxes:
                self._wake.set()

        try:
            self._pacing.submit(connection, waiting.request(), waiting.version, done)
        except KafkaError as error:
            waiting.refused(error)

    def _merge_hints(self, response: ProduceResponse, version: int) -> None:
        """Once, and not by each of the producers that the answer is for."""
        metadata = self._parent.metadata
        hints = take_hints(response, version, metadata.snapshot.topic_names)
        if hints:
            metadata.offer_hints(hints)

    def _on_node(self, node_id: int) -> None:
        if self._outboxes:
            self._wake.set()

    # --- turns -------------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Give turns until cancelled."""
        while True:
            self._give_turns(time.monotonic())
            self._send()
            if self._rung:
                await anyio.lowlevel.checkpoint()
            else:
                at = self._timers[0][0] if self._timers else None
                await self._wake.wait(None if at is None else max(0.0, at - time.monotonic()))

    def _give_turns(self, now: float) -> None:
        rung, self._rung = self._rung, {}
        timers = self._timers
        while timers and timers[0][0] <= now:
            seat = heapq.heappop(timers)[2]
            seat.wakes_at.pop()
            rung[seat] = None
        self._in_turns = True
        try:
            for seat in rung:
                at = seat.turn()
                if at <= now:
                    self._rung[seat] = None
                elif at < seat.wakes_at[-1]:
                    seat.wakes_at.append(at)
                    heapq.heappush(timers, (at, next(self._timer_ids), seat))
        finally:
            self._in_turns = False


class _Waiting:
    """A request that is not sent yet, with the callbacks of each producer that has a part of it."""

    __slots__ = ("_joint", "_on_done", "_partitions", "_request", "_unsent", "version")

    def __init__(self, request: ProduceRequest, version: int, on_done: OnDone, unsent: Unsent) -> None:
        self.version = version
        self._request = request
        self._on_done = [on_done]
        self._unsent = [unsent]
        self._joint = JointRequest(request) if is_plain(request) else None
        self._partitions = [partitions_of(request)] if is_plain(request) else []

    def joined(self, request: ProduceRequest, version: int, on_done: OnDone, unsent: Unsent) -> bool:
        """Take this into the same request, if that can be."""
        if self._joint is None or version != self.version or not is_plain(request) or not self._joint.add(request):
            return False
        self._on_done.append(on_done)
        self._unsent.append(unsent)
        self._partitions.append(partitions_of(request))
        return True

    def request(self) -> ProduceRequest:
        """The whole."""
        return self._request if self._joint is None else self._joint.request()

    def done(self, response: Any, error: KafkaError | None) -> None:
        """It has ended so."""
        if response is None or len(self._on_done) == 1 or isinstance(response, BatchesResponse):
            for on_done in self._on_done:
                on_done(response, error)
            return
        parts = parts_of(response, self.version, self._partitions)
        for on_done, part in zip(self._on_done, parts, strict=True):
            on_done(part, error)

    def refused(self, error: KafkaError) -> None:
        """It could not be sent."""
        for unsent in self._unsent:
            unsent(error)


async def _raise(error: Exception) -> None:
    raise error
