"""The task that fills the prefetch buffer, and the channels through which it fetches from brokers.

The channels use the consumer's own connections, or fetches that are merged with the fetches of other consumers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import anyio

from ... import errors
from ..._core.backoff import Backoff
from ..._core.consumer.fetch_answer import AnswerReader
from ..._core.consumer.fetch_plan import FetchPlanner, PlannedFetch
from ..._core.consumer.fetch_session import SESSION_ERRORS, FetchOptions, SessionRequest, fetch_request, wait_beside_ms
from ..._core.consumer.followers import Followers
from ..._core.consumer.partition_state import PartitionState
from ..._core.consumer.reading import Reading
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.refresh import LEADERLESS, doubted, lost, refused
from ..._core.metadata.types import ClusterSnapshot, Moved
from ..._core.trust import Trust, patience_of
from ..._options.logs import client_log
from ..._wire.messages.fetch import FetchRequest, FetchResponse
from ..client import Client
from ..connection.connection import Connection
from ..connection.settings import Lane
from ..loop import Signal
from .position_keeper import PositionKeeper

FetchDone = Callable[[PlannedFetch, FetchResponse | None, errors.KafkaError | None], None]
"""Callback of a fetch. Called exactly once if the fetch was sent and not withdrawn."""


class Channel(Protocol):
    """An open channel on which a consumer sends fetches to one broker."""

    @property
    def version(self) -> int:
        """The version of Fetch in use.

        Raises `UnsupportedVersionError` if the broker supports none of the client's versions.
        """
        ...

    def can_send(self) -> bool:
        """Return True if a fetch can be sent now. Otherwise, the fetcher is woken when that changes."""
        ...

    def send(self, planned: PlannedFetch, done: FetchDone) -> None:
        """Send a fetch. ``done`` is called later with the response or the error.

        Raises `KafkaError` if it was not sent.
        """


class FetchChannels(Protocol):
    """A consumer's channels to all brokers, on its own connections or merged with other consumers' fetches."""

    @property
    def held_for_s(self) -> float:
        """Maximum number of seconds for which a fetch without records stays in flight."""
        ...

    def start(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when a broker becomes reachable, is lost, or accepts a fetch again."""

    def end(self) -> None:
        """Stop waking the fetcher, and report no more responses."""

    def channel(self, node_id: int, *, beside: bool, hide_rack: bool) -> Channel | None:
        """Return the channel to a broker, or None if it is not connected.

        If ``beside`` is True, the channel is for a fetch beside the broker's session (see `fetch_plan`). If
        ``hide_rack`` is True, the fetch does not contain the client's rack.
        """

    def recall(self, node_id: int) -> bool:
        """Withdraw the session's pending fetch. Return False if that is impossible."""
        ...

    def read_committed_only(self) -> None:
        """Use ``read_committed`` for all later fetches."""

    async def close(self, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float) -> None:
        """Close these fetch sessions at their brokers."""


