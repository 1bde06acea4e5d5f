"""The task that moves batches from the accumulator to the brokers.

It never polls: records that are ready, a connection that has room, new metadata, an answer, and the deadline of
something that lingers, backs off or expires wake it. Answers are taken in where they arrive, in the connection's
callback. Compiled through ``sender.pxd`` where a compiler is.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio.lowlevel

from ..._core.backoff import Backoff
from ..._core.metadata.moved import Moved
from ..._core.metadata.refresh import LEADERLESS, lost, refused
from ..._core.metadata.types import ClusterSnapshot
from ..._core.producer.accumulator import Accumulator
from ..._core.producer.answers import BatchAnswers
from ..._core.producer.batches import ProducerBatch, Record, TopicBuffer
from ..._core.producer.buffer_memory import MemoryClaim
from ..._core.producer.delivery import Delivery
from ..._core.producer.idempotence import IdempotentSequencing
from ..._core.producer.metrics import ProducerMetrics, snapshot
from ..._core.producer.produce import (
    SentBatches,
    produce_request,
    produce_version,
    read_answers,
    read_hints,
    read_offsets,
    takes_long_to_build,
)
from ..._core.producer.unknown_topics import UnknownTopics
from ..._core.sparingly import Sparingly
from ..._options.logs import client_log
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ..._wire.messages.produce import ProduceRequest, ProduceResponse
from ...config import ProducerConfig
from ...errors import (
    BufferFull,
    KafkaError,
    error_for_code,
)
from ..connection.brokers import Brokers, NodeState
from ..connection.connection import Connection, Lane
from ..deadline import Deadline
from ..loop import Signal, Spawn, Waiter
from ..metadata.actor import MetadataActor
from .builds import THREADS, Builds
from .parking import Parking

__all__ = ["HOT_REQUESTS", "Sender"]

HOT_REQUESTS = (InitProducerIdRequest, ProduceRequest)
"""What records wait for."""

_INT32_MAX = 2**31 - 1
_REQUESTS_AT_A_TIME = 16
"""Requests to one broker in one go, where no answers hold them back (acks=0)."""
_WARN_EVERY_S = 60.0
"""How often the log says of a topic that records for it were given up."""
_BATCHES_AT_A_TIME = 500
"""Batches that are sent before others have their turn."""

AskAny = Callable[[InitProducerIdRequest], Awaitable[InitProducerIdResponse]]


class Sender:
    """Owns the accumulator, and sends what is ready in it."""

    def __init__(
        self, config: ProducerConfig, brokers: Brokers, metadata: MetadataActor, ask_any: AskAny, spawn: Spawn
    ) -> None:
        """``ask_any`` sends a request to whichever broker has the least to do, ``spawn`` runs a supervised task."""
        self._parking = Parking()
        self.accumulator = Accumulator(config, self._parking, self._notify)
        self._unknown = UnknownTopics(self.accumulator)
        self._log = client_log("producer", config.client_id)
        self._answers = BatchAnswers(self.accumulator, config.retries, self._explain, self._log)
        self._config = config
        self._timeout_ms = min(round(config.request_timeout_ms), _INT32_MAX)
        """How long brokers may wait for their replicas."""
        self._brokers = brokers
        self._metadata = metadata
        self._ask_any = ask_any
        self._spawn = spawn
        self._builds = Builds(spawn, self._submit_built, config.transactional_id is not None)
        self._wake = Signal()
        self._identity_wanted = Signal()
        """Wakes the task that gets producer ids."""
        self._working = False
        """While it works it sees what comes up, and need not be woken."""
        self._sleeps_until = math.inf
        """When it wakes if nothing wakes it before."""
        self._warnings = Sparingly(_WARN_EVERY_S)
        """Of topics that stay unknown: an application that goes on sending to one would get a line for each call."""
        self._blocked: set[Waiter[None]] = set()
        """Sends that wait for memory."""
        self._answered: Signal | None = None
        """Set at each answer, while somebody waits for all of them."""

    # --- its life -----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to send."""
        self._parking.start()
        self._brokers.add_listener(self._on_node)
        self._metadata.add_listener(self._on_snapshot)
        self.accumulator.on_snapshot(self._metadata.snapshot, time.monotonic())
        self._spawn(self._run, name="kafka producer")
        if self.accumulator.identity is not None and self.accumulator.transactional is None:
            self._spawn(self._keep_identity, self.accumulator.identity, name="kafka producer id")

    async def _run(self) -> None:
        """Send until cancelled."""
        while True:
            more = self._work()
            if more:
                await anyio.lowlevel.checkpoint()
                continue
            due = self.accumulator.schedule.next_at()
            self._sleeps_until = math.inf if due is None else due
            await self._wake.wait(None if due is None else max(0.0, due - time.monotonic()))

    def abort(self, make_error: Callable[[str], KafkaError]) -> None:
        """Give up every record that is pending; ``make_error`` takes a text that says what became of it."""
        self._answers.abort(make_error, time.monotonic())
        self._unknown.drop_all(make_error)
        blocked, self._blocked = self._blocked, set()
        for waiter in blocked:
            waiter.set_error(make_error("not taken"))

    def metrics(self) -> ProducerMetrics:
        """The counts of this moment."""
        accumulator = self.accumulator
        return snapshot(
            accumulator.counters,
            sequence_restarts=accumulator.identity.restarts if accumulator.identity is not None else 0,
            buffer_used_bytes=accumulator.memory.used,
            batches_pending=accumulator.pending,
            metadata=self._metadata.metrics(),
        )

    # --- what callers wait for ----------------------------------------------------------------------------------------

    async def reserve(self, size: int, timeout_s: float) -> MemoryClaim:
        """Memory for a record, to be released by the caller. Raises `BufferFull` when it takes too long."""
        waiter: Waiter[None] = Waiter()
        claim = self.accumulator.claim(size, lambda: waiter.set_result(None), time.monotonic())
        self._blocked.add(waiter)
        try:
            await waiter.wait(timeout_s)
        except TimeoutError:
            self.accumulator.memory.release(claim)
            raise BufferFull(
                f"no room for {size} bytes within max_block_ms ({self._config.max_block_ms:g}): "
                f"buffer_memory ({self._config.buffer_memory}) is full of records that are not acknowledged"
            ) from None
        except BaseException:
            self.accumulator.memory.release(claim)
            raise
        finally:
            self._blocked.discard(waiter)
        return claim

    def put_unknown(self, record: Record) -> Delivery | None:
        """Take a record of a topic that is not known yet, and look the topic up; None when memory is short."""
        first = record.topic not in self._unknown
        delivery = self._unknown.append(record)
        if first and delivery is not None:
            self._spawn(self._look_up, record.topic, name="kafka producer topic")
        return delivery

    async def _look_up(self, topic: str) -> None:
        try:
            await self._metadata.topic(topic, self._config.max_block_ms)
        except KafkaError as error:
            failure = error
            count = self._unknown.drop(topic, lambda fate: type(failure)(f"{failure.message}; the records were {fate}"))
            if count and self._warnings.allow(topic, time.monotonic()):
                self._log.warning("gave up %d records of %s, which is not known: %s", count, topic, failure)

    async def flush(self, timeout_s: float | None) -> None:
        """Until every record that is pending now is acknowledged or failed. Raises TimeoutError."""
        waiter: Waiter[None] = Waiter()
        ticket = self.accumulator.start_flush(lambda: waiter.set_result(None), time.monotonic())
        if ticket is None:
            return
        try:
            await waiter.wait(timeout_s)
        finally:
            self.accumulator.end_flush(ticket)

    async def answered(self, timeout_s: float) -> bool:
        """Until every batch that was sent is answered, or its connection is lost; False when the timeout passed."""
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

    # --- what wakes it ------------------------------------------------------------------------------------------------

    def _notify(self) -> None:
        if not self._working:
            self._wake.set()

    def _on_node(self, node_id: int) -> None:
        if node_id in self.accumulator.schedule.ready:
            self._notify()

    def _on_snapshot(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        now = time.monotonic()
        self.accumulator.on_snapshot(snapshot, now, moved.partitions)
        if moved.partitions is None or moved.brokers:
            self._unknown.on_snapshot(now)
            if self.accumulator.schedule.ready:
                self._notify()  # a leader that stays may be known again, or at another address

    # --- sending ------------------------------------------------------------------------------------------------------

    def put_first(self, topic: TopicBuffer, record: Record, now: float) -> Delivery | None:
        """Take a record when there is no other, and send it in this very turn of the event loop.

        The task sleeps on, unless that leaves something to it: to wake it would cost more than the record.
        """
        self._working = True
        try:
            delivery = self.accumulator.append(topic, record, now)
        finally:
            self._working = False
        more = self._work()
        due = self.accumulator.schedule.next_at()
        if more or (due is not None and due < self._sleeps_until):
            self._wake.set()
        return delivery

    def _work(self) -> bool:
        """Do all there is to do now; whether more is left."""
        accumulator = self.accumulator
        now = time.monotonic()
        self._working = True
        try:
            accumulator.start_turn(now)
            self._answers.expire(now)
            more = False
            for node_id in list(accumulator.schedule.ready):
                more = self._serve(node_id, now) or more
            if accumulator.schedule.leaderless:
                self._look_for_leaders()
            if accumulator.pending and accumulator.identity is not None and accumulator.identity.producer_id < 0:
                self._identity_wanted.set()
            return more
        finally:
            self._working = False

    def _serve(self, node_id: int, now: float) -> bool:
        accumulator = self.accumulator
        connection = self._brokers.ready(node_id, Lane.DATA)
        if connection is None:
            self._not_connected(node_id, now)
            return False
        requests = sent = 0
        while node_id in accumulator.schedule.ready:
            if requests >= _REQUESTS_AT_A_TIME or sent >= _BATCHES_AT_A_TIME or accumulator.turn_bytes <= 0:
                return True
            if not connection.can_send():
                accumulator.nodes.blocked(node_id, now)
                return False
            building = self._builds.count(node_id) if accumulator.compresses_slowly else 0
            ahead = connection.in_flight + building
            if building and (building >= THREADS or ahead >= self._config.max_in_flight_requests_per_connection):
                return False
            batches = accumulator.drain(node_id, now, ahead > 0)
            if not batches:
                return False
            if building or (accumulator.compresses_slowly and takes_long_to_build(batches)):
                self._builds.begin(connection, batches)
            else:
                self._submit(connection, batches, now)
            requests += 1
            sent += len(batches)
        return False

    def _not_connected(self, node_id: int, now: float) -> None:
        self.accumulator.nodes.blocked(node_id, now)
        error = self._brokers.last_error(node_id)
        if error is not None and not error.retriable:
            # Wrong credentials, say: that does not pass by waiting.
            self._answers.fail_ready(node_id, error, now)
        if self._brokers.state(node_id) is NodeState.BACKOFF:
            self._metadata.request_update(lost(node_id))

    def _look_for_leaders(self) -> None:
        for name in {queue.topic.name for queue in self.accumulator.schedule.leaderless}:
            self._metadata.use_topic(name)
        self._metadata.request_update(LEADERLESS)

    def _submit_built(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        self._submit(connection, batches, time.monotonic())
        self._notify()  # others may be built now

    def _submit(self, connection: Connection, batches: list[ProducerBatch], now: float) -> None:
        config = self._config
        node_id = connection.node_id
        try:
            transactional = self.accumulator.transactional
            version = produce_version(connection.versions, batches, config.compression_type, transactional)
            request, topic_ids, wire_names, size = produce_request(
                batches, version, config.acks, self._timeout_ms, config.transactional_id
            )
            sent = SentBatches(node_id, connection.label, version, batches, topic_ids, wire_names)
            self.accumulator.counters.bytes_sent += size
            connection.submit(request, partial(self._on_done, sent), version=version, expect_response=config.acks != 0)
            for name in topic_ids:
                self._metadata.use_topic(name)
        except KafkaError as error:
            for batch in batches:
                self._answers.not_sent(batch, node_id, error, now)

    # --- answers ------------------------------------------------------------------------------------------------------

    def _on_done(self, sent: SentBatches, response: ProduceResponse | None, error: KafkaError | None) -> None:
        now = time.monotonic()
        if error is not None:
            for batch in sent.batches:
                self._answers.refused(batch, sent.node_id, error, now)
            self._metadata.request_update(lost(sent.node_id))
        elif response is None:  # acks=0
            for batch in sent.batches:
                self._answers.acknowledged(batch, sent.node_id, -1, -1, now)
        else:
            self._on_response(sent, response, now)
        if self._answered is not None:
            self._answered.set()
        if self.accumulator.pending:
            self._notify()

    def _on_response(self, sent: SentBatches, response: ProduceResponse, now: float) -> None:
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
            self._take_hints(sent, response)
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

    def _take_hints(self, sent: SentBatches, response: ProduceResponse) -> None:
        hints = read_hints(sent, response)
        if hints:
            self._metadata.offer_hints(hints)
        else:
            self._metadata.request_update(refused(sent.node_id))

    def _explain(self, node_id: int) -> str:
        """What keeps batches from a node, for the message of one that expires."""
        error = self._brokers.last_error(node_id)
        return f"broker {node_id} cannot be reached: {error}" if error is not None else ""

    # --- the producer id ----------------------------------------------------------------------------------------------

    async def _keep_identity(self, identity: IdempotentSequencing) -> None:
        """Get a producer id at the start and whenever another one is needed, until cancelled."""
        backoff = Backoff(self._config.retry_backoff_ms, self._config.retry_backoff_max_ms)
        failures = 0
        while True:
            if identity.producer_id >= 0:
                failures = 0
                await self._identity_wanted.wait()
                continue
            error = await self._get_producer_id()
            if error is None:
                continue
            failures += 1
            if not error.retriable:
                self._answers.abort(partial(_no_producer_id, error), time.monotonic())
                await self._identity_wanted.wait()
            await anyio.sleep(backoff.delay_s(failures))

    async def _get_producer_id(self) -> KafkaError | None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_INT32_MAX)
        try:
            response = await self._ask_any(request)
        except KafkaError as error:
            return error
        if response.error_code:
            kind = error_for_code(response.error_code)
            self._log.log(logging.DEBUG if kind.retriable else logging.WARNING, "no producer id: %s", kind().message)
            return kind(f"InitProducerId: {kind().message}")
        self.accumulator.on_producer_id(response.producer_id, response.producer_epoch, time.monotonic())
        return None


def _no_producer_id(error: KafkaError, fate: str) -> KafkaError:
    return type(error)(f"no producer id could be had, so the records were {fate}: {error.message}")
