"""Merged fetches of all consumers of a shared client, as planned by `MergedFetches`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial

import anyio.lowlevel

from ..._core.backoff import Backoff
from ..._core.consumer.fetch_plan import PlannedFetch
from ..._core.consumer.fetch_session import SESSION_ERRORS, FetchOptions, SessionRequest, fetch_request
from ..._core.consumer.merged_ask import Answered, MergedRequest, take_hints
from ..._core.consumer.merged_fetch import MergedFetches
from ..._core.metadata.reachability import NodeState
from ..._core.metadata.refresh import doubted, refused
from ..._wire.messages.fetch import FetchRequest, FetchResponse
from ...errors import FetchSessionTopicIdError, KafkaConnectionError, KafkaError, error_for_code
from ...errors.base import own_copy
from ..client import Client
from ..connection.brokers import FRAME_OVERHEAD_BYTES
from ..connection.connection import Connection
from ..connection.settings import FetchLane, Lane
from ..loop import Signal
from .fetcher import Channel, FetchDone, close_sessions

HOLD_S = 5.0
"""Seconds for which a consumer's fetch stays open without data, so that not every empty response wakes the consumer."""


class MergedChannels:
    """The `FetchChannels` of a consumer on shared connections. Its fetches are merged with other consumers' fetches."""

    def __init__(self, client: Client, options: FetchOptions) -> None:
        assert client.parent is not None
        self._merger = _Merger.of(client.parent)
        self._options = options
        self.wake: Callable[[], None] = _nothing
        self._done: FetchDone | None = None
        self._hidden_from: set[int] = set()
        """Brokers to which the rack is not sent."""

    @property
    def held_for_s(self) -> float:
        return self._merger.hold_s + self._options.fetch_max_wait_ms / 1000

    def start(self, wake: Callable[[], None]) -> None:
        self.wake = wake
        self._merger.start()

    def end(self) -> None:
        self.wake, self._done = _nothing, None
        self._merger.leave(self)

    def channel(self, node_id: int, *, beside: bool, hide_rack: bool) -> Channel | None:
        if hide_rack != (node_id in self._hidden_from):
            # Other options mean another lane, so withdraw the fetches on the old one.
            self._hidden_from ^= {node_id}
            self._merger.leave(self, node_id)
        connection = self._merger.ready(node_id, self._options_at(node_id), self)
        return None if connection is None else _MergedChannel(self, connection)

    def _options_at(self, node_id: int) -> FetchOptions:
        return self._options.without_rack() if node_id in self._hidden_from else self._options

    def recall(self, node_id: int) -> bool:
        self._merger.recall(self, node_id)
        return True

    def read_committed_only(self) -> None:
        self._merger.leave(self)
        self._options = self._options._replace(read_committed=True)

    async def close(self, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float) -> None:
        self._done = None
        await self._merger.close_idle(self, timeout_s)

    def ask(self, node_id: int, planned: PlannedFetch, done: FetchDone) -> None:
        """Add a consumer's fetch to the merged fetches of this broker. ``done`` is called with its part of the
        response.
        """
        self._done = done
        self._merger.ask(self, self._options_at(node_id), node_id, planned)

    def answered(self, answered: Answered) -> None:
        """Pass this consumer's part of a response, or the error, to the function that was given to `ask`."""
        if self._done is not None:
            error = answered.error
            self._done(answered.planned, answered.response, None if error is None else own_copy(error))


class _MergedChannel:
    __slots__ = ("_channels", "_connection")

    def __init__(self, channels: MergedChannels, connection: Connection) -> None:
        self._channels = channels
        self._connection = connection

    @property
    def version(self) -> int:
        return self._connection.versions.version_for(FetchRequest)

    def can_send(self) -> bool:
        return True

    def send(self, planned: PlannedFetch, done: FetchDone) -> None:
        self._channels.ask(self._connection.node_id, planned, done)


