"""The share consumer: records of Kafka topics, handed out and acknowledged as on a queue (KIP-932)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from .._core.consumer import arguments
from .._core.share.record import ShareRecord
from .._io.client import Client, configured
from .._io.deadline import Deadline
from .._io.pushed_metrics import PushedMetrics
from .._io.share.acknowledging import Acknowledgement
from .._io.share.engine import HOT_REQUESTS, ShareEngine
from .._io.share.reader import ShareBatches, TracedShareRecords
from .._options.arguments import TIMEOUT
from .._options.checks import boolean, discreet
from .._options.read_types import K, V
from .._runs import attended, dead_letters_by
from ..config import SharedClient
from ..config.share import ShareConsumerConfig
from ..errors import ConfigError, KafkaError
from ..health import ConsumerHealth
from ..metrics import ShareConsumerMetrics, ShareTopicMetrics
from ..types import AcknowledgeType, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._core.share.run_options import ShareRunOptions
    from .._options.serialization import AsyncDeserializer, Deserializer
    from ..config.share import ShareConsumerBaseOptions


__all__ = ["Acknowledgement", "ShareConsumer", "ShareConsumerMetrics", "ShareRecord", "ShareTopicMetrics"]


class ShareConsumer(PushedMetrics, Generic[K, V]):
    """Takes records of topics as jobs from a queue: a member of a share group (KIP-932; Apache Kafka 4.2).

        async with ShareConsumer("jobs", bootstrap_servers="localhost:9092", group_id="workers") as jobs:
            async for record in jobs:
                await handle(record)  # comes back for more: the record is accepted

    Several members of the group may take from one partition, so that there may be more of them than partitions, and a
    slow record holds back none behind it. A record is locked for the member that got it (30 s by default) until that
    has acknowledged it; else it is delivered again, up to a number of times that the group allows (5 by default). Order
    is not kept, and there are no offsets to commit. Options are those of `ShareConsumerOptions`; a group begins at the
    end of its topics unless its setting ``share.auto.offset.reset`` says otherwise.

    `acknowledge` decides about a record: accept, release, reject, or renew its lock. What was not decided is accepted
    when the application comes back for more, or commits; released when the consumer stops, or the ``async with`` block
    is left by an error. With ``share_acknowledgement_mode="explicit"`` only calls decide. Acknowledgements go out in
    the background; await what `acknowledge` returns, or `commit`, to know their outcome.

    Belongs to the event loop that it was started on, and to one reading task at a time; any task of it may acknowledge.
    """

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
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`.

        With a ``client`` it uses that one's connections, and is what `Client.share_consumer` makes.
        """
        config, parent = configured(ShareConsumerConfig, bootstrap_servers, client, options)
        self._config = config
        self._client = Client(config, HOT_REQUESTS, parent)
        self._client.facade = type(self).__name__
        self._engine = ShareEngine(self._client, config)
        self._acknowledge = self._engine.acknowledging.acknowledge
        if topics:
            self.subscribe(topics)

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster and join the group; returns when it is known where the group begins, if ``wait``.

        That is when the group has assigned partitions, where its topics have some, and the leader of each has answered
        a fetch: a group that begins at the end (``share.auto.offset.reset``, by default "latest") gets every record
        that is written from then on. At most one record of each leader is acquired meanwhile. What takes longer than
        ``request_timeout_ms`` is waited for in the background, with a warning that names it. Without
        ``wait`` it connects in the background, however long no broker can be reached: reads wait for that. Raises
        `KafkaConnectionError` that names each bootstrap server and why it could not be used, authentication's and TLS's
        own errors as such, `UnsupportedVersionError` where the brokers serve no share groups, and what else keeps a
        member out of its group. After an error, or when cancelled, the consumer is stopped.
        """
        await self._client.start(wait=boolean("wait", wait))

    async def wait_ready(self, timeout_ms: float | None = None) -> None:
        """Wait for what `start` waits for, within ``timeout_ms`` (``default_api_timeout_ms``).

        Of use after ``start(wait=False)``, a start that gave up waiting, and `subscribe`. Raises what the consumer, or
        its membership of the group, has failed with, and `RequestTimedOutError`.
        """
        given = TIMEOUT("timeout_ms", timeout_ms)
        await self._engine.wait_ready(self._config.default_api_timeout_ms if given is None else given)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Release what is not acknowledged, leave the group, close every connection; within ``timeout_ms`` (10000).

        Acknowledgements on their way are sent before. Iterations end, other calls that wait raise `ClientClosedError`.
        May be called again.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._engine.reader.come_back()
        await self.stop(self._config.close_timeout_ms)

    # --- what to take ------------------------------------------------------------------------------------------------

    def subscribe(self, topics: Iterable[str]) -> None:
        """Take records of these topics; replaces what was subscribed to before."""
        names = arguments.TOPICS("topics", topics)
        if not names:
            raise ConfigError("topics must not be empty")
        self._client.check_loop()
        self._engine.membership.subscribe(tuple(sorted(set(names))), started=self._engine.started)

    def unsubscribe(self) -> None:
        """Take nothing more, and leave the group, in the background. What is in hand can still be acknowledged."""
        self._client.check_loop()
        self._engine.unsubscribe()

    def subscription(self) -> frozenset[str]:
        """The topics that are subscribed to."""
        return frozenset(self._engine.membership.topics)

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that records are taken from now; other members take from them as well."""
        return self._engine.planner.assignment

    # --- taking ------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[ShareRecord[K, V]]:
        """Every record, until the consumer is stopped."""
        self._client.check()
        engine = self._engine
        records = engine.reader.iterate(engine.deserializers)
        return records if engine.tracing is None else TracedShareRecords(records, engine.tracing.records())

    async def getmany(
        self, *, timeout_ms: float = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ShareRecord[K, V]]]:
        """Records by partition: what is there already, or else what comes first within ``timeout_ms``.

        There are at most ``max_records`` (``max_poll_records``). The result is empty if no record came.
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
        """Every record, in lists of successive records of one partition, until the consumer is stopped."""
        self._client.check()
        engine = self._engine
        look = None if engine.tracing is None else engine.tracing.batches()
        return ShareBatches(engine.reader, engine.deserializers, self._config.max_poll_records, look)

    async def run(
        self, handler: Callable[[ShareRecord[K, V]], Awaitable[object]], **options: Unpack[ShareRunOptions]
    ) -> None:
        """Have every record handled, many at once, until the consumer is stopped. Options: `ShareRunOptions`.

            async def handle(record): ...

            await jobs.run(handle, concurrency=64, dead_letter_topic="jobs.failed")

        A record is accepted when its handler has returned, and waits for no other one. When the handler has raised, the
        record is kept back for a backoff and released, so that any member of the group gets it; after ``retries`` it is
        sent to ``dead_letter_topic`` and rejected. While a handler works, the lock of its record is renewed, where
        brokers can do that; one that is lost all the same, with a connection or a leader, means another delivery, which
        is logged. Records that are acquired ahead are few enough for their locks. Deserializers run in the task of the
        handler.

        When the consumer is stopped (`stop` may be called from a handler, too) what was not begun is released, the
        handlers at work have all of the stop's time but its last quarter (2 s at most), and this returns. So it does
        after `unsubscribe`. When it is cancelled, so are the handlers, and all records in hand are released. Raises
        `HandlerError` for a record whose dead letter was refused, `ConfigTypeError` for a handler that is not async,
        and what else keeps a consumer from reading.
        """
        self._client.check()
        from .._core.run.handler import checked_handler
        from .._core.share.run_options import ShareRunConfig
        from .._io.share.runner import run

        handler = checked_handler(handler)
        config = ShareRunConfig.from_options(options)

        async def work() -> None:
            async with dead_letters_by(self._client, config, self._config.group_id) as dead_letters:
                await run(self._engine, config, handler, dead_letters)

        await attended(self, self._config.close_timeout_ms, config, work)

    # --- acknowledging -----------------------------------------------------------------------------------------------

    def acknowledge(
        self,
        record: ShareRecord[Any, Any],
        kind: AcknowledgeType = AcknowledgeType.ACCEPT,
    ) -> Acknowledgement:
        """Decide what becomes of a record, once; sent soon, with others. Await the result to know the outcome.

        ``RENEW`` begins the lock anew, and leaves the record to be acknowledged by another call, in either mode (it
        raises `UnsupportedVersionError` before Apache Kafka 4.2). A record whose lock was lost meanwhile is no error
        here: the outcome is. Raises `IllegalStateError` for a record that was acknowledged before, or that is another
        consumer's.
        """
        return self._acknowledge(record, kind)

    async def commit(self, *, timeout_ms: float | None = None) -> dict[TopicPartition, KafkaError | None]:
        """Send all acknowledgements and wait for their outcomes, within ``timeout_ms`` (``default_api_timeout_ms``).

        In implicit mode this accepts what was handed out and not decided. The result has each partition of which
        acknowledgements were settled since the last commit: None if all were taken, else the last error. A record of
        which one was refused is delivered again.
        """
        given = TIMEOUT("timeout_ms", timeout_ms)
        return await self._engine.acknowledging.commit(self._config.default_api_timeout_ms if given is None else given)

    # --- the rest ----------------------------------------------------------------------------------------------------

    @property
    def client_id(self) -> str:
        """What brokers' logs and quotas call this consumer."""
        return self._config.client_id

    def metrics(self) -> ShareConsumerMetrics:
        """What happened so far, by topic, and what waits for the application. Costs no request."""
        engine = self._engine
        buffer, metadata = engine.buffer, self._client.metadata.metrics()
        return engine.planner.counters.snapshot(buffer.handed_out(), buffer.buffered(), metadata)

    def health(self) -> ConsumerHealth:
        """Whether this consumer makes progress, for liveness probes. Costs no request; may be called at any time.

        ``healthy`` is False, and ``problems`` say why, when it is not running or has failed, when no broker has
        answered a fetch for ``request_timeout_ms`` though records were waited for all that time, when a leader has
        refused every fetch of a partition for as long (``stuck`` names those), when the group's coordinator has not
        acknowledged a heartbeat for nine heartbeat intervals (brokers tell no member how long a session is), or when
        the event loop is blocked right now (which a probe in another thread sees). A handler may take as long as it
        likes: ``handler_ms`` says how long the oldest one has.
        """
        return self._engine.health.health()

    def __repr__(self) -> str:
        return f"<ShareConsumer client_id={self._config.client_id!r} group_id={self._config.group_id!r}>"
