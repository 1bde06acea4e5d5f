"""Background work of a sender: producer ids, look-ups of topics, flushes, and slow compression."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Protocol

import anyio

from ..._core.backoff import Backoff, Sparingly
from ..._core.inquiry import Inquiry, evades
from ..._core.producer.accumulator import Accumulator
from ..._core.producer.answers import BatchAnswers
from ..._core.producer.batches import ProducerBatch, Record
from ..._core.producer.delivery import Delivery
from ..._core.producer.idempotence import IdempotentSequencing
from ..._core.producer.produce import build_batches
from ..._core.producer.unknown_topics import UnknownTopics
from ..._core.trust import patience_of
from ..._options.checks import INT32_MAX
from ..._options.logs import ClientLog
from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...config import ProducerConfig
from ...errors import KafkaError, UnknownServerError, error_for_code
from ...errors.base import without_frames
from ..connection.connection import Connection
from ..loop import CodecThreads, Signal, Spawn, Waiter
from ..metadata.actor import MetadataActor


class AskAny(Protocol):
    """`ask_anyone` with its client argument already given."""

    def __call__(
        self, inquiries: Collection[Inquiry], ask: Callable[[Connection], Awaitable[InitProducerIdResponse]], /
    ) -> Awaitable[tuple[int, InitProducerIdResponse]]: ...


class ProducerIds:
    """Requests the producer ids of an idempotent producer without a transactional id."""

    def __init__(
        self, config: ProducerConfig, accumulator: Accumulator, answers: BatchAnswers, ask_any: AskAny, log: ClientLog
    ) -> None:
        """Request producer ids with ``ask_any``, which asks the least loaded broker."""
        self._accumulator = accumulator
        self._answers = answers
        self._ask_any = ask_any
        self._log = log
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._inquiry = Inquiry(patience_of(config.retry_backoff_max_ms))
        self.wanted = Signal()
        """Set when the producer has records to send but no producer id."""
        self.error: KafkaError | None = None
        """The error of the last request for a producer id, or None after a success."""

    async def run(self, identity: IdempotentSequencing) -> None:
        """Request a producer id whenever the sender needs one, until cancelled."""
        failures = 0
        while True:
            if identity.producer_id >= 0:
                failures = 0
                await self.wanted.wait()
                continue
            error = await self._get()
            if error is None:
                continue
            failures += 1
            if not evades(error):
                self._answers.abort(partial(_no_producer_id, error), time.monotonic())
                await self.wanted.wait()
            await anyio.sleep(self._backoff.delay_s(failures))

    async def _get(self) -> KafkaError | None:
        try:
            _, response = await self._ask_any((self._inquiry,), _ask)
        except KafkaError as error:
            level = logging.DEBUG if error.retriable else logging.WARNING
            self._log.log(level, "could not get a producer id: %s", error.message, extra={"api": "InitProducerId"})
            self.error = without_frames(error)
            return error
        self.error = None
        self._inquiry.settled()
        self._accumulator.on_producer_id(response.producer_id, response.producer_epoch, time.monotonic())
        return None


async def _ask(connection: Connection) -> InitProducerIdResponse:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
    response = await connection.request(request)
    if response.error_code:
        kind = error_for_code(response.error_code)
        raise kind(f"InitProducerId: {kind().message}")
    if response.producer_id < 0:
        raise UnknownServerError("InitProducerId: the response has no producer id")
    return response


def _no_producer_id(error: KafkaError, fate: str) -> KafkaError:
    return type(error)(f"no producer id was obtained, so the records were {fate}: {error.message}")


_WARN_EVERY_S = 60.0
"""Minimum interval in seconds between warnings about dropped records of a topic."""


class TopicLookups:
    """Looks up unknown topics, each in its own task. If a look-up fails, so do the topic's records."""

    def __init__(
        self, accumulator: Accumulator, metadata: MetadataActor, spawn: Spawn, max_block_ms: float, log: ClientLog
    ) -> None:
        """Look up topics in tasks run by ``spawn``."""
        self.unknown = UnknownTopics(accumulator)
        """The records of unknown topics."""
        self._metadata = metadata
        self._spawn = spawn
        self._max_block_ms = max_block_ms
        self._log = log
        self._warnings = Sparingly(_WARN_EVERY_S)
        """Limits the number of warnings if an application keeps sending to a topic that does not exist."""

    def put(self, record: Record) -> Delivery | None:
        """Accept a record and look up its topic. Return None if memory is short."""
        first = record.topic not in self.unknown
        delivery = self.unknown.append(record)
        if first and delivery is not None:
            self._spawn(self._look_up, record.topic, name="kafka producer topic")
        return delivery

    async def _look_up(self, topic: str) -> None:
        try:
            await self._metadata.topic(topic, self._max_block_ms)
        except KafkaError as error:
            failure = error
            count = self.unknown.drop(topic, lambda fate: type(failure)(f"{failure.message}; the records were {fate}"))
            if count and self._warnings.allow(topic, time.monotonic()):
                text = "dropped %d records for the unknown topic %s: %s"
                self._log.warning(text, count, topic, failure, extra={"topic": topic})