class _Merger:
    """Sends the merged fetches of all consumers that share a client. Each set of fetch options has its own lane."""

    def __init__(self, parent: Client) -> None:
        self._parent = parent
        config = parent.config
        self.hold_s = min(HOLD_S, config.request_timeout_ms / 4000)
        self._max_bytes = config.receive_max_bytes - FRAME_OVERHEAD_BYTES
        self._backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._lanes: dict[FetchOptions, FetchLane] = {}
        self._fetches: dict[tuple[FetchOptions, int], MergedFetches] = {}
        self._wake = Signal()
        self._waiting: dict[int, set[MergedChannels]] = {}
        """For each broker, the channels that are waiting for a connection to it."""
        self._running = False

    @classmethod
    def of(cls, parent: Client) -> _Merger:
        """Return the client's merger. The first call creates it."""
        merger: _Merger | None = parent.commons.get(cls)
        if merger is None:
            merger = parent.commons[cls] = cls(parent)
        return merger

    def start(self) -> None:
        """Start the task that sends the fetches, unless it is running."""
        if not self._running:
            self._running = True
            self._parent.brokers.add_listener(self._on_node)
            self._parent.spawn(self._run, name="kafka merged fetches")

    # --- requests of the consumers ------------------------------------------------------------------------------------

    def ready(self, node_id: int, options: FetchOptions, channels: MergedChannels) -> Connection | None:
        """Return a ready connection for these fetches, or None. After None, the consumer is woken once there is one."""
        connection = self._parent.brokers.ready(node_id, self._lane(options))
        if connection is None:
            self._waiting.setdefault(node_id, set()).add(channels)
        return connection

    def ask(self, channels: MergedChannels, options: FetchOptions, node_id: int, planned: PlannedFetch) -> None:
        """Add a consumer's fetch to those that are merged for this broker and these options."""
        fetches = self._fetches.get((options, node_id))
        if fetches is None:
            max_wait_s = options.fetch_max_wait_ms / 1000
            fetches = MergedFetches(self.hold_s, max_wait_s, self._max_bytes, self._backoff)
            self._fetches[options, node_id] = fetches
        answered = fetches.ask(channels, planned, time.monotonic())
        self._wake.set()
        if answered is not None:
            self._tell((answered,))

    def recall(self, channels: MergedChannels, node_id: int) -> None:
        """End the consumer's fetch at this broker without a response. The consumer is about to send another one."""
        for (_, node), fetches in self._fetches.items():
            if node == node_id:
                fetches.recall(channels, time.monotonic())

    def leave(self, channels: MergedChannels, node_id: int | None = None) -> None:
        """Withdraw the consumer's fetches from this broker, or from all brokers if it is None."""
        for (_, node), fetches in self._fetches.items():
            if node_id in (None, node):
                fetches.leave(channels)
        for node, waiting in self._waiting.items():
            if node_id in (None, node):
                waiting.discard(channels)

    async def close_idle(self, channels: MergedChannels, timeout_s: float) -> None:
        """Withdraw the consumer's fetches, and close the sessions that no other consumer is using."""
        self.leave(channels)
        for options in list(self._lanes):
            mine = [(node_id, fetches) for (kind, node_id), fetches in self._fetches.items() if kind == options]
            sessions = [(node_id, request) for node_id, f in mine if f.idle and (request := f.close()) is not None]
            await close_sessions(self._parent, options, sessions, timeout_s)

    def _lane(self, options: FetchOptions) -> FetchLane:
        lane = self._lanes.get(options)
        if lane is None:
            lane = self._lanes[options] = FetchLane(len(self._lanes))
        return lane

    def _on_node(self, node_id: int) -> None:
        self._wake.set()
        for channels in self._waiting.pop(node_id, ()):
            channels.wake()

    # --- sending -----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        timeout_s: float | None = None
        while True:
            await self._wake.wait(timeout_s)
            # Consumers that have just been answered ask again in this iteration of the event loop. Wait for them, so
            # that one request covers all of their asks.
            await anyio.lowlevel.checkpoint()
            now = time.monotonic()
            next_time: float | None = None
            for (options, node_id), fetches in list(self._fetches.items()):
                self._serve(options, node_id, fetches, now)
                at = fetches.next_time(now)
                if at is not None and (next_time is None or at < next_time):
                    next_time = at
            timeout_s = None if next_time is None else max(0.001, next_time - now)

    def _serve(self, options: FetchOptions, node_id: int, fetches: MergedFetches, now: float) -> None:
        brokers = self._parent.brokers
        if fetches.main_due(now):
            connection = brokers.ready(node_id, self._lane(options))
            if connection is not None and connection.can_send():
                self._send(options, connection, fetches, fetches.main, now)
            elif connection is None and brokers.state(node_id) is NodeState.BACKOFF:
                error = brokers.last_error(node_id) or KafkaConnectionError(f"broker {node_id} cannot be reached")
                self._tell(fetches.give_up(error, now))
        if fetches.probe_due(now):
            connection = brokers.ready(node_id, Lane.DATA)
            if connection is not None and connection.can_send():
                self._send(options, connection, fetches, fetches.probe, now)

    def _send(
        self,
        options: FetchOptions,
        connection: Connection,
        fetches: MergedFetches,
        plan: Callable[[int, float], MergedRequest | None],
        now: float,
    ) -> None:
        """Send the merged fetch that ``plan`` returns, if any. Report errors of sending to the consumers."""
        sent: MergedRequest | None = None
        try:
            sent = plan(connection.versions.version_for(FetchRequest), now)
            if sent is None:
                return
            if sent.request.sessionless:
                options = options._replace(fetch_max_wait_ms=0)
            request = fetch_request(sent.request, options, sent.max_bytes, sent.version)
            done = partial(self._done, connection.node_id, fetches, sent)
            connection.submit(request, done, version=sent.version)
        except KafkaError as error:
            self._tell(fetches.give_up(error, now) if sent is None else fetches.failed(sent, error, now))

    def _done(
        self,
        node_id: int,
        fetches: MergedFetches,
        sent: MergedRequest,
        response: FetchResponse | None,
        error: KafkaError | None,
    ) -> None:
        """Pass the response or the error of a merged fetch to the consumers. The connection calls this."""
        now = time.monotonic()
        if response is None:
            self._tell(fetches.failed(sent, error or KafkaConnectionError("no answer"), now))
        elif response.error_code and response.error_code not in SESSION_ERRORS:
            self._tell(fetches.refused(sent, error_for_code(response.error_code)(), now))
        else:
            if response.error_code == FetchSessionTopicIdError.code:
                self._parent.metadata.request_update(refused(node_id))
            hints = take_hints(sent, response)
            if hints:
                self._parent.metadata.offer_hints(hints)
            self._tell(fetches.answered(sent, response, now))
        if response is not None and fetches.in_doubt(now):
            self._parent.metadata.request_update(doubted(node_id))
        self._wake.set()

    def _tell(self, answered: Iterable[Answered]) -> None:
        for one in answered:
            one.owner.answered(one)


def _nothing() -> None:
    pass
