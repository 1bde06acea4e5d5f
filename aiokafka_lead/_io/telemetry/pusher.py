"""The task that requests the telemetry subscription from a broker, and pushes metrics (KIP-714)."""

from __future__ import annotations

import time
from typing import TypeVar
from uuid import UUID

from ..._core.telemetry.collector import Collector, Instant
from ..._core.telemetry.measures import Source
from ..._core.telemetry.otlp import Payload, build_payload
from ..._core.telemetry.state import Outcome, Phase, TelemetryState
from ..._options.logs import ClientLog
from ..._records.layout import CODEC_IDS
from ..._wire import Request, Response
from ..._wire.messages.push_telemetry import PushTelemetryRequest
from ...errors import KafkaConnectionError, KafkaError, TelemetryTooLargeError
from ..connection.brokers import Brokers
from ..connection.connection import Connection
from ..connection.settings import Lane
from ..deadline import Deadline
from ..loop import News, Signal

R = TypeVar("R", bound=Response)


class Pusher:
    """Sends the telemetry requests that `TelemetryState` decides on. Stays with one broker while it can be reached.

    The requests use the control connection, so they delay neither records nor heartbeats.
    """

    def __init__(self, log: ClientLog, brokers: Brokers, news: News, request_timeout_ms: float) -> None:
        self._log = log
        self._brokers = brokers
        self._news = news
        """Notified when the client instance id may be known."""
        self._request_timeout_ms = request_timeout_ms
        self._state = TelemetryState()
        self._collector = Collector()
        self._connection: Connection | None = None
        self._wake = Signal()
        self._dropped = 0
        """Number of metrics omitted from the last push."""
        self.refusal: KafkaError | None = None
        """Reason why a broker permanently refuses this client, or None."""

    @property
    def client_instance_id(self) -> UUID | None:
        """The client instance id, or None until a broker has assigned it."""
        return self._state.client_instance_id

    def add(self, source: Source, began_s: float, began_ns: int) -> None:
        """Add a source that started to count at ``began_s`` (monotonic) and ``began_ns`` (since the epoch)."""
        self._collector.add(source, Instant(began_s, began_ns))
        self._wake.set()

    def remove(self, source: Source) -> None:
        """Remove a source that has ended. If there is another push, it still includes the counts of this source."""
        self._collector.remove(source, keep=self._state.may_push)

    def hurry(self) -> None:
        """Request the id soon, because a call is waiting for it."""
        self._state.hurry()
        self._wake.set()

    def close(self) -> bool:
        """End `run` soon. Return True if it will push the last metrics before."""
        self._state.close(not self._collector.empty)
        self._wake.set()
        return not self._state.ended

    async def run(self) -> None:
        """Request subscriptions and push metrics until `close`, or until a broker refuses permanently."""
        state = self._state
        while not state.ended:
            wait_s = state.due_at - time.monotonic()
            if self._idle:
                await self._wake.wait()
            elif wait_s > 0:
                await self._wake.wait(wait_s)
            elif state.phase is Phase.SUBSCRIPTION_NEEDED:
                await self._ask()
            else:
                await self._push()

    @property
    def _idle(self) -> bool:
        """True if there is no source, as in an admin client, and the id is known."""
        return self._collector.empty and self._state.client_instance_id is not None

    async def _ask(self) -> None:
        request = self._state.ask()
        try:
            response = await self._request(request)
        except KafkaError as error:
            self._failed(error)
            return
        self._note(self._state.subscribed(response, time.monotonic()))
        self._news.tell()

    async def _push(self) -> None:
        """Push the changes since the last accepted push. If the push fails, the next push includes them."""
        state = self._state
        subscription, client_instance_id = state.subscription, state.client_instance_id
        assert subscription is not None
        assert client_instance_id is not None
        resources = self._collector.collect(Instant(time.monotonic(), time.time_ns()), subscription)
        payload = build_payload(resources, state.codec, subscription.max_bytes)
        self._warn_of_dropped(payload, subscription.max_bytes)
        request = PushTelemetryRequest(
            client_instance_id=client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=state.push(payload.codec),
            compression_type=CODEC_IDS[payload.codec],
            metrics=payload.data,
        )
        try:
            response = await self._request(request)
        except KafkaError as error:
            self._failed(error)
            return
        if not response.error_code:
            self._collector.accepted()
        self._note(state.pushed(response.error_code, time.monotonic()))

    async def _request(self, request: Request[R]) -> R:
        deadline = Deadline(self._request_timeout_ms)
        if self._connection is None or not self._connection.ready:
            node_id = self._brokers.least_loaded()
            if node_id is None:
                raise KafkaConnectionError("no broker can be reached now")
            self._connection = await self._brokers.get(node_id, Lane.CONTROL, deadline.left_ms())
        return await self._connection.request(request, timeout_ms=deadline.left_ms())

    # --- failures ----------------------------------------------------------------------------------------------------

    def _failed(self, error: KafkaError) -> None:
        self._log.debug("a request for or with metrics has failed: %s", error)
        self._connection = None
        self._state.failed(error, time.monotonic())

    def _note(self, outcome: Outcome) -> None:
        if outcome.ended:
            self.refusal = outcome.error
            self._log.warning("the broker no longer accepts metrics of this client: %s", outcome.error)
        elif isinstance(outcome.error, TelemetryTooLargeError):
            self._log.warning("the metrics are too large for the broker: %s", outcome.error)
        elif outcome.error is not None:
            self._log.debug("the broker has refused a request for or with metrics: %s", outcome.error)

    def _warn_of_dropped(self, payload: Payload, max_bytes: int) -> None:
        if payload.dropped and not self._dropped:
            self._log.warning(
                "%d metrics are not pushed: the broker accepts at most %d bytes", payload.dropped, max_bytes
            )
        self._dropped = payload.dropped
