"""Share consumer: records of Kafka topics, delivered and acknowledged as in a queue (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, overload

from .._core.share.record import ShareRecord
from .._io.client import Client, Elsewhere, Facade, configured
from .._io.deadline import Deadline
from .._io.share.acknowledging import Acknowledgement
from .._io.share.engine import HOT_REQUESTS, ShareEngine
from .._io.share.reader import ShareBatches, TracedShareRecords
from .._options import arguments
from .._options.checks import boolean, discreet
from .._options.read_types import K, V
from .._runs import attended, check_apart, outlets, routing_of
from ..config.share import ShareConsumerConfig
from ..errors import ConfigError, KafkaError
from ..types import AcknowledgeType, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options.serialization import AsyncDeserializer, Deserializer
    from ..config import SharedClient
    from ..config.run import ShareRunOptions
    from ..config.share import ShareConsumerBaseOptions
    from ..handlers import Handlers
    from ..health import ConsumerHealth
    from ..metrics import ShareConsumerMetrics


__all__ = ["ShareConsumer"]


class ShareConsumer(Facade, Generic[K, V]):
    """Member of a share group, which receives records from topics as from a queue (KIP-932, Apache Kafka 4.2).

        async with ShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as jobs:
            async for record in jobs:
                await handle(record)  # the next iteration accepts the record

    Several members may receive records from the same partition. A group may therefore have more members than
    partitions, and a slow record does not delay later records. Records are not delivered in order, and there are no
    offsets to commit. A group begins at the end of its topics, unless its setting ``share.auto.offset.reset`` differs.
    `ShareConsumerOptions` describes the options.

    A record is locked for its member until the member acknowledges it, by default for at most 30 s. If the lock expires
    first, the record is delivered again, up to the group's limit of deliveries (5 by default).

    `acknowledge` accepts, releases or rejects a record, or renews its lock. With
    ``share_acknowledgement_mode="implicit"``, the default, all other returned records are accepted when the application
    requests more records or calls `commit`, and released when the consumer stops or an error ends the ``async with``
    block. With "explicit", every record needs a call of `acknowledge`. Acknowledgements are sent in the background. To
    get their outcomes, await the result of `acknowledge`, or `commit`.

    A share consumer belongs to the event loop that started it. One task at a time may read; any task of the loop may
    acknowledge records. All times are in milliseconds.
    """

    if not TYPE_CHECKING:
        poll = Elsewhere("await getone() or await getmany()")

    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: AsyncDeserializer[K],
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: AsyncDeserializer[V],
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        key_deserializer: Deserializer[K] | None = None,
        value_deserializer: Deserializer[V] | None = None,
        **options: Unpack[ShareConsumerBaseOptions],
    ) -> None: ...
    @discreet
    def __init__(
        self,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        client: SharedClient | None = None,
        **options: Any,
    ) -> None:
        """Check the options, without connecting.

        The consumer subscribes to ``topics``, as `subscribe` does; without ``topics``, call `subscribe` later. Give
        either ``bootstrap_servers`` or a ``client``, whose connections the consumer then uses, like
        `Client.share_consumer`. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        config, parent = configured(ShareConsumerConfig, bootstrap_servers, client, options, *topics)
        self._config = config
        self._client = Client(config, HOT_REQUESTS, parent)
        self._client.facade = type(self).__name__
        self._engine = ShareEngine(self._client, config)
        self._acknowledge = self._engine.acknowledging.acknowledge
        if topics:
            self.subscribe(topics)

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster and join the group.

        By default, the call returns when the group has assigned partitions, if its topics have any, and the leader of
        each partition has answered a fetch. A group that begins at the end (``share.auto.offset.reset``, by default
        "latest") therefore gets every record written after this call. Until the call returns, the consumer acquires at
        most one record from each leader. After ``timeout_ms`` (default: ``request_timeout_ms``), the call logs a
        warning that names the missing step and returns, and the consumer continues in the background.

        If ``wait`` is False, the call returns immediately, and the consumer keeps trying to connect in the background.
        Reads wait for the connection.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if no server can be used. Raises
        authentication and TLS errors unchanged, `UnsupportedVersionError` if the brokers do not support share groups,
        and any other error that prevents membership of the group. After an error or a cancellation, the consumer is
        stopped.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=arguments.TIMEOUT("timeout_ms", timeout_ms))

    async def wait_ready(self, timeout_ms: float | None = None) -> None:
        """Wait until the group has assigned partitions and the leader of each partition has answered a fetch.

        `start` waits for the same, unless it is called with ``wait=False`` or logs that it gave up waiting after its
        timeout. Call this method in these two cases, or after `subscribe`.

        Raises `RequestTimedOutError` after ``timeout_ms`` (default: ``default_api_timeout_ms``), and the error that
        ended the consumer or its membership. After a timeout, the consumer continues in the background, so the call may
        be repeated.
        """
        given = arguments.TIMEOUT("timeout_ms", timeout_ms)
        await self._engine.wait_ready(self._config.default_api_timeout_ms if given is None else given)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Release unacknowledged records, leave the group and close every connection.

        The call sends pending acknowledgements first. It takes at most ``timeout_ms`` (default: 10000), even if no
        broker answers. Iterations over the consumer end, and other waiting calls raise `ClientClosedError`. The method
        may be called repeatedly. If a handler of `run` calls it, it returns immediately, and `run` returns when the
        consumer has stopped.
        """
        await self._client.stop(arguments.TIMEOUT("timeout_ms", timeout_ms))

    # --- choice of topics --------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribe to these topics, which replace the earlier subscription.

        The call returns immediately; the group assigns the partitions in the background. A topic that does not exist is
        read once it has been created. Acquired records of other topics that were not returned yet are released. Raises
        `ConfigError` without topics.
        """
        names = arguments.TOPICS("topics", topics)
        if not names:
            raise ConfigError("topics must not be empty")
        self._client.check_loop()
        self._engine.subscribe(tuple(sorted(set(names))))

    def unsubscribe(self) -> None:
        """Stop taking records and leave the group, in the background.

        Acquired records that were not returned yet are released. Records that were returned can still be acknowledged.
        A read that is waiting raises `IllegalStateError`, and `run` ends.
        """
        self._client.check_loop()
        self._engine.subscribe(())

    def subscription(self) -> frozenset[str]:
        """Return the subscribed topics."""
        return frozenset(self._engine.membership.topics)

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this consumer currently reads.

        Other members of the group may read the same partitions.
        """
        return self._engine.planner.assignment

    # --- reading records ---------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Iterate over records until the consumer is stopped.

        In implicit mode, each step accepts the previous record unless the application has acknowledged it. The iterator
        raises the errors of `getmany`, except that it ends when the consumer is stopped.
        """
        self._client.check()
        engine = self._engine
        records = engine.reader.iterate(engine.deserializers)
        return records if engine.tracing is None else TracedShareRecords(records, engine.tracing.records())

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Return the next records of each partition.

        Returns acquired records immediately. If there are none, the call waits for records, at most ``timeout_ms``
        (default: 0). The dict is empty if none arrive in time. It has at most ``max_records`` records in total
        (default: ``max_poll_records``). In implicit mode, the call accepts the records that earlier calls returned,
        unless the application has acknowledged them.

        Raises `RecordDeserializationError` for a record that cannot be deserialized. The next call releases that
        record, unless the application acknowledges ``error.record``, for example with ``REJECT``. Raises
        `IllegalStateError` if another task is waiting for records, or without a subscription. Raises
        `ClientClosedError` when the consumer is stopped, and any other error that prevents reading, such as
        `GroupAuthorizationFailedError`.
        """
        arguments.WAIT("timeout_ms", timeout_ms)
        limit = self._config.max_poll_records
        if max_records is not None:
            limit = arguments.MAX_RECORDS("max_records", max_records)
        self._client.check()
        engine, began = self._engine, time.time_ns()
        taken = await engine.reader.getmany(limit, Deadline(timeout_ms), engine.deserializers)
        if taken and engine.tracing is not None:
            engine.tracing.received(began, list(chain.from_iterable(taken.values())))
        return taken

    def batches(self) -> AsyncIterator[list[ShareRecord[K, V]]]:
        """Iterate over lists of successive records of one partition, until the consumer is stopped.

            async for records in jobs.batches():
                await store(records)  # in implicit mode, the next iteration accepts the records

        Each list has at most ``max_poll_records`` records and is never empty. The iterator raises the errors of
        `getmany`.
        """
        self._client.check()
        engine = self._engine
        look = None if engine.tracing is None else engine.tracing.batches()
        return ShareBatches(engine.reader, engine.deserializers, self._config.max_poll_records, look)

    async def run(
        self, handler: Callable[..., Awaitable[object]] | Handlers, **options: Unpack[ShareRunOptions]
    ) -> None:
        """Call a handler with every record, several calls at a time, until the consumer is stopped.

            async def handle(record): ...

            await jobs.run(handle, concurrency=64, dead_letter_topic="jobs.failed")

        `ShareRunOptions` describes the options; `Consumer.run` describes the arguments of a handler. A record is
        accepted as soon as its handler has returned, without waiting for other records. If the handler raises an error,
        the record is held for a backoff and then released to any member of the group. After ``retries``, it is sent to
        ``dead_letter_topic`` and rejected.

        While a handler runs, the lock of its record is renewed, if the brokers support renewal. If the lock is lost
        with a connection or a leader, the record is delivered again, and a warning is logged. Records are acquired in
        advance only if their handlers can finish before the locks expire. Deserializers run in the task of the handler.

        When the consumer is stopped, records that wait for a handler are released, and `run` waits for running handlers
        and returns. The last quarter of the timeout of `stop`, at most 2 s, is reserved for the remaining steps. In a
        handler, `stop` returns immediately. `run` also ends after `unsubscribe`. When `run` is cancelled, the handlers
        are cancelled, and all their records are released.

        Raises `HandlerError` for a record whose dead letter was rejected, `ConfigTypeError` for a handler that is not
        async, and any error that prevents reading.
        """
        self._client.check()
        from .._core.run.options import ShareRunConfig
        from .._io.share.runner import run

        config = ShareRunConfig.from_options(options)
        routing = routing_of(handler, transactional=False, read=self.subscription(), subscribe=self.subscribe)
        check_apart(config.dead_letter_topic, self.subscription())

        async def work() -> None:
            from .._io.run.service import Steps, reached

            client = self._client
            if not await reached(client):
                return
            async with (
                client.handling(),
                outlets(client, config, self._config.group_id, Steps(client, config), routing) as dead_letters,
            ):
                await run(self._engine, config, routing, dead_letters)

        await attended(self, self._config.close_timeout_ms, config, work)

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> Acknowledgement:
        """Acknowledge a record, and return an object to await for the outcome.

            jobs.acknowledge(record, AcknowledgeType.RELEASE)
            await jobs.acknowledge(record)  # accepts it, and waits for the broker

        ``kind`` is ``ACCEPT`` (the default), ``RELEASE`` (deliver the record again), ``REJECT`` (never deliver it
        again) or ``RENEW`` (restart the lock, in both acknowledgement modes). The acknowledgement is sent soon,
        together with others, even if the result is not awaited. A record may be accepted, released or rejected only
        once. ``RENEW`` may be repeated, and the record must still be acknowledged by another call.

        Raises `IllegalStateError` for a record that was acknowledged before or belongs to another consumer. ``RENEW``
        raises `UnsupportedVersionError` before Apache Kafka 4.2. If the lock of the record was lost, awaiting the
        result raises an error, but the call itself does not; the record is then delivered again.
        """
        return self._acknowledge(record, kind)

    async def commit(self, *, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements, wait for their outcomes, and return the outcome of each partition.

        An outcome is None if brokers accepted all acknowledgements of the partition since the last commit, and
        otherwise the last error. Errors of acknowledgements are returned, not raised. A record whose acknowledgement
        was rejected is delivered again.

        In implicit mode, the call also accepts the returned records that have no acknowledgement. It takes at most
        ``timeout_ms`` (default: ``default_api_timeout_ms``).
        """
        given = arguments.TIMEOUT("timeout_ms", timeout_ms)
        return await self._engine.acknowledging.commit(self._config.default_api_timeout_ms if given is None else given)

    # --- state -------------------------------------------------------------------------------------------------------

    def metrics(self) -> ShareConsumerMetrics:
        """Return counters by topic, and the number of acquired records that are not yet returned to the application.

        The counters begin when the consumer is created. The call sends no requests.
        """
        engine = self._engine
        buffer, metadata = engine.buffer, self._client.metadata.metrics()
        return engine.planner.counters.snapshot(buffer.handed_out(), buffer.buffered(), metadata)

    def health(self) -> ConsumerHealth:
        """Return the consumer's health, for liveness probes.

        The call sends no requests and may be made at any time. ``healthy`` is False, with the reasons in ``problems``,
        in these cases:

        - The consumer is not running or has failed.
        - No broker has answered a fetch for ``request_timeout_ms``, although the application waited for records all
          that time.
        - A leader has rejected every fetch of a partition for that time. ``stuck`` names these partitions.
        - The group's coordinator has not acknowledged a heartbeat for nine heartbeat intervals. (Brokers do not tell
          members the session timeout.)
        - The event loop is blocked now, as observed by a probe in another thread.

        Handlers have no time limit; ``handler_ms`` is the age of the oldest running handler.
        """
        return self._engine.health.health()

    def __repr__(self) -> str:
        return f"<ShareConsumer client_id={self._config.client_id!r} group_id={self._config.group_id!r}>"
