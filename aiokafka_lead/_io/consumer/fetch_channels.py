"""Channels for a consumer's fetches: its own connections, or fetches merged with other consumers of the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import anyio

from ..._core.consumer.fetch_plan import PlannedFetch
from ..._core.consumer.fetch_session import FetchOptions, SessionRequest, fetch_request, wait_beside_ms
from ..._core.metadata.reachability import NodeState
from ..._wire.messages.fetch import FetchRequest, FetchResponse
from ...errors import KafkaError
from ..client import Client
from ..connection.connection import Connection
from ..connection.settings import Lane

FetchDone = Callable[[PlannedFetch, FetchResponse | None, KafkaError | None], None]
"""Callback of each fetch that was sent and not recalled; called exactly once."""


class Channel(Protocol):
    """Open channel to one broker."""

    @property
    def version(self) -> int:
        """Version of Fetch in use; raises `UnsupportedVersionError` if there is none in common."""
        ...

    def can_send(self) -> bool:
        """Return True if a fetch can go out now. Otherwise the fetcher is woken when that changes."""
        ...

    def send(self, planned: PlannedFetch, done: FetchDone) -> None:
        """Send a fetch. If it raises `KafkaError`, the fetch was not sent."""


class FetchChannels(Protocol):
    """One consumer's channels to all brokers."""

    @property
    def held_for_s(self) -> float:
        """Longest time that a fetch stays in flight for lack of records, in seconds."""
        ...

    def start(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` when a broker becomes reachable, is lost, or has room for a fetch."""

    def end(self) -> None:
        """Stop: neither wake the fetcher nor report answers from now on."""

    def channel(self, node_id: int, *, beside: bool, hide_rack: bool) -> Channel | None:
        """Return the channel to a broker, for a fetch in its session or ``beside`` it, or None if there is none now.

        With ``hide_rack``, fetch as a client without a rack.
        """

    def recall(self, node_id: int) -> bool:
        """Take back the session's fetch in flight; return False if that is impossible."""
        ...

    def read_committed_only(self) -> None:
        """Fetch with ``read_committed`` from now on."""

    async def close(self, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float) -> None:
        """Close these fetch sessions on their brokers."""


class OwnChannels:
    """Channels on the consumer's own connections: one for the session, one beside it."""

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
    """Close these sessions on the brokers that are connected.

    Otherwise a broker would keep a session in memory until newer ones evict it. The last fetch may be held on the
    connection for data for long, so this uses another connection.
    """
    at_once = options._replace(fetch_max_wait_ms=0)

    async def close(node_id: int, session: SessionRequest) -> None:
        try:
            connection = await client.brokers.get(node_id)
            version = connection.versions.version_for(FetchRequest)
            await connection.request(fetch_request(session, at_once, 1, version), version=version)
        except KafkaError:
            pass  # the broker drops the session by itself in time

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as tasks:
            for node_id, session in sessions:
                if client.brokers.state(node_id) is NodeState.READY:
                    tasks.start_soon(close, node_id, session)
