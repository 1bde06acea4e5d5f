"""The producer: records into Kafka topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, overload

from ._accel import ACCELERATED, warn_if_plain
from ._core.producer.delivery import Delivery, DeliveryBatch
from ._core.producer.health import ProducerHealth
from ._core.producer.metrics import ProducerMetrics, ProducerTopicMetrics
from ._core.tracing import TracedClient, installed
from ._io.asking_around import ask_anyone
from ._io.client import Client
from ._io.loop import Waiter, loop_probe, loop_thread
from ._io.producer.checked_sends import CheckedSends
from ._io.producer.health import health_of
from ._io.producer.intake import Admission, Intake
from ._io.producer.send_methods import QuickSend, QuickSendNowait
from ._io.producer.sender import HOT_REQUESTS, Sender
from ._io.producer.shared_sending import Seat, SharedSending
from ._io.producer.traced_sends import TracedSends
from ._io.pushed_metrics import PushedMetrics
from ._io.transactions.calls import TransactionalCalls
from ._io.transactions.gate import TransactionGate
from ._io.transactions.manager import Transactions
from ._options.arguments import TIMEOUT, topic_name
from ._options.checks import boolean, discreet
from ._options.sent_types import KS, VS, K, V
from .config import ProducerConfig
from .errors import (
    ClientClosedError,
    KafkaError,
    RequestTimedOutError,
)
from .errors.base import own_copy
from .types import Header, RecordMetadata

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ._core.telemetry.measures import Source
    from ._options.serialization import Serializer
    from .config import ProducerBaseOptions, ProducerOptions


__all__ = ["Delivery", "DeliveryBatch", "Producer", "ProducerHealth", "ProducerMetrics", "ProducerTopicMetrics"]

_CLOSING_SHARE = 0.1
"""The part of ``stop``'s time that is kept for closing connections, at most half a second."""


