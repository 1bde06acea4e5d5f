"""The task that moves batches from the accumulator to the brokers.

The task does not poll. It is woken when records are ready, when a connection accepts requests again, by new metadata
and responses, and when batches have lingered, backed off or expired. Responses are processed in the connection's
callback. If a compiler is available, this code is compiled through ``sender.pxd``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

import anyio.lowlevel

from ..._core.counting import counts_of, snapshot
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._core.producer.accumulator import Accumulator
from ..._core.producer.answers import BatchAnswers
from ..._core.producer.batches import PartitionQueue, ProducerBatch, Record, TopicBuffer
from ..._core.producer.buffer_memory import MemoryClaim
from ..._core.producer.delivery import Delivery
from ..._core.producer.produce import (
    SentBatches,
    produce_request,
    produce_version,
    read_answers,
    read_hints,
    read_offsets,
    takes_long_to_build,
)
from ..._options.logs import client_log
from ..._wire.messages.init_producer_id import InitProducerIdRequest
from ..._wire.messages.produce import ProduceRequest, ProduceResponse
from ...config import ProducerConfig
from ...errors import BufferFull, KafkaError
from ..connection.brokers import Brokers
from ..connection.connection import Connection
from ..connection.settings import Lane
from ..deadline import Deadline
from ..loop import PROCESSORS, Signal, Spawn, Waiter
from ..metadata.actor import MetadataActor
from .background import AskAny, Builds, Flushing, ProducerIds, TopicLookups
from .pacing import Pacing
from .waiting import Lines, Parking

if TYPE_CHECKING:
    from ...metrics import ProducerMetrics
    from .shared_sending import Seat

HOT_REQUESTS = (InitProducerIdRequest, ProduceRequest)
"""Requests that are needed for the first records."""

_INT32_MAX = 2**31 - 1
_REQUESTS_AT_A_TIME = 16
"""Number of requests to send to a broker before other tasks run, if responses do not limit them (acks=0)."""
_BATCHES_AT_A_TIME = 500
"""Number of batches to send before other tasks run."""


class Sender:
    """Sends batches that are ready to the leaders of their partitions. Owns the accumulator."""

    def __init__(
        self,
        config: ProducerConfig,
        brokers: Brokers,
        metadata: MetadataActor,
        ask_any: AskAny,
        spawn: Spawn,
        seat: Seat | None = None,
    ) -> None:
        """Send with the connections of ``brokers``, to the leaders in ``metadata``.

        ``ask_any`` sends a request to the least loaded broker. ``spawn`` runs a supervised task. With a ``seat``, the
        sender shares a task and requests with other producers.
        """
        self._parking = Parking()
        self.accumulator = Accumulator(config, self._parking, self._notify)
        self._log = client_log("producer", config.client_id)
        self._answers = BatchAnswers(self.accumulator, config.retries, self._explain, self._log)
        self._ids = ProducerIds(config, self.accumulator, self._answers, ask_any, self._log)
        self._config = config
        self._timeout_ms = min(round(config.request_timeout_ms), _INT32_MAX)
        """Milliseconds for which brokers may wait for replicas."""
        self._brokers = brokers
        self._metadata = metadata
        self._spawn = spawn
        self.lookups = TopicLookups(self.accumulator, metadata, spawn, config.max_block_ms, self._log)
        self._builds = Builds(spawn, self._submit_built, config.transactional_id is not None)
        self.flushing = Flushing(self.accumulator)
        self.lines = Lines()
        """Calls that are waiting until their records can be accepted."""
        self._seat = seat
        self._wake = Signal()
        """Wakes the sender's task, unless it shares one."""
        self._pacing = Pacing()
        self._filled_bytes = 0
        """Size in bytes of the batches that have become full since the last turn."""
        self._working = False
        """True while the sender is working, so that changes do not have to wake it."""
        self._sleeps_until = math.inf
        """Time at which the task wakes unless an event occurs first."""
        self._blocked: set[Waiter[None]] = set()
        """Calls that are waiting for memory."""
        self._over = False
        """True once the sender has stopped. Responses that arrive later on shared connections are ignored."""
        self._answered: Signal | None = None
        """Set at each response, while a call of `answered` waits."""

    # --- start and stop -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Listen to brokers and metadata, and start the task that sends batches or join the shared one."""
        self._parking.start()
        self._brokers.add_listener(self._on_node)
        self._metadata.add_listener(self._on_snapshot)
        self.accumulator.on_snapshot(self._metadata.snapshot, time.monotonic())
        if self._seat is None:
            self._spawn(self._run, name="kafka producer")
        else:
            self._seat.take(self.turn, self._spawn)
        if self.accumulator.identity is not None and self.accumulator.transactional is None:
            self._spawn(self._ids.run, self.accumulator.identity, name="kafka producer id")

    async def _run(self) -> None:
        """Send until cancelled. Not used by a producer that shares a task."""
        while True:
            at = self.turn()
            if at == 0.0:
                await anyio.lowlevel.checkpoint()
            else:
                await self._wake.wait(None if at == math.inf else max(0.0, at - time.monotonic()))

    def turn(self) -> float:
        """Do the work that is due. Return the time of the next call (``time.monotonic()``), or 0 to be called again at
        once.

        If the sender is woken, it is called earlier.
        """
        due = 0.0 if self._work() else self.accumulator.schedule.next_at()
        self._sleeps_until = math.inf if due is None else due
        return self._sleeps_until

    def abort(self, make_error: Callable[[str], KafkaError]) -> None:
        """Fail all pending records.

        ``make_error`` is called with a text that says whether the records may be in the log.
        """
        self._answers.abort(make_error, time.monotonic())
        self.lookups.unknown.drop_all(make_error)
        blocked, self._blocked = self._blocked, set()
        for waiter in blocked:
            waiter.set_error(make_error("not taken"))

    def end(self, make_error: Callable[[str], KafkaError]) -> None:
        """Fail all pending records like `abort`, and ignore later responses."""
        self._over = True
        self.abort(make_error)
        if self._seat is not None:
            self._seat.leave()

    def metrics(self) -> ProducerMetrics:
        """Return the counters and the state of the buffer, for `Producer.metrics`."""
        from ...metrics import ProducerMetrics

        accumulator = self.accumulator
        values = counts_of(
            ProducerMetrics,
            accumulator.counters,
            accumulator.counters.moves,
            connections=self._brokers.connections_made,
            sequence_restarts=accumulator.identity.restarts if accumulator.identity is not None else 0,
            buffer_used_bytes=accumulator.memory.used,
            batches_pending=accumulator.pending,
            metadata=self._metadata.metrics(),
        )
        return snapshot(ProducerMetrics, values)

    # --- waiting calls ------------------------------------------------------------------------------------------------

    async def reserve(self, size: int, deadline: Deadline) -> MemoryClaim:
        """Reserve memory for a record, which the caller must release. Raises `BufferFull` at the deadline."""
        waiter: Waiter[None] = Waiter()
        claim = self.accumulator.claim(size, lambda: waiter.set_result(None), time.monotonic())
        self._blocked.add(waiter)
        try:
            await waiter.wait(deadline.left_s())
        except TimeoutError:
            self.accumulator.memory.release(claim)
            raise self.no_room(size, deadline) from None
        except BaseException:
            self.accumulator.memory.release(claim)
            raise
        finally:
            self._blocked.discard(waiter)
        return claim

    def no_room(self, size: int, deadline: Deadline) -> BufferFull:
        """Return the error of a send that has waited too long for memory or for earlier sends."""
        return BufferFull(
            f"no memory for {size} bytes within {deadline.timeout_ms:g} ms (max_block_ms, or the call's timeout_ms): "
            f"buffer_memory ({self._config.buffer_memory}) is full of unacknowledged records"
        )

    async def answered(self, timeout_s: float) -> bool:
        """Wait until all sent batches have been answered, or lost with a connection. Return False after the timeout."""
        deadline = Deadline(timeout_s * 1000)
        self._answered = Signal()
        try:
            while self.accumulator.unanswered:
                left_s = deadline.left_s()
                if left_s <= 0:
                    return False
                await self._answered.wait(left_s)
        finally:
            self._answered = None
        return True

    def _notify(self) -> None:
        if not self._working:
            self._ring()

    def _ring(self) -> None:
        if self._seat is None:
            self._wake.set()
        else:
            self._seat.ring()

    def _on_node(self, node_id: int) -> None:
        if node_id in self.accumulator.schedule.ready:
            self._notify()

    def _on_snapshot(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        now = time.monotonic()
        self.accumulator.on_snapshot(snapshot, now, moved.partitions)
        if moved.partitions is None:
            self._answers.relocate(now)
        if moved.partitions is None or moved.brokers:
            self.lookups.unknown.on_snapshot(now)
            if self.accumulator.schedule.ready:
                self._notify()  # the same leader may be known again or have another address

    # --- sending ------------------------------------------------------------------------------------------------------

    def put_first(self, topic: TopicBuffer, record: Record, now: float) -> Delivery | None:
        """Accept a record while there is no other record, and send it at once.

        The task is woken only if there is more to do, because waking it would take longer than sending the record.
        """
        self._working = True
        try:
            delivery = self.accumulator.append(topic, record, now)
        finally:
            self._working = False
        self._work_at_once()
        return delivery

    def release(self, queues: Iterable[PartitionQueue]) -> None:
        """Send the first batches of these partitions, because the event that they were waiting for has occurred."""
        now = time.monotonic()
        self._working = True
        try:
            for queue in queues:
                self.accumulator.schedule.evaluate(queue, now)
        finally:
            self._working = False
        self._go_on()

    def _go_on(self) -> None:
        """Handle an event that batches may have been waiting for. Not called while the sender is working.

        During a flush, batches are sent at once, without waking the task. Otherwise, they wait for the task, together
        with the records that arrive before it runs.
        """
        if self._seat is None and self.accumulator.schedule.flushes:
            self._work_at_once()
        else:
            self._ring()

    def _work_at_once(self) -> None:
        """Do the work that is due, outside the task. Wake the task only if there is more to do now."""
        if self._work():
            self._ring()
            return
        due = self.accumulator.schedule.next_at()
        if due is None or due >= self._sleeps_until:
            return
        if self._seat is None:
            self._sleeps_until = due
            self._wake.wake_by(due)
        else:
            self._ring()

    def _work(self) -> bool:
        """Do a limited amount of the due work. Return True if more is due now."""
        accumulator = self.accumulator
        now = time.monotonic()
        self._working = True
        try:
            self._filled_bytes = accumulator.unseen_bytes
            accumulator.start_turn(now)
            self._answers.expire(now)
            more = False
            for node_id in list(accumulator.schedule.ready):
                more = self._serve(node_id, now) or more
            if accumulator.schedule.leaderless:
                self._look_for_leaders()
            if accumulator.pending and accumulator.identity is not None and accumulator.identity.producer_id < 0:
                self._ids.wanted.set()
            return more
        finally:
            self._working = False

    def _serve(self, node_id: int, now: float) -> bool:
        """Send a broker's ready batches while more requests may be in flight. Return True if more can be sent now."""
        accumulator = self.accumulator
        connection = self._brokers.ready(node_id, Lane.DATA)
        if connection is None:
            self._not_connected(node_id, now)
            return False
        requests = sent = 0
        while node_id in accumulator.schedule.ready:
            if requests >= _REQUESTS_AT_A_TIME or sent >= _BATCHES_AT_A_TIME or accumulator.turn_bytes <= 0:
                return True
            if self._seat is None or self._config.acks == 0:
                room = connection.can_send() and not self._pacing.is_full(connection, self._filled_bytes)
            else:
                room = self._seat.can_send(connection, self._filled_bytes)
            if not room:
                if not connection.can_send():
                    accumulator.nodes.blocked(node_id, now)
                return False
            building = self._builds.count(node_id) if accumulator.compresses_slowly else 0
            # Requests that are being built count like requests in flight, because they will be sent in order.
            ahead = connection.in_flight + building
            if building and (building >= PROCESSORS or ahead >= self._config.max_in_flight_requests_per_connection):
                return False
            batches = accumulator.drain(node_id, now, ahead > 0)
            if not batches:
                return False
            # A request must not overtake one that is being built.
            if building or (accumulator.compresses_slowly and takes_long_to_build(batches)):
                self._builds.begin(connection, batches)
            else:
                self._submit(connection, batches)
            requests += 1
            sent += len(batches)
        return False

    def _not_connected(self, node_id: int, now: float) -> None:
        self.accumulator.nodes.blocked(node_id, now)
        error = self._brokers.final_error(node_id)
        if error is not None:
            # A retry cannot help, for example because the credentials are wrong.
            self._answers.fail_ready(node_id, error, now)
        if self._brokers.state(node_id) is NodeState.BACKOFF:
            self._metadata.request_update(lost(node_id))

    def _look_for_leaders(self) -> None:
        for name in {queue.topic.name for queue in self.accumulator.schedule.leaderless}:
            self._metadata.use_topic(name)
        self._metadata.request_update(LEADERLESS)

    def _submit_built(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        self._submit(connection, batches)
        self._notify()  # the next request can be built now

    def _submit(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        """Send batches to a broker in one request. If that is impossible, handle them as not sent."""
        config = self._config
        node_id = connection.node_id
        try:
            transactional = self.accumulator.transactional
            version = produce_version(connection.versions, batches, config.compression_type, transactional)
            request, topic_ids, wire_names, size = produce_request(
                batches, version, config.acks, self._timeout_ms, config.transactional_id
            )
            sent_at = time.monotonic()  # compression has taken time
            sent = SentBatches(node_id, connection.label, version, batches, topic_ids, wire_names, sent_at)
            counters, rack = self.accumulator.counters, config.client_rack
            counters.bytes_sent += size
            if rack is not None:
                leader = self._metadata.snapshot.brokers.get(node_id)
                counters.bytes_sent_in_rack += size if leader is not None and leader.rack == rack else 0
            on_done = partial(self._on_done, sent)
            if config.acks == 0:
                connection.submit(request, on_done, version=version, expect_response=False)
            elif self._seat is None:
                self._pacing.submit(connection, request, version, on_done)
            else:
                self._seat.submit(connection, request, version, on_done, partial(self._unsent, batches, node_id))
            for name in topic_ids:
                self._metadata.use_topic(name)
        except KafkaError as error:
            self._unsent(batches, node_id, error)

    def _unsent(self, batches: list[ProducerBatch], node_id: int, error: KafkaError) -> None:
        if not self._over:
            now = time.monotonic()
            for batch in batches:
                self._answers.not_sent(batch, node_id, error, now)

    # --- responses ----------------------------------------------------------------------------------------------------

    def _on_done(self, sent: SentBatches, response: ProduceResponse | None, error: KafkaError | None) -> None:
        """Process a response, or the error of a request, and then continue to send."""
        if self._over:
            return
        if self._working:
            # Called during a turn, for example by `submit` with acks=0. The turn does the rest.
            self._take(sent, response, error)
        else:
            self._working = True
            self.flushing.answer_comes()
            well = False
            try:
                self._take(sent, response, error)
                well = True
            finally:
                self._working = False
                self.flushing.answer_taken(well)
            if self.accumulator.pending:
                self._go_on()
        if self._answered is not None:
            self._answered.set()

    def _take(self, sent: SentBatches, response: ProduceResponse | None, error: KafkaError | None) -> None:
        now = time.monotonic()
        if error is not None:
            for batch in sent.batches:
                self._answers.refused(batch, sent.node_id, error, now)
            self._metadata.request_update(lost(sent.node_id))
        elif response is None:  # no response is expected (acks=0)
            for batch in sent.batches:
                self._answers.acknowledged(batch, sent.node_id, -1, -1, now)
        else:
            counters = self.accumulator.counters
            counters.answered(sent.node_id, now - sent.sent_at, response.throttle_time_ms)
            self._on_response(sent, response, now)

    def _on_response(self, sent: SentBatches, response: ProduceResponse, now: float) -> None:
        """Complete or retry each batch of a request, as the response says."""
        offsets = read_offsets(sent, response)
        if offsets is not None:
            self._answers.all_acknowledged(sent.batches, sent.node_id, offsets, now)
            return
        answers = read_answers(sent, response)
        stale = False
        for answer in answers:
            if answer.error is not None and answer.error.refreshes_metadata:
                stale = True
        if stale:
            # Before the batches are refused, because a newer leader epoch allows them a retry without delay.
            self._take_hints(sent, response)
        patience_s = self.accumulator.retry.patience_s
        doubt = False
        for answer in answers:
            if answer.error is None:
                self._answers.acknowledged(
                    answer.batch, sent.node_id, answer.base_offset, answer.log_append_time_ms, now
                )
            else:
                self._answers.refused(
                    answer.batch,
                    sent.node_id,
                    answer.error,
                    now,
                    log_start_offset=answer.log_start_offset,
                    tells_leaders=sent.tells_leaders,
                    record_errors=answer.record_errors,
                )
                doubt = doubt or answer.batch.patience.in_doubt(now, patience_s)
        if doubt:
            self._metadata.request_update(doubted(sent.node_id))

    def _take_hints(self, sent: SentBatches, response: ProduceResponse) -> None:
        hints = read_hints(sent, response)
        if hints:
            self._metadata.offer_hints(hints)
        else:
            self._metadata.request_update(refused(sent.node_id))

    def _explain(self, node_id: int) -> str:
        """Return the reason why batches cannot be sent to a node, for the error of an expired batch.

        Node -1 means the broker that assigns producer ids. The reason is then why there is no producer id.
        """
        if node_id < 0:
            return "" if self._ids.error is None else str(self._ids.error)
        error = self._brokers.last_error(node_id)
        if error is not None:
            return f"broker {node_id} cannot be reached: {error}"
        connection = self._brokers.ready(node_id)
        muted_s = 0.0 if connection is None else connection.muted_s
        return f"broker {node_id} throttles this client for another {muted_s:.0f} s" if muted_s else ""
