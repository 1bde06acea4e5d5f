"""Assembles the parts of a `Producer`.

This module is outside of ``_io.producer`` because it needs both that package and ``_io.transactions``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from .._core.producer.delivery import Delivery
from .._core.tracing import TracedClient, installed
from .._io.asking_around import ask_anyone
from .._io.client import Client
from .._io.deadline import Deadline
from .._io.kind import Kind
from .._io.loop import loop_probe, loop_thread
from .._io.producer.checked_sends import CheckedSends, TracedSends
from .._io.producer.intake import Admission, Intake
from .._io.producer.sender import HOT_REQUESTS, Sender
from .._options.arguments import TIMEOUT
from ..config import ProducerConfig
from ..errors import ClientClosedError, KafkaError, RequestTimedOutError
from ..errors.base import own_copy
from ..types import RecordMetadata

if TYPE_CHECKING:
    from .._core.telemetry.measures import Source
    from .._io.transactions.manager import Transactions
    from ..health import ProducerHealth


class ProducerEngine(Kind):
    """Creates, starts and stops the parts of a producer. `Producer` calls the parts."""

    stop_within_ms = math.inf  # records have a limit of their own, delivery_timeout_ms

    def __init__(self, config: ProducerConfig, parent: Client | None) -> None:
        self.config = config
        self.client = client = Client(config, HOT_REQUESTS, parent)
        client.kind = self
        client.records_left = self._records_left
        seat = None
        if parent is not None:
            from .._io.producer.shared_sending import Seat, SharedSending

            seat = Seat(SharedSending.of(parent))
        self.sender = Sender(config, client.brokers, client.metadata, partial(ask_anyone, client), client.spawn, seat)
        self.accumulator = self.sender.accumulator
        self.check: Callable[[], None] = client.check
        """Raises an error unless the producer is running on this event loop."""
        self._started_at: float | None = None
        self.transactions = self._transactions()
        if self.transactions is not None:
            self.begin_within_ms = config.max_block_ms
        admission = Admission(self._check_now) if self.transactions is None else self.transactions.admission(0)
        self.intake = Intake(config, self.sender, client.metadata, admission)
        self.sends: CheckedSends = CheckedSends(config, self.intake, self.accumulator.topics)

    def _transactions(self) -> Transactions | None:
        if self.config.transactional_id is None:
            return None
        # Imported here, so other producers do not load it.
        from .._io.transactions.manager import Transactions

        return Transactions(self.config, self.client, self.sender, self._check_now)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Begin to send; with ``wait``, also request a producer id for transactions."""
        self._started_at = time.monotonic()
        self.client.on_fatal(self._on_fatal)
        self.client.on_fork(self._close_intakes)
        self.client.measure(self._telemetry)
        if installed.tracer is not None:
            metadata = self.client.metadata
            tracing = installed.tracer.producer(TracedClient.of(self.config, lambda: metadata.snapshot.cluster_id))
            self.intake.unsampled = tracing.unsampled
            self.accumulator.counters.on_settled = tracing.settled
            self.sends = TracedSends(self.config, self.intake, self.accumulator.topics, tracing)
        self.sender.start()
        if self.sends.as_they_come:
            self.intake.start(*loop_probe(), loop_thread())
        if self.transactions is not None:
            self.intake.usable = False
            await self.transactions.start(self.intake, self._intake_of_block, deadline, wait=wait)

    def refuse(self) -> None:
        self.check = _raise_closed
        self.intake.usable = False

    async def finish(self, deadline: Deadline) -> None:
        """Send pending records, or abort the open transaction."""
        if self.transactions is not None:
            await self.transactions.stop(None if deadline.left_s() == math.inf else deadline.left_s())
        else:
            await self.sender.flushing.wait(None)

    def release(self) -> None:
        self.sender.end(_stopped_before)

    async def flush(self, timeout_ms: float | None) -> None:
        """Send all records without lingering. Raises `RequestTimedOutError` after ``timeout_ms``."""
        self.check()
        try:
            await self.sender.flushing.wait(None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            raise RequestTimedOutError(
                f"flush: {self.accumulator.pending} batches were not acknowledged within {timeout_ms:g} ms"
            ) from None
        if self.client.fatal is not None:
            self.check()

    # --- internals ---------------------------------------------------------------------------------------------------

    def _check_now(self) -> None:
        self.check()

    def _records_left(self) -> int:
        return self.accumulator.records_left() + self.sender.lookups.unknown.records_left()

    def _on_fatal(self, error: BaseException) -> None:
        self._close_intakes()
        self.sender.end(lambda fate: _failed_with(error, fate))

    def _close_intakes(self) -> None:
        self.intake.usable = False
        if self.transactions is not None:
            self.transactions.close_gate()

    def _intake_of_block(self, admission: Admission) -> Intake:
        """Return an intake for the sends of one transaction.

        It has no fast path if records need a serializer or a custom partitioner.
        """
        intake = Intake(self.config, self.sender, self.client.metadata, admission)
        intake.unsampled = self.intake.unsampled
        if self.sends.as_they_come:
            intake.start(*loop_probe(), loop_thread())
        return intake

    def _telemetry(self) -> Source:
        from .._core.producer.telemetry import (
            ProducerTelemetry,
        )  # imported here, because most clusters do not request metrics

        return ProducerTelemetry(self.config.transactional_id, self.accumulator, self.client.own_connections)

    def health(self) -> ProducerHealth:
        """Return the current health, without requests."""
        from .._core.producer.health import ProducerFacts, judge_producer

        now, client, accumulator, started_at = time.monotonic(), self.client, self.accumulator, self._started_at
        unusable = None
        if client.fatal is not None:
            unusable = f"the producer has failed: {client.fatal}"
        elif client.stopping:
            unusable = "the producer has been stopped"
        elif started_at is None:
            unusable = "the producer has not been started"
        oldest = min(
            (
                queue.batches[0].created_at
                for topic in list(accumulator.topics.values())
                for queue in list(topic.pending)
                if queue.batches
            ),
            default=None,
        )
        acked_at = accumulator.counters.acked_at
        memory = accumulator.memory
        facts = ProducerFacts(
            unusable=unusable,
            connected=any(node_id >= 0 for node_id in client.metadata.snapshot.brokers),
            since_start_s=0.0 if started_at is None else now - started_at,
            pending_s=None if oldest is None else now - oldest,
            since_ack_s=now - acked_at if acked_at else None,
            buffer_used=memory.used / memory.limit,
            sends_waiting=len(memory.waiting),
            reachable=client.brokers.reachable,
        )
        return judge_producer(facts, 2 * self.config.request_timeout_ms / 1000)


async def within(timeout_ms: float, send: Callable[..., Awaitable[Delivery]], *record: Any) -> RecordMetadata:
    """Send a record and wait for its acknowledgement, for at most ``timeout_ms``.

    ``send`` is called with the arguments ``record`` and with ``timeout_ms``. If the record is accepted but not
    acknowledged in time, raises `RequestTimedOutError`, although the record may still be written.
    """
    deadline = Deadline(TIMEOUT("timeout_ms", timeout_ms))
    delivery = await send(*record, timeout_ms=timeout_ms)
    with anyio.move_on_after(deadline.left_s()):
        return await delivery
    if delivery.done():  # acknowledged while the loop was busy
        return delivery.result()
    raise RequestTimedOutError(f"the record was not acknowledged within {timeout_ms:g} ms, and may still be written")


def _raise_closed() -> None:
    raise ClientClosedError


def _stopped_before(fate: str) -> KafkaError:
    return ClientClosedError(
        f"the producer was stopped before a broker acknowledged the records; the records were {fate}"
    )


def _failed_with(error: BaseException, fate: str) -> KafkaError:
    failure = own_copy(error) if isinstance(error, KafkaError) else KafkaError(str(error))
    failure.__cause__ = error.__cause__
    failure.add_note(f"the records were {fate}")
    return failure
