"""Proxies for shared connections and metadata, which track the listeners, topics and calls of one client.

When that client stops, its listeners, topics and calls end. The connections, the metadata and the other clients
continue.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, ParamSpec, TypeVar, cast

import anyio

from .._core.metadata.types import ClusterSnapshot, MetadataListener, TopicMetadata
from .._wire import Request, Response
from ..errors import KafkaError
from ..errors.base import own_copy
from .connection.brokers import Brokers
from .connection.connection import Connection
from .connection.settings import AnyLane, Lane
from .metadata.actor import MetadataActor

P = ParamSpec("P")
R = TypeVar("R", bound=Response)
T = TypeVar("T")


class OwnCalls:
    """Ends one client's calls of a shared object when this client stops, although the object lives on."""

    def __init__(self) -> None:
        self._closed_by: KafkaError | None = None
        self._scopes: set[anyio.CancelScope] = set()

    async def wait(self, fn: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a call. Raises the call's error, or the error passed to `close`."""
        if self._closed_by is None:
            with anyio.CancelScope() as scope:
                self._scopes.add(scope)
                try:
                    return await fn(*args, **kwargs)
                finally:
                    self._scopes.discard(scope)
        assert self._closed_by is not None
        raise own_copy(self._closed_by)

    def refuse(self, error: KafkaError) -> None:
        """Raise this error from all later calls."""
        if self._closed_by is None:
            self._closed_by = error

    def close(self, error: KafkaError) -> None:
        """Raise this error from all waiting calls, and from all later calls."""
        self.refuse(error)
        for scope in self._scopes:
            scope.cancel()


class _SharedConnection:
    """A connection from the shared pool, on which the calls of one client end with that client."""

    def __init__(self, connection: Connection, calls: OwnCalls) -> None:
        self._connection = connection
        self._calls = calls

    async def request(self, request: Request[R], **options: Any) -> R:
        return cast(R, await self._calls.wait(self._connection.answer, request, **options))

    async def answer(self, request: Request[Any], **options: Any) -> Any:
        return await self._calls.wait(self._connection.answer, request, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _SharedConnection) and self._connection is other._connection

    def __hash__(self) -> int:
        return hash(self._connection)


class SharedBrokers:
    """Replaces `Brokers` in one of several clients. All other attributes come from `Brokers`."""

    def __init__(self, brokers: Brokers, calls: OwnCalls) -> None:
        self._brokers = brokers
        self._calls = calls
        self._listeners: list[Callable[[int], None]] = []
        self.ready = brokers.ready

    async def get(self, node_id: int, lane: AnyLane = Lane.CONTROL, timeout_ms: float | None = None) -> Connection:
        """See `Brokers.get`."""
        connection = await self._calls.wait(self._brokers.get, node_id, lane, timeout_ms)
        return cast(Connection, _SharedConnection(connection, self._calls))

    def add_listener(self, listener: Callable[[int], None]) -> None:
        """See `Brokers.add_listener`."""
        self._listeners.append(listener)
        self._brokers.add_listener(listener)

    def remove_listener(self, listener: Callable[[int], None]) -> None:
        """Undo `add_listener`. After `stop`, this does nothing."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._brokers.remove_listener(listener)

    def stop(self, error: KafkaError) -> None:
        """End the client's calls with this error, and remove its listeners. The shared connections stay open."""
        self.refuse(error)
        self._calls.close(error)
        while self._listeners:
            self.remove_listener(self._listeners[-1])

    def refuse(self, error: KafkaError) -> None:
        """Make `get` raise this error from now on. The client's current calls continue."""
        self._calls.refuse(error)
        self.ready = _no_connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._brokers, name)


def _no_connection(node_id: int, lane: AnyLane = Lane.DATA) -> None:
    return None


class SharedMetadata:
    """Replaces `MetadataActor` in one of several clients. All other attributes come from `MetadataActor`.

    After `open`, the metadata includes the topics of this client as well as the topics of the other clients.
    """

    def __init__(self, actor: MetadataActor, calls: OwnCalls) -> None:
        self._actor = actor
        self._calls = calls
        self._listeners: list[MetadataListener] = []
        self._topics: Counter[str] = Counter()
        self._everything = False
        self._open = False

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The latest snapshot."""
        return self._actor.snapshot

    def open(self) -> None:
        """Begin to keep the metadata of the topics that this client has added."""
        self._open = True
        self._actor.add_topics(self._topics.elements())
        self._actor.set_all_topics(self._everything, self)

    def close(self, error: KafkaError) -> None:
        """End the client's calls with this error, and remove its listeners and topics. The other clients are not
        affected.
        """
        self._calls.close(error)
        while self._listeners:
            self.remove_listener(self._listeners[-1])
        if self._open:
            self._open = False
            self._actor.remove_topics(self._topics.elements())
            self._actor.set_all_topics(False, self)

    def add_topics(self, topics: Iterable[str]) -> None:
        """See `MetadataActor.add_topics`."""
        names = list(topics)
        self._topics.update(names)
        if self._open:
            self._actor.add_topics(names)

    def remove_topics(self, topics: Iterable[str]) -> None:
        """Undo `add_topics`."""
        names = list(topics)
        self._topics.subtract(names)
        if self._open:
            self._actor.remove_topics(names)

    def set_all_topics(self, wanted: bool) -> None:
        """See `MetadataActor.set_all_topics`."""
        self._everything = wanted
        if self._open:
            self._actor.set_all_topics(wanted, self)

    def add_listener(self, listener: MetadataListener) -> None:
        """See `MetadataActor.add_listener`."""
        self._listeners.append(listener)
        self._actor.add_listener(listener)

    def remove_listener(self, listener: MetadataListener) -> None:
        """Undo `add_listener`. After `close`, this does nothing."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._actor.remove_listener(listener)

    async def topic(self, name: str, timeout_ms: float) -> TopicMetadata:
        """See `MetadataActor.topic`."""
        return await self._calls.wait(self._actor.topic, name, timeout_ms)

    async def wait_newer(self, generation: int, timeout_ms: float) -> ClusterSnapshot:
        """See `MetadataActor.wait_newer`."""
        return await self._calls.wait(self._actor.wait_newer, generation, timeout_ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._actor, name)