class OwnChannels:
    """Opens channels on the consumer's own connections: one to each broker for its session, and one beside it."""

    def __init__(self, client: Client, options: FetchOptions) -> None:
        self._client = client
        self._options = options
        self._wake: Callable[[], None] = _nothing

    @property
    def held_for_s(self) -> float:
        return self._options.fetch_max_wait_ms / 1000

    def start(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._client.brokers.add_listener(self._on_node)

    def end(self) -> None:
        self._client.brokers.remove_listener(self._on_node)

    def channel(self, node_id: int, *, beside: bool, hide_rack: bool) -> Channel | None:
        connection = self._client.brokers.ready(node_id, Lane.BESIDE if beside else Lane.DATA)
        if connection is None:
            return None
        return _OwnChannel(connection, self._options.without_rack() if hide_rack else self._options)

    def recall(self, node_id: int) -> bool:
        return False

    def read_committed_only(self) -> None:
        self._options = self._options._replace(read_committed=True)

    async def close(self, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float) -> None:
        await close_sessions(self._client, self._options, sessions, timeout_s)

    def _on_node(self, node_id: int) -> None:
        self._wake()


class _OwnChannel:
    __slots__ = ("_connection", "_options", "can_send")

    def __init__(self, connection: Connection, options: FetchOptions) -> None:
        self._connection = connection
        self._options = options
        self.can_send = connection.can_send

    @property
    def version(self) -> int:
        return self._connection.versions.version_for(FetchRequest)

    def send(self, planned: PlannedFetch, done: FetchDone) -> None:
        options = self._options
        if planned.request.sessionless:
            options = options._replace(fetch_max_wait_ms=wait_beside_ms(options.fetch_max_wait_ms))
        request = fetch_request(planned.request, options, planned.max_bytes, planned.version)
        self._connection.submit(request, partial(done, planned), version=planned.version)


def _nothing() -> None:
    pass


async def close_sessions(
    client: Client, options: FetchOptions, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float
) -> None:
    """Close these sessions at the brokers that are connected.

    Otherwise, brokers would keep the sessions in memory until newer sessions replace them. This does not use the DATA
    connection, on which the broker may be holding the last fetch.
    """
    at_once = options._replace(fetch_max_wait_ms=0)

    async def close(node_id: int, session: SessionRequest) -> None:
        try:
            connection = await client.brokers.get(node_id)
            version = connection.versions.version_for(FetchRequest)
            await connection.request(fetch_request(session, at_once, 1, version), version=version)
        except errors.KafkaError:
            pass  # the broker will evict the session after some time

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as tasks:
            for node_id, session in sessions:
                if client.brokers.state(node_id) is NodeState.READY:
                    tasks.start_soon(close, node_id, session)


class Fetcher:
    """Sends the fetches that the planner returns, and processes the responses.

    It is woken by events that may change the plan.
    """

    def __init__(
        self,
        client: Client,
        reading: Reading,
        planner: FetchPlanner,
        answers: AnswerReader,
        followers: Followers,
        keeper: PositionKeeper,
        channels: FetchChannels,
        wake: Signal,
    ) -> None:
        self._client = client
        self._positions = reading.positions
        self._prefetch = reading.prefetch
        self._planner = planner
        self._answers = answers
        self._followers = followers
        self._keeper = keeper
        self._channels = channels
        self._counters = reading.counters
        self._log = client_log("consumer", client.config.client_id)
        self._backoff = Backoff(client.config.retry_backoff_ms, client.config.retry_backoff_max_ms)
        self._patience_s = patience_of(client.config.retry_backoff_max_ms)
        self._useless: dict[int, Trust] = {}
        """Brokers whose last response contained no usable data."""
        self._demand: Container[Any] | None = ()
        """Partitions for which a reader is waiting. None means all partitions."""
        self._closing = False
        self._wake = wake
        """Set when the plan may have to change."""

    async def run(self) -> None:
        """Send fetches until cancelled."""
        wake = self._wake
        self._channels.start(wake.set)
        self._client.metadata.add_listener(self._on_metadata)
        try:
            wake.set()
            timeout_s: float | None = None
            while True:
                await wake.wait(timeout_s)
                now = time.monotonic()
                self._step(now)
                next_time = min(self._next_times(now), default=None)
                timeout_s = None if next_time is None else max(0.0, next_time - now)
        finally:
            self._channels.end()
            self._client.metadata.remove_listener(self._on_metadata)

    def _next_times(self, now: float) -> Iterator[float]:
        """Yield the times at which the fetcher must act, although no event wakes it."""
        lates = (self._followers.late_at(sent_at) for _, sent_at in self._sent_to_followers())
        for time_ in (self._planner.next_time(now), self._followers.next_time(), *lates):
            if time_ is not None and time_ > now:
                yield time_

    def read_committed_only(self) -> None:
        """Switch to ``read_committed``. The caller drops the records of earlier fetches."""
        self._channels.read_committed_only()
        self._answers.read_committed_only(time.monotonic())
        self._planner.ask_anew()

    def demand(self, wanted: Container[Any] | None) -> None:
        """Set the partitions for which a reader is waiting.

        None means all partitions, and an empty collection means that no reader is waiting.
        """
        self._demand = wanted
        if self._planner.starved:
            self._wake.set()

    def _on_metadata(self, snapshot: ClusterSnapshot, moved: Moved) -> None:
        self._positions.touch_moved(moved)

    # --- sending -----------------------------------------------------------------------------------------------------

    def _step(self, now: float) -> None:
        """Assign partitions to brokers, start look-ups of positions, and send the fetches that can be sent now."""
        if self._closing:
            return
        planner, metadata = self._planner, self._client.metadata
        leaderless = len(planner.leaderless)
        planner.place(metadata.snapshot, now)
        if planner.lookups:
            lookups, planner.lookups = planner.lookups, {}
            self._keeper.look_up(lookups)
            planner.place(metadata.snapshot, now)
        if planner.leaderless:
            if len(planner.leaderless) > leaderless:
                metadata.request_update(LEADERLESS)
            for node_id in metadata.snapshot.brokers:
                self._report_refusal(node_id)
        if planner.starved and self._demand != ():
            planner.make_room(self._demand)
            planner.place(metadata.snapshot, now)
        for node_id, beside in planner.waiting_nodes(now):
            recalled = beside and self._channels.recall(node_id)
            if recalled:
                planner.recall(node_id)
            hide_rack = self._followers.hides_rack(node_id, now)
            channel = self._channels.channel(node_id, beside=beside, hide_rack=hide_rack)
            if channel is None:
                self._unreachable(node_id, now)
                continue
            self._followers.connected(node_id)
            if channel.can_send():
                self._send(channel, node_id, now, beside=beside and not recalled)
        for node_id, sent_at in self._sent_to_followers():
            if now >= self._followers.late_at(sent_at):
                self._leave(node_id, "no response", now)

    def _unreachable(self, node_id: int, now: float) -> None:
        """Handle a broker without a connection: its partitions may have other leaders by now."""
        error = self._client.brokers.last_error(node_id)
        followed = self._followed(node_id)
        if followed and self._followers.connecting(node_id, now, failed=error is not None):
            self._leave(node_id, "no connection" if error is None else str(error), now)
        if error is not None and len(followed) < len(self._planner.members(node_id)):
            self._report_refusal(node_id)
            self._client.metadata.request_update(lost(node_id))

    def _followed(self, node_id: int) -> list[PartitionState]:
        """Return the partitions that are read from this broker although it is a follower."""
        return [state for state in self._planner.members(node_id) if state.preferred_replica == node_id]

    def _sent_to_followers(self) -> Iterator[tuple[int, float]]:
        """Yield each follower with a pending fetch, and the time at which the fetch was sent."""
        for node_id in self._followers.named:
            sent_at = self._planner.sent_at(node_id)
            if sent_at is not None:
                yield node_id, sent_at

    def _leave(self, node_id: int, why: str, now: float) -> None:
        """Move the partitions that are read from this follower back to their leaders."""
        followed = self._followed(node_id)
        if followed:
            self._followers.leave(node_id, now)
            self._log.warning(
                "reading %d partitions from their leaders instead of broker %d: %s", len(followed), node_id, why
            )
            for state in followed:
                state.read_from_leader()

    def _report_refusal(self, node_id: int) -> None:
        """Report a broker's connection error to the application if a retry cannot help."""
        error = self._client.brokers.last_error(node_id)
        if error is not None and not error.retriable:
            self._prefetch.report((type(error), node_id), error)

    def _send(self, channel: Channel, node_id: int, now: float, *, beside: bool) -> None:
        planned: PlannedFetch | None = None
        try:
            snapshot = self._client.metadata.snapshot
            planned = self._planner.plan(node_id, channel.version, snapshot, now, beside=beside)
            if planned is None:
                return
            channel.send(planned, self._done)
        except errors.KafkaError as error:
            if planned is not None:
                self._planner.failed(planned)
            self._refused(node_id, error)
        else:
            self._counters.fetches += 1
            self._counters.fetches_beside_session += beside

    # --- processing responses ----------------------------------------------------------------------------------------

    def _done(self, planned: PlannedFetch, response: FetchResponse | None, error: errors.KafkaError | None) -> None:
        """Handle the response to a fetch, or its error. The connection calls this."""
        if response is not None and response.error_code and response.error_code not in SESSION_ERRORS:
            error = errors.error_for_code(response.error_code)()
            response = None
        if response is None:
            self._failed(planned, error)
        else:
            self._answered(planned, response)
        # Defer the next step, so that it handles all responses that arrive together.
        self._wake.set()

    def _failed(self, planned: PlannedFetch, error: errors.KafkaError | None) -> None:
        self._counters.failed_fetches += 1
        now = time.monotonic()
        for state in self._planner.failed(planned):
            if state.preferred_replica == planned.node_id:
                self._followers.refused(planned.node_id, state.tp, now)
            state.read_from_leader()
            state.move_clock.refused(planned.node_id, now)
        if error is None or error.refreshes_metadata:
            self._client.metadata.request_update(lost(planned.node_id))
        if isinstance(error, errors.FrameTooLargeError):
            self._too_large(planned, error)
        elif error is not None and not isinstance(error, errors.KafkaConnectionError):
            self._refused(planned.node_id, error)

    def _too_large(self, planned: PlannedFetch, error: errors.FrameTooLargeError) -> None:
        state = self._planner.too_large(planned)
        if state is not None:
            asked, snapshot = planned.asked[state.tp], self._client.metadata.snapshot
            self._answers.too_large(state, asked, snapshot, error.message)

    def _answered(self, planned: PlannedFetch, response: FetchResponse) -> None:
        """Process a response: the session's part, the partitions, and the signs that leaders have moved."""
        now = time.monotonic()
        counters, metadata = self._counters, self._client.metadata
        counters.answers += 1
        counters.answered_at = now
        counters.fetched(planned.node_id, now - planned.sent_at)
        session = self._planner.answered(planned)
        if session is not None:
            resets = session.resets
            readable = session.answered(response.error_code, response.session_id)
            counters.session_resets += session.resets - resets
        else:
            readable = not response.error_code
        if not readable:
            if response.error_code == errors.FetchSessionTopicIdError.code:
                metadata.request_update(refused(planned.node_id))
            self._no_use(planned.node_id, now)
            return
        outcome = self._answers.read(planned, response, metadata.snapshot, now)
        if outcome.missing:
            if session is not None:
                session.failed()
            self._no_use(planned.node_id, now)
        else:
            self._useless.pop(planned.node_id, None)
        if outcome.hints:
            metadata.offer_hints(outcome.hints)
        if outcome.refresh:
            metadata.request_update(refused(planned.node_id))
        if outcome.doubt:
            metadata.request_update(doubted(planned.node_id))

    def _refused(self, node_id: int, error: errors.KafkaError) -> None:
        """Handle an error of the broker: back off and, if a retry cannot help, report the error.

        UNKNOWN_SERVER_ERROR is not reported, because another broker may be the leader by now.
        """
        if not error.retriable and not isinstance(error, errors.UnknownServerError):
            self._prefetch.report((type(error), node_id), error)
        self._no_use(node_id, time.monotonic(), wait=True)

    def _no_use(self, node_id: int, now: float, *, wait: bool = False) -> None:
        """Handle a response without usable data.

        After the first one, retry at once unless ``wait`` is True. After later ones, back off.
        """
        trust = self._useless.setdefault(node_id, Trust())
        if trust.refused(now, now, self._patience_s):
            self._client.metadata.request_update(doubted(node_id))
        self._planner.wait(node_id, now + self._backoff.delay_s(max(int(wait), trust.refusals - 1)))

    # --- stop --------------------------------------------------------------------------------------------------------

    async def close_sessions(self, timeout_s: float) -> None:
        """Close the sessions at connected brokers, and send no more fetches."""
        self._closing = True
        await self._channels.close(list(self._planner.closing()), timeout_s)
