"""Assembly of the parts of a `ShareConsumer`."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, Protocol

from ..._core.consumer.deserializers import Deserializers
from ..._core.run.handler import time_of_handlers
from ..._core.share.buffer import AcquiredData, Allowance, ShareBuffer
from ..._core.share.delivered import Delivered
from ..._core.share.member import ShareMember
from ..._core.share.planner import PlannerOptions, SharePlanner
from ..._core.share.record import ShareRecord
from ..._core.tracing import ReadTracing, TracedClient, installed
from ..._options.logs import client_log
from ..._wire.messages.metadata import MetadataRequest
from ..._wire.messages.share_fetch import ShareFetchRequest
from ...config.share import ShareConsumerConfig
from ...errors import ClientClosedError, IllegalStateError, KafkaError, RequestTimedOutError
from ...errors.shown import some_of
from ..client import Client
from ..connection.brokers import FRAME_OVERHEAD_BYTES
from ..consumer.health import AbsenceWatch
from ..deadline import Deadline
from ..kind import Kind
from ..loop import News, Signal
from .acknowledging import Acknowledging
from .exchanging import AHEAD_S, ShareExchanging
from .membership import ShareHealthWatch, ShareMembership
from .reader import ShareReader

if TYPE_CHECKING:
    from ..._core.telemetry.measures import Source

HOT_REQUESTS = (MetadataRequest, ShareFetchRequest)
"""Requests that are needed for the first records."""

Record = ShareRecord[Any, Any]


class Run(Protocol):
    """A running call of `ShareConsumer.run`, as the engine uses it."""

    def problem(self, now: float) -> str | None:
        """Return a description of the problem that the run currently tolerates, or None."""

    def wind_up(self) -> None:
        """Release the records that no handler is processing, and hand out no more."""

    async def finish(self, ready_by: float, end_by: float) -> None:
        """End the run of a stopping consumer.

        Handlers have until ``ready_by``, and everything else until ``end_by``.
        """

    def stuck_since(self) -> float | None:
        """Return the time at which the oldest running handler started (``time.monotonic()``), or None."""


class ShareEngine(Kind):
    """Assembles, starts and stops the parts of a share consumer. The public class calls these parts directly."""

    def __init__(self, client: Client, config: ShareConsumerConfig) -> None:
        self.client = client
        client.kind = self
        self.config = config
        self._log = client_log("consumer", config.client_id)
        self._news = News()
        self._planning = Signal()
        reader_wake = Signal()
        self._reader_wake = reader_wake
        if config.share_acquire_mode == "record_limit":
            self.allowance = Allowance(config.max_poll_records)
        else:  # the next records should be ready while the application is processing these
            self.allowance = Allowance(2 * config.max_poll_records, of_each_broker=True)
        self.deserializers = Deserializers(config.key_deserializer, config.value_deserializer)
        self.delivered = Delivered(implicit=config.share_acknowledgement_mode == "implicit")
        self.member = ShareMember(config)
        options = PlannerOptions(
            config.group_id,
            int(config.fetch_max_wait_ms),
            config.fetch_min_bytes,
            self._fetch_max_bytes(),
            config.retry_backoff_ms,
            config.retry_backoff_max_ms,
            config.connections_max_idle_ms,
        )
        self.planner = SharePlanner(options, self.member.member_id, self.delivered.settled)
        self.acknowledging = Acknowledging(client, self.planner, self.delivered, self._planning, self._news)
        self.buffer = ShareBuffer(self.allowance, self._unreadable, self.planner.counters)
        self.exchanging = ShareExchanging(
            client,
            config,
            self.member,
            self.planner,
            self.buffer,
            self.allowance,
            self._planning,
            self._news,
            reader_wake,
            self._report,
        )
        self.membership = ShareMembership(client, self.member, config.group_id, self._changed)
        self.reader = ShareReader(
            self.buffer,
            self.delivered,
            self.allowance,
            self.exchanging,
            reader_wake,
            self._planning,
            self.check_reading,
        )
        self.runner: Run | None = None
        """The current `run`, or None."""
        self.started = False
        self.tracing: ReadTracing | None = None
        self.health = ShareHealthWatch(
            client,
            config,
            self.membership,
            self.planner,
            hungry=self._is_hungry,
            busy_since=self._busy_since,
            refused=lambda now: None if self.runner is None else self.runner.problem(now),
            started=lambda: self.started,
        )

    def _fetch_max_bytes(self) -> int:
        """Return the size limit of a response. On shared connections, ``receive_max_bytes`` limits it further."""
        asked = self.config.fetch_max_bytes
        if self.client.parent is None:
            return asked
        return min(asked, max(1, self.config.receive_max_bytes - FRAME_OVERHEAD_BYTES))

    def _is_hungry(self) -> bool:
        """Return True if reads are waiting for fetches. This includes the time between two waits in a loop of reads."""
        reader = self.reader
        waits = reader.waiting or time.monotonic() < reader.waited_at + AHEAD_S
        return waits and bool(self.planner.assignment)

    def _busy_since(self) -> float | None:
        """Return the time at which the application started processing its current records, or None."""
        if self.runner is not None:
            return self.runner.stuck_since()
        taken_at = self.exchanging.taken_at
        return None if self.reader.waiting or taken_at == -math.inf else taken_at

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        """Join the group. If ``wait`` is True, wait until the group's start offsets are known."""
        self.started = True
        self.client.on_fatal(lambda error: self.membership.notify())
        self.client.measure(self._telemetry)
        if installed.tracer is not None:
            metadata = self.client.metadata
            traced = TracedClient.of(
                self.config, lambda: metadata.snapshot.cluster_id, self.config.group_id, self.buffer.handed_out
            )
            self.tracing = self.exchanging.tracing = installed.tracer.consumer(traced)
        self.membership.start()
        self.client.spawn(AbsenceWatch(self.client, self.membership).run, name="kafka absent topics")
        self.client.spawn(self.exchanging.run, name="kafka share exchange")
        self.health.start()
        missing = await self._missing(deadline, patient=False) if wait else None
        if missing is not None:
            self._log.warning("the share consumer has started, but is still waiting for %s", missing)

    def _telemetry(self) -> Source:
        from ..._core.share.telemetry import ShareTelemetry  # imported here because few brokers subscribe to metrics

        config, connections = self.config, self.client.own_connections
        counters, buffer = self.planner.counters, self.buffer
        return ShareTelemetry(
            config.client_rack, config.group_id, self.member, counters, buffer, self.reader.waited_s, connections
        )

    async def wait_ready(self, timeout_ms: float) -> None:
        """Wait until the group's start offsets are known. Raises `RequestTimedOutError`."""
        missing = await self._missing(Deadline(timeout_ms), patient=True)
        if missing is not None:
            raise RequestTimedOutError(
                f"the share consumer was not ready within {timeout_ms:g} ms: still waiting for {missing}"
            )

    async def _missing(self, deadline: Deadline, *, patient: bool) -> str | None:
        """Wait until the start offsets are known. Return the missing step at the deadline. Raises final errors.

        If ``patient`` is False, stops waiting once all awaited leaders are in doubt (see `Trust`).
        """
        while True:
            if self.client.stopping:
                raise ClientClosedError  # a leaving member does not wait
            self.client.check()
            self.membership.check()
            awaited = self._awaited()
            if awaited is None or not (patient or self._hopes()):
                return awaited
            try:
                await self._news.wait(deadline.left_s())
            except TimeoutError:
                return awaited

    def _awaited(self) -> str | None:
        """Return the step that is still missing before the group's start offsets are known, or None."""
        if not self.membership.topics:
            return None
        if not self.member.assigned:
            return "the group's assignment"
        waiting = self.planner.not_begun(self.member.assignment())
        return f"the leaders of {some_of([str(tp) for tp in sorted(waiting)])}" if waiting else None

    def _hopes(self) -> bool:
        """Return False if all awaited leaders are in doubt."""
        waiting, now = self.planner.not_begun(self.member.assignment()), time.monotonic()
        return not waiting or not all(self.planner.in_doubt(tp, now) for tp in waiting)

    def block_done(self) -> None:
        self.reader.come_back()

    def refuse(self) -> None:
        self.membership.notify()
        self.reader.stop()
        if self.runner is not None:
            self.runner.wind_up()

    async def finish(self, deadline: Deadline) -> None:
        if self.runner is not None:
            await self.runner.finish(*time_of_handlers(deadline.at, deadline.timeout_ms / 1000))

    async def depart(self, deadline: Deadline) -> None:
        """Release records, close sessions, and leave the group."""
        self.started = False
        if not self.client.brokers.connections_made:
            return  # no broker has been reached, so the consumer is in no group
        within_s = deadline.left_s() / 2
        self.delivered.give_back(time.monotonic())
        await self.exchanging.close(within_s)
        await self.membership.leave(within_s / 2)

    def release(self) -> None:
        if self.tracing is not None:
            self.tracing.stopped()
        self._changed()

    def _changed(self) -> None:
        self._planning.set()
        self._reader_wake.set()
        self._news.tell()

    def _report(self, error: KafkaError) -> None:
        self.reader.report(error)

    def _unreadable(self, data: AcquiredData) -> None:
        self._log.error("records of %s cannot be read, and are released: %s", data.acquired.tp, data.failure)

    def check_reading(self) -> None:
        """Raise the error that prevents reading, if any."""
        self.client.check()
        if not self.membership.topics:
            raise IllegalStateError("nothing to read: subscribe to topics first")
        self.membership.check()

    def subscribe(self, topics: tuple[str, ...]) -> None:
        """Read exactly these topics from now on.

        Without topics, leave the group. A read that is waiting then raises `IllegalStateError`.
        """
        self.membership.subscribe(topics, started=self.started)
        self.buffer.hold_only(topics, time.monotonic())
        self._changed()
