"""Channels through which a consumer fetches from brokers.

They use either the consumer's own connections, or fetches that are merged with other consumers' fetches.
"""

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
"""Callback of a fetch. Called exactly once if the fetch was sent and not withdrawn."""


class Channel(Protocol):
    """An open channel to a broker."""

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
        """Send a fetch. Raises `KafkaError` if it was not sent."""


class FetchChannels(Protocol):
    """A consumer's channels to all brokers."""

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
    """Channels on the consumer's own connections. Each broker has a connection for the session, and one beside it."""

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
        except KafkaError:
            pass  # the broker will evict the session after some time

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as tasks:
            for node_id, session in sessions:
                if client.brokers.state(node_id) is NodeState.READY:
                    tasks.start_soon(close, node_id, session)