class Producer(TransactionalCalls[K, V], PushedMetrics, Generic[K, V]):
    """Writes records to topics.

        async with Producer("localhost:9092") as producer:
            delivery = await producer.send("events", b"value", key=b"key")
            metadata = await delivery

    Records are batched by partition and sent by a background task; idempotence is on, so that they are written once and
    in order whatever happens to brokers and connections. Options are those of `ProducerOptions`. Keys and values are
    bytes, or whatever ``key_serializer`` and ``value_serializer`` turn into bytes; None is never serialized. They are
    called with the content, or with that and a `SerializationContext` (see there). They may be coroutine functions,
    which `send`, `send_and_wait` and `send_many` await: records are taken in the order in which that ends.

    Belongs to the event loop that it was started on; any number of tasks may use it there. All times are in
    milliseconds.
    """

    @overload
    def __init__(
        self: Producer[KS, bytes],
        bootstrap_servers: str | Iterable[str],
        *,
        key_serializer: Serializer[KS],
        value_serializer: None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[bytes, VS],
        bootstrap_servers: str | Iterable[str],
        *,
        key_serializer: None = None,
        value_serializer: Serializer[VS],
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: Producer[KS, VS],
        bootstrap_servers: str | Iterable[str],
        *,
        key_serializer: Serializer[KS],
        value_serializer: Serializer[VS],
        **options: Unpack[ProducerBaseOptions],
    ) -> None: ...
    @overload
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ProducerOptions]) -> None: ...
    @discreet
    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`."""
        self._set_up(ProducerConfig.from_options(bootstrap_servers, options))

    @classmethod
    def _beside(cls, client: Client, **options: Any) -> Self:
        """One that connects as this client does, and shares the connections that it shares."""
        servers, shared = client.config.shared()
        producer = cls.__new__(cls)
        producer._set_up(ProducerConfig.from_options(servers, {**shared, **options}), client.parent)
        return producer

    def _set_up(self, config: ProducerConfig, parent: Client | None = None) -> None:
        self._config = config
        client = self._client = Client(config, HOT_REQUESTS, parent)
        client.facade = type(self).__name__
        seat = None if parent is None else Seat(SharedSending.of(parent))
        self._sender = Sender(config, client.brokers, client.metadata, partial(ask_anyone, client), client.spawn, seat)
        self._accumulator = self._sender.accumulator
        self._check: Callable[[], None] = self._client.check
        """Raises unless the producer can be used here and now."""
        self._started_at: float | None = None
        self._stopped: Waiter[None] | None = None
        """Made by the first `stop`, done when that has ended."""
        transactional = config.transactional_id is not None
        self._transactions = Transactions(config, client, self._sender, self._check_now) if transactional else None
        admission = Admission(self._check_now) if self._transactions is None else self._transactions.admission(0)
        self._intake = Intake(config, self._sender, client.metadata, admission)
        self._sends = CheckedSends(config, self._intake, self._accumulator.topics)
        self._append = self._intake.append

    # --- its life ----------------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Connect to the cluster.

        Raises `KafkaConnectionError` that names each bootstrap server and why it could not be used, within
        ``request_timeout_ms``; authentication's and TLS's own errors as such.

        Without ``wait`` it returns at once, and connects in the background, again and again, however long no broker can
        be reached: an application starts while Kafka is down. Until then `send` waits, and raises what keeps it from
        the brokers after ``max_block_ms``, or at once where waiting does not help. With a ``transactional_id`` the
        first transaction begins by fencing a producer of that name, which otherwise `start` does.
        """
        warn_if_plain()
        wait = boolean("wait", wait)
        await self._client.start(wait=wait)
        self._started_at = time.monotonic()
        self._client.on_fatal(self._on_fatal)
        self._client.on_fork(self._on_fork)
        self._client.records_left = self._records_left
        self._client.measure(self._telemetry)
        if installed.tracer is not None:
            client = self._client
            tracing = installed.tracer.producer(
                TracedClient.of(self._config, lambda: client.metadata.snapshot.cluster_id)
            )
            self._intake.unsampled = tracing.unsampled
            self._accumulator.counters.on_settled = tracing.settled
            self._sends = TracedSends(self._config, self._intake, self._accumulator.topics, tracing)
        self._sender.start()
        if self._sends.as_they_come:
            self._intake.start(*loop_probe(), loop_thread())
            if ACCELERATED and (type(self).send, type(self).send_nowait) == _SEND_METHODS:
                own = vars(self)  # found before those of the class
                own.setdefault("send", QuickSend(self._intake, self.send))
                own.setdefault("send_nowait", QuickSendNowait(self._intake, self.send_nowait).send_nowait)
        if self._transactions is not None:
            self._intake.usable = False
            try:
                another = self._started_intake if self._sends.as_they_come else None
                await self._transactions.start(TransactionGate(self._intake, another), wait=wait)
            except BaseException:
                await self.stop(0)
                raise

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send what is pending and close every connection, within ``timeout_ms`` whatever the brokers do.

        Records that are not acknowledged by then fail with `ClientClosedError`. Without a timeout they have their
        ``delivery_timeout_ms``. May be called again. A cancelled stop gives up what is pending, and closes. An
        open transaction is aborted, and what is pending of it is not sent.
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        if not self._client.begin_stop():
            return
        if self._stopped is not None:
            await self._stopped.done_within(None if timeout_ms is None else timeout_ms / 1000)
            return
        try:
            self._client.check()
            usable = True
        except KafkaError:
            usable = False
        self._stopped = Waiter()
        self._check = _raise_closed
        self._intake.usable = False
        try:
            if usable and self._transactions is not None:
                await self._transactions.stop(None if timeout_ms is None else timeout_ms / 1000)
            elif usable:
                await self._drain(timeout_ms)
        finally:
            self._sender.end(_stopped_before)
            try:
                await self._client.stop(None if timeout_ms is None else max(100.0, timeout_ms * _CLOSING_SHARE))
            finally:
                self._stopped.set_result(None)

    async def _drain(self, timeout_ms: float | None) -> None:
        timeout_s = None
        if timeout_ms is not None:
            timeout_s = (timeout_ms - min(500.0, timeout_ms * _CLOSING_SHARE)) / 1000
        try:
            await self._sender.flushing.wait(timeout_s)
        except TimeoutError:
            return

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(self._config.close_timeout_ms)

    def _records_left(self) -> int:
        return self._accumulator.records_left() + self._sender.lookups.unknown.records_left()

    def _on_fork(self) -> None:
        self._close_intakes()

    def _on_fatal(self, error: BaseException) -> None:
        self._close_intakes()
        self._sender.end(lambda fate: _failed_with(error, fate))

    # --- records -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> Delivery:
        """Take a record; returns a `Delivery` as soon as the record is in a batch: await that for its acknowledgement.

        Waits for metadata and for room in ``buffer_memory``, together at most ``max_block_ms``; then raises
        `BufferFull`, or the error that kept the topic unknown. A call that is cancelled or raises has not taken the
        record. ``partition`` None lets the key choose, or the partitioner; ``timestamp_ms`` None is now. Raises
        `MessageTooLargeError` for a record beyond ``max_request_size``, `RecordSerializationError` where a serializer
        raised, and `ConfigError` (a ValueError) or `ConfigTypeError` (a TypeError) for arguments that cannot be right.
        """
        append = self._append  # apart from the call, CPython 3.11 specialises it (PEP 659)
        delivery = append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            delivery = await self._sends.send(topic, value, key, partition, timestamp_ms, headers)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> RecordMetadata:
        """`send` a record, and wait until it is acknowledged. Raises what it failed with."""
        return await (await self.send(topic, value, key, partition, timestamp_ms, headers))

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> Delivery:
        """`send` without waiting: raises `BufferFull` where that would wait for room in ``buffer_memory``.

        A record of a topic that is not known yet is kept until the topic is known, for ``max_block_ms`` at most; what
        `send` would raise then, the delivery raises. Raises `IllegalStateError` where a serializer is a coroutine
        function. A loop of nothing but these calls keeps the producer from sending; await something now and then.
        """
        append = self._append  # apart from the call, CPython 3.11 specialises it (PEP 659)
        delivery = append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            delivery = self._sends.send_nowait(topic, value, key, partition, timestamp_ms, headers)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[V | None],
        keys: Iterable[K | None] | None = None,
        partition: int | None = None,
        headers: Sequence[Header] | Sequence[Sequence[Header] | None] | None = None,
        timestamps_ms: Iterable[int] | None = None,
    ) -> DeliveryBatch:
        """Take many records; returns a `DeliveryBatch` as soon as all are in batches: await that for their outcomes.

        ``keys`` and ``timestamps_ms`` have one entry for each value; ``headers`` has, too, or is one list for all. A
        record that is too large fails alone: its outcome is the error. Where there is no room within ``max_block_ms``,
        the outcome of the rest is `BufferFull`. Wrong arguments raise before any record is taken. A call that is
        cancelled may have taken some of the first ones.
        """
        return await self._sends.send_many(topic, values, keys, partition, headers, timestamps_ms)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything that was taken so far without lingering, and wait until it is acknowledged or failed.

        Raises `RequestTimedOutError` after ``timeout_ms``; without one, every record has its ``delivery_timeout_ms``.
        Does not raise what records failed with: their deliveries do.
        """
        timeout_ms = TIMEOUT("timeout_ms", timeout_ms)
        self._check()
        try:
            await self._sender.flushing.wait(None if timeout_ms is None else timeout_ms / 1000)
        except TimeoutError:
            raise RequestTimedOutError(
                f"flush: {self._accumulator.pending} batches are not acknowledged after {timeout_ms:g} ms"
            ) from None
        if self._client.fatal is not None:
            self._check()

    @property
    def client_id(self) -> str:
        """What brokers' logs and quotas call this producer."""
        return self._config.client_id

    @property
    def transactional_id(self) -> str | None:
        """The name of its transactions; None for a producer without."""
        return self._config.transactional_id

    @property
    def takes_bytes(self) -> bool:
        """Whether keys and values are sent as they are: it has no serializers."""
        return self._sends.takes_bytes

    async def partitions_for(self, topic: str) -> set[int]:
        """The topic's partitions; waits for metadata at most ``max_block_ms``."""
        topic = topic_name("topic", topic)
        self._check()
        known = await self._client.metadata.topic(topic, self._config.max_block_ms)
        return set(range(len(known.partitions)))

    def metrics(self) -> ProducerMetrics:
        """What this producer has done so far, in numbers. The call is cheap, and possible at any time."""
        return self._sender.metrics()

    def health(self) -> ProducerHealth:
        """Whether this producer makes progress, for liveness probes. Costs no request; may be called at any time.

        ``healthy`` is False, and ``problems`` say why, when it is not running or has failed, when records have waited
        for twice ``request_timeout_ms`` and none was acknowledged meanwhile, or when the cluster could not be reached
        for as long after `start`.
        """
        return health_of(
            self._client,
            self._accumulator,
            started_at=self._started_at,
            stopped=self._stopped is not None,
            patience_s=2 * self._config.request_timeout_ms / 1000,
        )

    # --- inside ------------------------------------------------------------------------------------------------------

    def _check_now(self) -> None:
        self._check()

    def _started_intake(self, admission: Admission) -> Intake:
        """An intake for the sends of one transaction alone."""
        intake = Intake(self._config, self._sender, self._client.metadata, admission)
        intake.unsampled = self._intake.unsampled
        intake.start(*loop_probe(), loop_thread())
        return intake

    def _telemetry(self) -> Source:
        from ._core.producer.telemetry import ProducerTelemetry  # only here: most clusters want no metrics

        return ProducerTelemetry(self._config.transactional_id, self._accumulator, self._client.own_connections)

    def _close_intakes(self) -> None:
        self._intake.usable = False
        if self._transactions is not None:
            self._transactions.close_gate()


_SEND_METHODS = (Producer.send, Producer.send_nowait)
"""The methods that `QuickSend` stands in for. Those of a subclass, or of a tracer that replaced them, are called."""


def _raise_closed() -> None:
    raise ClientClosedError


def _stopped_before(fate: str) -> KafkaError:
    return ClientClosedError(f"the producer was stopped before the broker acknowledged; the records were {fate}")


def _failed_with(error: BaseException, fate: str) -> KafkaError:
    failure = own_copy(error) if isinstance(error, KafkaError) else KafkaError(str(error))
    failure.__cause__ = error.__cause__
    failure.add_note(f"the records were {fate}")
    return failure
