"""`AIOKafkaClient`, a low-level client that also exposes the connections and metadata of other clients.

The base classes of all clients, for starting and stopping, are here too.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, ClassVar, Self

from .._core.chance import choice
from .._core.metadata.answer import topic_metadata
from .._io.client import Client
from .._io.deadline import Deadline
from ..config import ClientConfig
from ..errors import KafkaConnectionError, KafkaError
from ._options import CLIENT, client_options
from .cluster import ClusterMetadata
from .protocol.api import Request, Response
from .protocol.metadata import MetadataRequest
from .util import deprecated, get_running_loop

__all__ = ["AIOKafkaClient", "Life", "Startable", "client_of"]

_NOT_KEPT = {"self", "topics", "sasl_plain_password"}
"""Arguments that are not stored, because they are not options, or are secret."""


class Startable:
    """Base class that starts a native client.

    As in aiokafka, a client can be started again after a failed start, even if it has been stopped since. Clients that
    do not set ``_begun`` can be started again after every stop.
    """

    _native: Any
    _starting: asyncio.Lock
    _begun = False
    """True once `start` has succeeded. Set only by clients that cannot be started again after a stop."""
    _closed: bool | None = None
    """True after `stop`, and None before the options are checked. Read by FastStream."""

    def _renew(self) -> None:
        """Replace the native client with a new one."""
        raise NotImplementedError

    def _connections(self) -> Client:
        """Return the native client's connections."""
        return self._native._client  # type: ignore[no-any-return]

    async def _start_native(self) -> None:
        """Start the native client, unless it is running. Concurrent calls wait for the same start.

        If the start fails, replace the client, because in aiokafka it can be started again.
        """
        async with self._starting:
            if self._closed and not self._begun:
                self._renew()
                self._closed = False
            if self._begun or self._connections().running:
                self._connections().check()
                return
            try:
                await self._native.start()
            except BaseException:
                self._renew()
                raise


