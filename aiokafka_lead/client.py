"""One set of connections for the producers, consumers and admin clients of a process."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from ._io.client import Client as InternalClient
from ._io.client import configured
from ._io.deadline import Deadline
from ._io.life import Kind, Life
from ._io.pushed_metrics import PushedMetrics
from ._options.arguments import TIMEOUT
from ._options.checks import boolean, discreet
from ._options.read_types import K, V
from ._options.sent_types import K as KS
from ._options.sent_types import V as VS
from .admin import AdminClient
from .config import AdminConfig, ClientConfig, ProducerConfig
from .consumer import Consumer
from .health import ClientHealth
from .producer import Producer

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._core.telemetry.measures import Source
    from ._options.serialization import AsyncDeserializer, Deserializer, Serializer
    from .config import (
        AdminOptions,
        ClientOptions,
        ConsumerBaseOptions,
        ProducerBaseOptions,
    )
    from .config.share import ShareConsumerBaseOptions
    from .metrics import MetadataMetrics
    from .producer.pipeline import TransactionPipeline
    from .share import ShareConsumer

__all__ = ["Client"]


class Client(PushedMetrics):
    """Connections and metadata that producers, consumers and admin clients share.

        async with Client("localhost:9092") as client:
            async with client.producer() as producer, client.consumer("events", group_id="g") as consumer:
                ...

    Each broker has one connection for what is produced, one for what is fetched, and so on, however many clients use
    them; consumers' fetches go out together. While it is slow, producers of the same partitions have one each.
    A share consumer has a connection of its own to each leader that it takes records from, since brokers bind what it
    holds to that one, and shares the others. There is one view of the cluster, so that a leader that one client learns
    of is known to all. Clients made here are `Producer`, `TransactionPipeline`,
    `Consumer`, `ShareConsumer` and `AdminClient`. Each is started and stopped on its own, in any order; it can be made,
    but not started, before this is.

    Options are those of `ClientOptions`, and belong to all: a client made here takes one of them only where it says the
    same, and raises `ConfigError` otherwise. It may have a ``close_timeout_ms`` of its own, and a ``client_id``, which
    names it in the log and in metrics; brokers see that of the connections. Consumers share connections for fetching
    where ``isolation_level``, ``client_rack``, ``fetch_min_bytes``, ``fetch_max_wait_ms`` and
    ``max_partition_fetch_bytes`` agree; others get one more at each broker. Producers share
    ``max_in_flight_requests_per_connection``, and what consumers read ahead is bounded by the sum of their
    ``fetch_max_bytes``.
    """

    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ClientOptions]) -> None:
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`."""
        self._config = ClientConfig.from_options(bootstrap_servers, options)
        self._client = InternalClient(self._config)
        self._client.kind = _Shared(self._client)

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster; without ``wait`` in the background, however long no broker can be reached.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used, within
        ``request_timeout_ms``; authentication's and TLS's own errors as such.
        """
        await self._client.start(wait=boolean("wait", wait))

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Stop every client made here that still runs, as its own `stop` does; then disconnect.

        Consumers come first, since their handlers may use the others. Ends within ``timeout_ms``; without one, each
        client takes the time that its own `stop` takes. May be called again. From then on every call of these clients
        raises `ClientClosedError`.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(self._config.close_timeout_ms)

    # --- clients -----------------------------------------------------------------------------------------------------

    @discreet
    def producer(
        self,
        *,
        key_serializer: Serializer[KS] | None = None,
        value_serializer: Serializer[VS] | None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> Producer[KS, VS]:
        """A producer on these connections, not started. Options are those of `ProducerOptions`."""
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
        """A pipeline of transactions on these connections, not started; see `TransactionPipeline`.

        Each of its producers has one connection more, to the coordinator of its transactions.
        """
        from .producer.pipeline import TransactionPipeline  # only now: without pipelines their import costs nothing

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
        """A consumer on these connections, not started. Options are those of `ConsumerOptions`."""
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
        """A share consumer on these connections, not started. Options are those of `ShareConsumerOptions`."""
        from .share import ShareConsumer  # only now: without share groups its import costs nothing

        return ShareConsumer(*topics, client=self, **options)

    @discreet
    def admin(self, **options: Unpack[AdminOptions]) -> AdminClient:
        """An admin client on these connections, not started. Options are those of `AdminOptions`."""
        admin = AdminClient.__new__(AdminClient)
        admin._set_up(*configured(AdminConfig, None, self, options))
        return admin

    def health(self) -> ClientHealth:
        """Whether it can be used, for probes. Costs no request; may be called at any time."""
        problems = []
        for client in (self._client, *self._client.children):
            if client.fatal is not None and str(client.fatal) not in problems:
                problems.append(str(client.fatal))
        if not self._client.running:
            problems.append("the client is not running")
        return ClientHealth(self._client.metadata.full_answers > 0, tuple(problems))

    def metrics(self) -> MetadataMetrics:
        """Counts of refreshes, bootstraps and the like since the client was made."""
        return self._client.metadata.metrics()

    def __repr__(self) -> str:
        return f"<Client client_id={self._config.client_id!r} clients={len(self._client.children)}>"


class _Shared(Kind):
    """The life of connections that others share."""

    stop_within_ms = math.inf  # each client has its own time
    closing_share, closing_ms = 0.05, 375.0
    producing_share, producing_ms = 0.2, 1500.0
    """Part of a stop's time that is left to producers and admin clients after the consumers, and the most of it."""

    def __init__(self, client: InternalClient) -> None:
        self._client = client

    async def begin(self, deadline: Deadline, *, wait: bool) -> None:
        self._client.measure(self._telemetry)

    def _telemetry(self) -> Source:
        from ._core.telemetry.measures import SharedConnections  # only here: most clusters want no metrics

        return SharedConnections(lambda: self._client.brokers.connections_made)

    async def finish(self, deadline: Deadline) -> None:
        """Stop consumers first: their handlers may use the others."""
        consumers = [each for each in self.dependents() if not isinstance(each.config, ProducerConfig | AdminConfig)]
        kept_ms = min(deadline.timeout_ms * self.producing_share, self.producing_ms)
        await self._client.stop_all(consumers, max(0.0, deadline.left_ms() - kept_ms))
        kept_ms = min(deadline.timeout_ms * self.closing_share, self.closing_ms)
        await self._client.stop_all(self.dependents(), max(0.0, deadline.left_ms() - kept_ms))

    def dependents(self) -> Collection[Life]:
        return [child for child in self._client.children if child.owner is None]
