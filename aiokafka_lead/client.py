"""Connections that the producers, consumers and admin clients of a process share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, overload

from ._io.client import Client as InternalClient
from ._io.client import Facade, configured
from ._io.deadline import Deadline
from ._io.kind import Kind
from ._io.life import Life
from ._options.arguments import TIMEOUT
from ._options.checks import boolean, discreet
from ._options.read_types import K, V
from ._options.sent_types import K as KS
from ._options.sent_types import V as VS
from .config import AdminConfig, ClientConfig, ProducerConfig

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._core.telemetry.measures import Source
    from ._options.serialization import AsyncDeserializer, Deserializer, Serializer
    from .admin import AdminClient
    from .config import AdminOptions, ClientOptions, ConsumerBaseOptions, ProducerBaseOptions
    from .config.share import ShareConsumerBaseOptions
    from .consumer import Consumer
    from .health import ClientHealth
    from .metrics import MetadataMetrics
    from .producer import Producer
    from .producer.pipeline import TransactionPipeline
    from .share import ShareConsumer

__all__ = ["Client"]


class Client(Facade):
    """Connections and metadata that several producers, consumers and admin clients share.

        async with Client("localhost:9092") as client:
            async with client.producer() as producer, client.consumer("events", group_id="g") as consumer:
                ...

    The clients are `Producer`, `TransactionPipeline`, `Consumer`, `ShareConsumer` and `AdminClient`. Each is started
    and stopped separately, in any order. You can create them before this client is started, but not start them. All use
    the same metadata of the cluster, so all clients learn of a new leader that one of them has found.

    All clients together use one connection to each broker for produce requests, one for fetches, and so on. Fetches of
    several consumers are merged into one request. There are three exceptions:

    - While a broker is slow, producers of the same partitions have separate connections.
    - Consumers share connections for fetching only if their ``isolation_level``, ``client_rack``, ``fetch_min_bytes``,
      ``fetch_max_wait_ms`` and ``max_partition_fetch_bytes`` are equal.
    - A share consumer has a separate connection to each leader that it fetches from, because brokers tie the locks of
      records to the connection.

    `ClientOptions` describes the options, which apply to all clients. Passing one of them with another value to a
    client raises `ConfigError`, except ``close_timeout_ms`` and ``client_id``. A client's own ``client_id`` appears in
    its logs and metrics, while brokers see the ``client_id`` of the connections.

    Together, producers have at most ``max_in_flight_requests_per_connection`` requests in flight on a connection, and
    consumers prefetch at most the sum of their ``fetch_max_bytes``.
    """

    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ClientOptions]) -> None:
        """Check the options, without connecting.

        ``bootstrap_servers`` are addresses such as ``"host1:9092,host2:9092"``, as a str or an iterable. Raises
        `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        self._config = ClientConfig.from_options(bootstrap_servers, options)
        self._client = InternalClient(self._config)
        self._client.kind = _Shared(self._client)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster.

        If ``wait`` is False, the call returns immediately, and the client keeps trying to connect in the background.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if no server can be used within
        ``timeout_ms`` (default: ``request_timeout_ms``). Raises authentication and TLS errors unchanged. After an error
        or a cancellation, the client is stopped and cannot be started again.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop every running client on these connections, and close the connections.

        Consumers are stopped first, because their handlers may use the other clients. The call takes at most
        ``timeout_ms``; by default, each client has the default time limit of its `stop`. Afterwards every call of these
        clients raises `ClientClosedError`. The method may be called repeatedly.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    # --- clients -----------------------------------------------------------------------------------------------------

    @discreet
    def producer(
        self,
        *,
        key_serializer: Serializer[KS] | None = None,
        value_serializer: Serializer[VS] | None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> Producer[KS, VS]:
        """Create a producer on these connections, without starting it.

        `ProducerOptions` describes the options. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        from .producer import Producer  # imported here, so programs load only the clients that they use

        return Producer(client=self, key_serializer=key_serializer, value_serializer=value_serializer, **options)

    @discreet
    def transaction_pipeline(
        self,
        *,
        in_flight: int = 2,
        key_serializer: Serializer[KS] | None = None,
        value_serializer: Serializer[VS] | None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> TransactionPipeline[KS, VS]:
        """Create a `TransactionPipeline` on these connections, without starting it.

        ``in_flight`` is the number of its producers (2 to 100, default: 2). Each of them has one more connection, to
        the coordinator of its transactions. `ProducerOptions` describes the options. Raises `ConfigError` or
        `ConfigTypeError` for an invalid option.
        """
        from .producer.pipeline import TransactionPipeline

        return TransactionPipeline(
            client=self,
            in_flight=in_flight,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            **options,
        )

    @overload
    def consumer(
        self,
        *topics: str,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> Consumer[K, V]: ...
    @overload
    def consumer(
        self,
        *topics: str,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> Consumer[K, V]: ...
    @overload
    def consumer(
        self,
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ConsumerBaseOptions],
    ) -> Consumer[K, V]: ...
    @overload
    def consumer(
        self,
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ConsumerBaseOptions],
    ) -> Consumer[K, V]: ...
    @discreet
    def consumer(self, *topics: str, **options: Any) -> Consumer[Any, Any]:
        """Create a consumer on these connections, without starting it.

        The consumer subscribes to ``topics``, as `Consumer.subscribe` does. `ConsumerOptions` describes the options.
        Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        from .consumer import Consumer

        return Consumer(*topics, client=self, **options)

    @overload
    def share_consumer(
        self,
        *topics: str,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> ShareConsumer[K, V]: ...
    @overload
    def share_consumer(
        self,
        *topics: str,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> ShareConsumer[K, V]: ...
    @overload
    def share_consumer(
        self,
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> ShareConsumer[K, V]: ...
    @overload
    def share_consumer(
        self,
        *topics: str,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> ShareConsumer[K, V]: ...
    @discreet
    def share_consumer(self, *topics: str, **options: Any) -> ShareConsumer[Any, Any]:
        """Create a share consumer on these connections, without starting it.

        The consumer subscribes to ``topics``, as `ShareConsumer.subscribe` does. `ShareConsumerOptions` describes the
        options. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        from .share import ShareConsumer

        return ShareConsumer(*topics, client=self, **options)

    @discreet
    def admin(self, **options: Unpack[AdminOptions]) -> AdminClient:
        """Create an admin client on these connections, without starting it.

        `AdminOptions` describes the options. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        from .admin import AdminClient

        admin = AdminClient.__new__(AdminClient)
        admin._set_up(*configured(AdminConfig, None, self, options))
        return admin

    def health(self) -> ClientHealth:
        """Return the client's health, for probes.

        The call sends no requests and may be made at any time.
        """
        from .health import ClientHealth

        problems = []
        for client in (self._client, *self._client.children):
            if client.fatal is not None and str(client.fatal) not in problems:
                problems.append(str(client.fatal))
        if not self._client.running:
            problems.append("the client is not running")
        return ClientHealth(self._client.metadata.full_answers > 0, tuple(problems))

    def metrics(self) -> MetadataMetrics:
        """Return counts of metadata refreshes, bootstraps, and leaders learned from responses (KIP-951).

        The counts begin when the client is created.
        """
        return self._client.metadata.metrics()

    def __repr__(self) -> str:
        return f"<Client client_id={self._config.client_id!r} clients={len(self._client.children)}>"


class _Shared(Kind):
    """Starts and stops shared connections, and stops the clients that use them."""

    stop_within_ms = math.inf  # each client has its own time limit
    closing_share, closing_ms = 0.05, 375.0
    producing_share, producing_ms = 0.2, 1500.0
    """Share of the time of `stop` that is reserved for producers and admin clients, and its upper limit in ms."""

    def __init__(self, client: InternalClient) -> None:
        self._client = client

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        self._client.measure(self._telemetry)

    def _telemetry(self) -> Source:
        from ._core.telemetry.measures import SharedConnections  # imported here: few clusters request metrics

        return SharedConnections(lambda: self._client.brokers.connections_made)

    async def finish(self, deadline: Deadline) -> None:
        """Stop consumers first, because their handlers may use the other clients."""
        consumers = [each for each in self.dependents() if not isinstance(each.config, ProducerConfig | AdminConfig)]
        kept_ms = min(deadline.timeout_ms * self.producing_share, self.producing_ms)
        await self._client.stop_all(consumers, max(0.0, deadline.left_ms() - kept_ms))
        kept_ms = min(deadline.timeout_ms * self.closing_share, self.closing_ms)
        await self._client.stop_all(self.dependents(), max(0.0, deadline.left_ms() - kept_ms))

    def dependents(self) -> Collection[Life[Any]]:
        return [child for child in self._client.children if child.owner is None]