Then = Callable[[Waiter[None]], bool]
"""The continuation of a flush. If it returns True, the flush lasts until the waiter is done."""


class Flushing:
    """Waits for flushes. A flush ends once all records sent before it are acknowledged or have failed."""

    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._taking = False
        """True while a response is being processed. During that time, no other work may start."""
        self._over: list[tuple[Waiter[None], Then]] = []
        """The flushes that this response has completed."""

    async def wait(self, timeout_s: float | None, then: Then | None = None) -> None:
        """Wait until all currently pending records are acknowledged or have failed. Raises TimeoutError.

        If a response completes the flush, ``then`` is called at once in the connection's callback. Otherwise, it is not
        called.
        """
        waiter: Waiter[None] = Waiter()
        ticket = self._accumulator.start_flush(partial(self._end, waiter, then), time.monotonic())
        if ticket is None:
            return
        try:
            await waiter.wait(timeout_s)
        finally:
            self._accumulator.end_flush(ticket)

    def _end(self, waiter: Waiter[None], then: Then | None) -> None:
        if then is not None and self._taking:
            self._over.append((waiter, then))
        else:
            waiter.set_result(None)

    def answer_comes(self) -> None:
        """Begin to process a response. The caller must call `answer_taken` at the end."""
        self._taking = True

    def answer_taken(self, well: bool) -> None:
        """End the processing of a response. If it failed (``well`` is False), the flushes that it completed do not call
        ``then``.
        """
        self._taking = False
        over, self._over = self._over, []
        for waiter, then in over:
            if not (well and then(waiter)):
                waiter.set_result(None)


# --- slow compression in threads --------------------------------------------------------------------------------------
#
# With a codec that takes 10 ns per byte, a full batch blocks the event loop for 2 ms. With one that takes 900 ns, it is
# a quarter of a second. A thread does not block the loop, because codecs release the GIL while they work. Fast codecs
# do not benefit from threads: if the loop is busy, a thread waits up to 5 ms for the GIL, which is longer than it
# works.


_threads = CodecThreads("compression")


class _Build:
    """A request that is being built: its batches and its connection."""

    __slots__ = ("batches", "connection", "done")

    def __init__(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        self.connection = connection
        self.batches = batches
        self.done = False


class Builds:
    """Builds Produce requests in tasks, because the compression of their batches takes long.

    Requests to the same broker are sent in the order in which they were begun.
    """

    def __init__(
        self, spawn: Spawn, submit: Callable[[Connection, list[ProducerBatch]], None], transactional: bool
    ) -> None:
        """Build requests in tasks run by ``spawn``. ``submit`` sends a finished request on its connection."""
        self._transactional = transactional
        self._spawn = spawn
        self._submit = submit
        self._waiting: dict[int, deque[_Build]] = {}
        """Requests that have not been submitted yet, by broker."""

    def count(self, node_id: int) -> int:
        """Return the number of requests to a broker that have not been submitted yet."""
        waiting = self._waiting.get(node_id)
        return len(waiting) if waiting is not None else 0

    def begin(self, connection: Connection, batches: list[ProducerBatch]) -> None:
        """Start to compress these batches, the next request to the connection's broker."""
        build = _Build(connection, batches)
        self._waiting.setdefault(connection.node_id, deque()).append(build)
        self._spawn(self._run, build, name="kafka producer compression")

    async def _run(self, build: _Build) -> None:
        await _threads.run(build_batches, build.batches, self._transactional)
        build.done = True
        node_id = build.connection.node_id
        waiting = self._waiting[node_id]
        while waiting and waiting[0].done:
            first = waiting.popleft()
            if not waiting:
                del self._waiting[node_id]
            self._submit(first.connection, first.batches)
