"""How a consumer's fetches reach a broker: on connections of its own, or merged with those of other consumers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import anyio

from ..._core.consumer.fetch_plan import PlannedFetch
from ..._core.consumer.fetch_request import FetchOptions, fetch_request, wait_beside_ms
from ..._core.consumer.fetch_session import SessionRequest
from ..._wire.messages.fetch import FetchRequest, FetchResponse
from ...errors import KafkaError
from ..client import Client
from ..connection.brokers import NodeState
from ..connection.connection import Connection, Lane

FetchDone = Callable[[PlannedFetch, FetchResponse | None, KafkaError | None], None]
"""Called once for each fetch that was sent and not recalled."""


class Channel(Protocol):
    """A way to one broker that is open now."""

    @property
    def version(self) -> int:
        """The version of Fetch that is spoken there; raises `UnsupportedVersionError` if it is none."""
        ...

    def can_send(self) -> bool:
        """Whether a fetch would go out now; where not, the fetcher is woken when that changes."""
        ...

    def send(self, planned: PlannedFetch, done: FetchDone) -> None:
        """Send a fetch. Raises `KafkaError`; then nothing was sent."""


class FetchChannels(Protocol):
    """Those of one consumer."""

    @property
    def held_for_s(self) -> float:
        """How long a fetch may be under way because there are no records."""
        ...

    def start(self, wake: Callable[[], None]) -> None:
        """Wake the fetcher by this when a broker can be reached, is lost, or has room."""

    def end(self) -> None:
        """Wake it no more, and answer nothing."""

    def channel(self, node_id: int, *, beside: bool, hide_rack: bool) -> Channel | None:
        """Return the way to a broker, for a fetch of its session or beside it, or None if there is none now.

        ``hide_rack``: fetch as if the client were in no rack.
        """

    def recall(self, node_id: int) -> bool:
        """Take back the fetch of the session that is under way, at no cost; False where that cannot be."""
        ...

    def read_committed_only(self) -> None:
        """Fetch so from now on."""

    async def close(self, sessions: Iterable[tuple[int, SessionRequest]], timeout_s: float) -> None:
        """Tell the brokers that these sessions are over."""


class OwnChannels:
    """On connections that nobody else fetches on: one for the session, one beside it."""

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
    """Tell the brokers that are connected that these sessions are over.

    Else a broker would keep a session's memory until others push it out. The connection that fetches may be held for
    long by the last fetch, so this takes another.
    """
    at_once = options._replace(fetch_max_wait_ms=0)

    async def close(node_id: int, session: SessionRequest) -> None:
        try:
            connection = await client.brokers.get(node_id)
            version = connection.versions.version_for(FetchRequest)
            await connection.request(fetch_request(session, at_once, 1, version), version=version)
        except KafkaError:
            pass  # the broker forgets the session by itself

    with anyio.move_on_after(timeout_s):
        async with anyio.create_task_group() as tasks:
            for node_id, session in sessions:
                if client.brokers.state(node_id) is NodeState.READY:
                    tasks.start_soon(close, node_id, session)