class Life(Startable):
    """Base class with ``async with``, and with a warning for a client that was not stopped.

    Belongs to one asyncio event loop.
    """

    _kind: ClassVar[str]
    """Key of the client in the context that the event loop's exception handler receives."""
    _source_traceback: Any = None
    _loop: asyncio.AbstractEventLoop
    _options_given: Mapping[str, Any] = {}
    """Options as given, which libraries read as attributes, such as ``_fetch_max_wait_ms``."""

    def _belongs_to(self, loop: asyncio.AbstractEventLoop, given: Mapping[str, Any]) -> None:
        """Store the event loop and the arguments. Called from ``__init__``."""
        self._loop = loop
        self._starting = asyncio.Lock()
        self._options_given = {name: value for name, value in given.items() if name not in _NOT_KEPT}
        if loop.get_debug():
            self._source_traceback = traceback.extract_stack(sys._getframe(2))

    def _check_loop(self) -> None:
        assert self._loop is get_running_loop(), "Please create objects with the same loop as running with"

    def __getattr__(self, name: str) -> Any:
        option = name.removeprefix("_")
        if name != option and option in self._options_given:
            return self._options_given[option]
        text = f"{type(self).__name__!r} object has no attribute {name!r}"
        if name.startswith("_") and not name.startswith("__"):
            text += " in aiokafka_lead.compat; its guide (From aiokafka) lists replacements"
        raise AttributeError(text, name=name, obj=self)

    def __del__(self, _warnings: Any = warnings) -> None:
        if self._closed is False:
            name = f"Unclosed AIOKafka{self._kind.capitalize()}"
            _warnings.warn(f"{name} {self!r}", ResourceWarning, source=self)
            context = {self._kind: self, "message": name}
            if self._source_traceback is not None:
                context["source_traceback"] = self._source_traceback
            self._loop.call_exception_handler(context)

    async def start(self) -> None:
        """Connect to the cluster. Raises `KafkaConnectionError`."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Close all connections."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class AIOKafkaClient(Startable):
    """Low-level client with the methods of aiokafka."""

    _native: Client
    _bootstrap_servers: str | list[str]
    """Bootstrap servers as given, which tracers read."""
    _client_id: str
    """Client id sent to brokers, which tracers read."""
    _ssl_context: Any
    """TLS context as given, which tests of kstreams read."""

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop | None = None,
        bootstrap_servers: str | list[str] = "localhost",
        api_version: object = None,
        **options: Any,
    ) -> None:
        """Check the options, without connecting. Raises ValueError or TypeError for an invalid option."""
        deprecated(loop, api_version)
        unknown = sorted(options.keys() - CLIENT.keys())
        if unknown:
            raise TypeError(f"AIOKafkaClient() got an unexpected keyword argument {unknown[0]!r}")
        native = client_options(CLIENT | {"client_id": "aiokafka-0.14.0"} | options)
        self._starting = asyncio.Lock()
        self._ssl_context = options.get("ssl_context")
        self._adopt(Client(ClientConfig.from_options(bootstrap_servers, native)), bootstrap_servers)

    def _adopt(self, native: Client, bootstrap_servers: str | list[str]) -> None:
        self._native = native
        self._bootstrap_servers = bootstrap_servers
        self._client_id = native.config.client_id
        self._topics: frozenset[str] = frozenset()
        """Topics passed to `set_topics` and `add_topic`."""
        self.cluster = ClusterMetadata(native)

    def __repr__(self) -> str:
        return f"<AIOKafkaClient client_id={self._client_id}>"

    async def bootstrap(self) -> None:
        """Connect and fetch metadata. May be called again, even after `close`.

        Raises `KafkaConnectionError` if no bootstrap server can be used.
        """
        await self._start_native()

    def _connections(self) -> Client:
        return self._native

    def _renew(self) -> None:
        self._adopt(Client(self._native.config), self._bootstrap_servers)

    async def close(self) -> None:
        """Close every connection."""
        self._closed = True
        await self._native.stop()

    @property
    def hosts(self) -> list[tuple[str, int]]:
        """Bootstrap servers, as pairs of a host and a port."""
        return list(self._native.config.bootstrap_servers)

    def get_random_node(self) -> int | None:
        """Return the id of a random broker, or None if no broker is known yet."""
        known = [node_id for node_id in self._native.metadata.snapshot.brokers if node_id >= 0]
        return choice(known) if known else None

    async def ready(self, node_id: int, *, group: object = None) -> bool:
        """Return True if a connection to the broker is open or can be opened."""
        try:
            await self._native.brokers.get(node_id)
        except KafkaConnectionError:
            return False
        return True

    async def send(self, node_id: int, request: Request, *, group: object = None) -> Response:
        """Send a request of `aiokafka.protocol` to a broker, and return the response."""
        return request.response(await self._native.request(node_id, request.native()))

    def set_topics(self, topics: Iterable[str]) -> asyncio.Future[bool]:
        """Keep metadata of these topics only, and refresh it. The future is as in `force_metadata_update`."""
        before, self._topics = self._topics, frozenset(topics)
        self._native.metadata.add_topics(self._topics - before)
        self._native.metadata.remove_topics(before - self._topics)
        return self.force_metadata_update()

    def add_topic(self, topic: str) -> asyncio.Future[bool]:
        """Also keep metadata of this topic, and refresh it. The future is as in `force_metadata_update`."""
        return self.set_topics(self._topics | {topic})

    def force_metadata_update(self) -> asyncio.Future[bool]:
        """Refresh the metadata of this client's topics, or of all topics if it has none, as in aiokafka.

        The future's result is True, or False if newer metadata did not arrive within ``request_timeout_ms``.
        """
        return asyncio.ensure_future(self._newer())

    async def _newer(self) -> bool:
        metadata = self._native.metadata
        every = not metadata.has_topics
        metadata.set_all_topics(every, self)
        metadata.request_update()
        deadline = Deadline(self._native.config.request_timeout_ms)
        try:
            snapshot = await metadata.wait_newer(metadata.snapshot.generation, deadline.request_ms())
            while every and not metadata.knows_every_topic:  # this metadata answers an earlier request for some topics
                snapshot = await metadata.wait_newer(snapshot.generation, deadline.request_ms())
        except KafkaError:
            return False
        return True

    async def fetch_all_metadata(self) -> ClusterMetadata:
        """Fetch the metadata of all topics once, without keeping it up to date."""
        self._native.check()
        answer = await self._native.request_any(MetadataRequest().native())
        topics = [topic_metadata(topic, version=0) for topic in answer.topics if topic.name]
        return ClusterMetadata(self._native, {topic.name: topic for topic in topics})

    async def _wait_on_metadata(self, topic: str) -> set[int]:
        """Wait for a topic's metadata, and return its partitions. Called by tracers.

        Raises `UnknownTopicOrPartitionError`.
        """
        found = await self._native.metadata.topic(topic, self._native.config.request_timeout_ms)
        return set(range(len(found.partitions)))


def client_of(native: Client, bootstrap_servers: str | list[str], ssl_context: Any) -> AIOKafkaClient:
    """Return an `AIOKafkaClient` for the connections of a producer, a consumer or an admin client."""
    client = AIOKafkaClient.__new__(AIOKafkaClient)
    client._starting = asyncio.Lock()
    client._ssl_context = ssl_context
    client._adopt(native, bootstrap_servers)
    return client
