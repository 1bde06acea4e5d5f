"""`AIOKafkaClient`, a low-level client that also exposes the connections and metadata of other clients."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from .._core.chance import choice
from .._core.metadata.answer import topic_metadata
from .._io.client import Client
from .._io.deadline import Deadline
from ..config import ClientConfig
from ..errors import KafkaConnectionError, KafkaError
from ._life import Startable
from ._options import CLIENT, client_options
from .cluster import ClusterMetadata
from .protocol.api import Request, Response
from .protocol.metadata import MetadataRequest
from .util import deprecated

__all__ = ["AIOKafkaClient", "client_of"]


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
        """Connect and fetch metadata. May be called again, also after `close`.

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
