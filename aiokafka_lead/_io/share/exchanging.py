"""The task that fetches records from brokers and sends acknowledgements to them."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import anyio

from ..._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._core.share.answers import Arrived, ShareOutcome, read_acknowledged, read_failure, read_fetched
from ..._core.share.buffer import AcquiredData, Allowance, ShareBuffer
from ..._core.share.exchange import Exchange
from ..._core.share.member import ShareMember
from ..._core.share.planner import Planned, SharePlanner
from ..._core.share.session import FIRST_VERSION_WITH_RENEWALS
from ..._core.tracing import ReadTracing
from ..._wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from ..._wire.messages.share_fetch import ShareFetchRequest
from ...config.share import ShareConsumerConfig
from ...errors import InvalidRecordStateError, KafkaConnectionError, KafkaError
from ...types import TopicPartition
from ..client import Client
from ..connection.connection import Connection
from ..loop import News, Signal

AHEAD_S = 1.0
"""Seconds after the application's last read during which more records are acquired in advance."""

IN_HAND_S = 0.02
"""Expected seconds that an application that awaits outcomes needs for its records.

An earlier fetch would delay the acknowledgements of these records. If the fetch carries them, they need no extra
request.
"""


class ShareExchanging:
    """Sends ShareFetch and ShareAcknowledge requests as planned, and processes the responses.

    It is woken by events that may change the plan.
    """

    def __init__(
        self,
        client: Client,
        config: ShareConsumerConfig,
        member: ShareMember,
        planner: SharePlanner,
        buffer: ShareBuffer,
        allowance: Allowance,
        wake: Signal,
        news: News,
        arrived: Signal,
        report: Callable[[KafkaError], None],
    ) -> None:
        self._client = client
        self._config = config
        self._member = member
        self._planner = planner
        self._counters = planner.counters
        self._buffer = buffer
        self._allowance = allowance
        self._wake = wake
        """Set when the plan may have to change."""
        self._news = news
        """Notified of each response."""
        self._arrived = arrived
        """Set when records have arrived."""
        self._report = report
        """Called with errors for the application."""
        self._connections: dict[int, Connection] = {}
        """The connection to which each broker's session belongs."""
        self._closing = False
        self.strict = config.share_acquire_mode == "record_limit"
        """True if brokers must never return more records than requested."""
        self.one_by_one = False
        """True if ``strict`` is required for now, because the application takes few records at a time."""
        self.demand = False
        """True while a call is waiting for records."""
        self.taken_at = -math.inf
        """Time at which the application last requested records."""
        self._arrived_at = -math.inf
        """Time at which records last arrived."""
        self._fetch_at = math.inf
        """Time at which a fetch that waits for acknowledgements is sent without them."""
        self.tracing: ReadTracing | None = None

    # --- the task ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send fetches and acknowledgements until cancelled."""
        client, wake = self._client, self._wake
        client.brokers.add_listener(self._on_node)
        client.metadata.add_listener(self._on_metadata)
        try:
            timeout_s: float | None = 0.0
            while True:
                await wake.wait(timeout_s)
                now = time.monotonic()
                self._step(now)
                due_at = min(self._planner.next_time(now), self._fetch_at)
                timeout_s = None if due_at == math.inf else max(0.0, due_at - now)
        finally:
            client.brokers.remove_listener(self._on_node)
            client.metadata.remove_listener(self._on_metadata)

    def _on_node(self, node_id: int) -> None:
        self._wake.set()

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._wake.set()

    # --- sending -----------------------------------------------------------------------------------------------------

    def _fetching(self, now: float) -> bool:
        return not self._closing and (self.demand or now < self.taken_at + AHEAD_S)

    def _step(self, now: float) -> None:
        """Apply the latest assignment, leaders and connections. Then send all requests that can be sent now."""
        self._fetch_at = math.inf
        if self._closing:
            return
        planner, metadata = self._planner, self._client.metadata
        planner.assign(self._member.assignment())
        leaderless = planner.leaderless
        planner.place(metadata.snapshot)
        self._allowance.brokers = max(1, planner.sources)
        if planner.leaderless - leaderless:
            metadata.request_update(LEADERLESS)
        self._notice_moves()
        for exchange in list(planner.exchanges.values()):
            self._notice_lost_connection(exchange)
        fetching = self._fetching(now)
        for exchange in planner.waiting(now, fetching=fetching):
            connection = self._connections.get(exchange.node_id)
            if connection is None or not connection.ready:
                connection = self._client.brokers.ready(exchange.node_id, self._client.share_lane)
            if connection is None:
                self._unreachable(exchange)
            elif connection.can_send():
                self._send(exchange, connection, now, self._room(exchange, now) if fetching else 0)

    def _room(self, exchange: Exchange, now: float) -> int:
        """Return the number of records to request from a broker.

        This is half of an equal share of the limit, so that the next records are ready while the application is
        processing others. It is 0 while more than the other half is buffered.
        """
        if exchange.waited_for and not exchange.has_unsent and (self._buffer.buffered() or not self.demand):
            at = max(self.taken_at, self._arrived_at) + IN_HAND_S
            if now < at:
                self._fetch_at = at
                return 0
        share = self._allowance.share
        at_once = -(-share // 2)
        return at_once if self._buffer.count(exchange) <= share - at_once else 0

    def _notice_moves(self) -> None:
        """Forget the locks of a partition's former leader once there is a new leader."""
        for exchange in self._planner.exchanges.values():
            moved = {
                acquired.tp
                for acquired in exchange
                if self._planner.leader(acquired.tp) not in (None, -1, exchange.node_id)
            }
            for tp in moved:
                exchange.lose(InvalidRecordStateError(f"{tp} has another leader, which delivers the record again"), tp)
            if moved:
                self._news.tell()

    def _notice_lost_connection(self, exchange: Exchange) -> None:
        connection = self._connections.get(exchange.node_id)
        # If a request is in flight, its failure reports the loss.
        if connection is not None and connection.closed_by is not None and not exchange.busy:
            del self._connections[exchange.node_id]
            exchange.disconnected(connection.closed_by)
            self._news.tell()

    def _unreachable(self, exchange: Exchange) -> None:
        error = self._client.brokers.last_error(exchange.node_id)
        if error is not None:
            if not error.retriable:
                self._report(error)
            self._client.metadata.request_update(lost(exchange.node_id))

    def _send(self, exchange: Exchange, connection: Connection, now: float, room: int) -> None:
        """Send the next request of an exchange on this connection, if the planner returns one.

        ``room`` is the number of records to request (see `_room`).
        """
        known = self._connections.get(exchange.node_id)
        if known is not connection:
            # A session ends with its connection.
            if known is not None:
                exchange.disconnected(known.closed_by or KafkaConnectionError("the connection was replaced"))
                self._news.tell()
            self._belongs_to(exchange, connection)
        try:
            version = _version(connection)
            few = self.one_by_one and self._allowance.limit < self._config.max_poll_records
            strict = (self.strict or few) and version >= FIRST_VERSION_WITH_RENEWALS
            moves_at = connection.session.renew_at
            planned = self._planner.plan(exchange, version, now, room, strict=strict, moves_at=moves_at)
            if planned is not None:
                self._submit(connection, planned)
        except KafkaError as error:
            if not error.retriable:
                self._report(error)
            exchange.back_off(now, type(error))

    def _belongs_to(self, exchange: Exchange, connection: Connection) -> None:
        self._connections[exchange.node_id] = connection
        connection.on_successor.append(partial(self._move, exchange))

    async def _move(self, exchange: Exchange, successor: Connection) -> None:
        """Move the session to the connection that replaces its current one."""
        exchange.moving = True
        try:
            await self._until_idle(exchange)
            if self._closing or not exchange.session.is_open:
                return
            planned = self._planner.reopen(exchange, _version(successor), time.monotonic())
            self._belongs_to(exchange, successor)
            self._submit(successor, planned)
            await self._until_idle(exchange)
        except KafkaError:
            self._news.tell()  # the session is lost with its connection
        finally:
            exchange.moving = False
            self._wake.set()

    def _submit(self, connection: Connection, planned: Planned) -> None:
        try:
            connection.submit(planned.request, partial(self._done, planned), version=planned.version)
        except KafkaError as error:
            read_failure(planned, error, time.monotonic())
            raise

    # --- responses ---------------------------------------------------------------------------------------------------

    def _done(self, planned: Planned, response: Any, error: KafkaError | None) -> None:
        """Handle the end of a request. The connection calls this."""
        now = time.monotonic()
        if response is None:
            self._failed(planned, error or KafkaConnectionError("the connection was lost"), now)
        else:
            self._answered(planned, response, now)
        self._wake.set()
        self._news.tell()

    def _failed(self, planned: Planned, error: KafkaError, now: float) -> None:
        node_id = planned.exchange.node_id
        self._connections.pop(node_id, None)
        read_failure(planned, error, now)
        self._note(planned, now, error, answered=False)
        planned.exchange.back_off(now, type(error))
        self._client.metadata.request_update(lost(node_id))

    def _answered(self, planned: Planned, response: Any, now: float) -> None:
        if isinstance(response, ShareAcknowledgeResponse):
            outcome = read_acknowledged(self._planner, planned, response, now)
        else:
            self._counters.throttle_time.add(response.throttle_time_ms / 1000)
            outcome = read_fetched(self._planner, planned, response, now)
        self._note(planned, now, outcome.refused, answered=True)
        for arrived in outcome.arrived:
            self._arrive(arrived, now)
        self._follow(planned, outcome)
        # Send the next request before the application receives the new records.
        self._wake.set()
        if outcome.arrived:
            self._arrived_at = now
            self._arrived.set()

    def _arrive(self, arrived: Arrived, now: float) -> None:
        exchange, acquired, records = arrived
        self._counters.of(acquired.tp.topic).bytes_fetched += len(records)
        data = AcquiredData(
            exchange,
            acquired,
            records,
            check_crcs=self._config.check_crcs,
            max_decompressed_batch_bytes=self._config.max_decompressed_batch_bytes,
        )
        self._buffer.add(data, now)

    def _note(self, planned: Planned, now: float, refused: KafkaError | None, *, answered: bool) -> None:
        """Count the finished request, and trace its acknowledgements.

        ``refused`` is the error with which the broker has refused the acknowledgements, or None. ``answered`` is False
        if there was no response.
        """
        if planned.fetched:
            self._counters.fetched(planned.exchange.node_id, planned.sent_at, now, answered=answered)
        if not planned.acks:
            return
        took_s = now - planned.sent_at
        if refused is None:
            self._counters.acknowledge_latency.add(took_s)
        if self.tracing is not None:
            counts = Counter[TopicPartition]()
            for acquired, span in chain.from_iterable(planned.acks.values()):
                counts[acquired.tp] += span.end - span.start
            self.tracing.acknowledged(time.time_ns() - int(took_s * 1e9), counts, refused)

    def _follow(self, planned: Planned, outcome: ShareOutcome) -> None:
        metadata = self._client.metadata
        if outcome.lock_s is not None:
            self._allowance.lock_s = outcome.lock_s
        if outcome.hints:
            metadata.offer_hints(outcome.hints)
        if outcome.refresh:
            metadata.request_update(refused(planned.exchange.node_id))
        if outcome.doubt:
            metadata.request_update(doubted(planned.exchange.node_id))
        for error in outcome.errors:
            self._report(error)

    # --- stop --------------------------------------------------------------------------------------------------------

    async def close(self, timeout_s: float) -> None:
        """Release unread records, send the last acknowledgements, and close all sessions.

        The call takes at most ``timeout_s`` seconds.
        """
        self._closing = True
        self._buffer.hold_only((), time.monotonic())
        with anyio.move_on_after(timeout_s):
            async with anyio.create_task_group() as tasks:
                for exchange in list(self._planner.exchanges.values()):
                    tasks.start_soon(self._close, exchange)

    async def _close(self, exchange: Exchange) -> None:
        await self._until_idle(exchange)
        connection = self._connections.get(exchange.node_id)
        if connection is None or not connection.ready:
            return
        planned = self._planner.close(exchange, exchange.version, time.monotonic())
        if planned is None:
            return
        try:
            self._submit(connection, planned)
        except KafkaError:
            return  # without a session, the broker releases all records on its own
        await self._until_idle(exchange)

    async def _until_idle(self, exchange: Exchange) -> None:
        while exchange.busy:
            await self._news.wait()


def _version(connection: Connection) -> int:
    """Return the version of both kinds of requests, which share a session."""
    offered = connection.versions
    return min(offered.version_for(ShareFetchRequest), offered.version_for(ShareAcknowledgeRequest))
