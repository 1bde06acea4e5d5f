"""The producer writes records to Kafka topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self

from .._accel import ACCELERATED
from .._core.producer.delivery import Delivery, DeliveryBatch
from .._io.client import Client, configured
from .._io.deadline import Deadline
from .._io.facade import Facade
from .._io.producer.send_methods import QuickSend, QuickSendNowait
from .._options.arguments import TIMEOUT, timeout_s, topic_name
from .._options.checks import boolean, discreet
from .._options.sent_types import K, V
from ..config import ProducerConfig
from ..errors import IllegalStateError, KafkaError, RequestTimedOutError
from ..types import ConsumerGroupMetadata, Header, OffsetAndMetadata, RecordMetadata, TopicPartition
from ._engine import ProducerEngine, within

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._io.transactions.manager import Transactions
    from .._options.serialization import Serializer
    from ..config import ProducerBaseOptions, SharedClient
    from ..health import ProducerHealth, TransactionHealth
    from ..metrics import ProducerMetrics
    from .transaction import Transaction

__all__ = ["Delivery", "DeliveryBatch", "Producer"]


class Producer(Facade, Generic[K, V]):
    """Writes records to topics.

        async with Producer("localhost:9092") as producer:
            delivery = await producer.send("events", b"value", key=b"key")
            metadata = await delivery

    Records are batched by partition and sent by a background task; idempotence is on, so that they are written once and
    in order despite failures of brokers and connections. `ProducerOptions` describes the options. Keys and values are
    bytes, or objects that ``key_serializer`` and ``value_serializer`` turn into bytes; None is never serialized.
    Serializers are called with the content, or with the content and a `SerializationContext` (see there). They may be
    coroutine functions, which `send`, `send_and_wait` and `send_many` await: records are accepted in the order in which
    these finish.

    A producer belongs to the event loop that started it; any number of tasks may use it there. All times are in
    milliseconds.
    """

    @discreet
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str] | None = None,
        *,
        client: SharedClient | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerBaseOptions],
    ) -> None:
        """Check the options, without connecting. Raises `ConfigError` or `ConfigTypeError`.

        With a ``client`` it uses the connections of this client, as `Client.producer` does.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._set_up(*configured(ProducerConfig, bootstrap_servers, client, options, **more))

    @classmethod
    def _beside(cls, client: Client, **options: Any) -> Self:
        """Create a producer that connects like this client, and shares the connections that it shares."""
        servers, shared = client.config.shared()
        producer = cls.__new__(cls)
        producer._set_up(ProducerConfig.from_options(servers, {**shared, **options}), client.parent)
        return producer

    def _set_up(self, config: ProducerConfig, parent: Client | None) -> None:
        self._config = config
        self._engine = engine = ProducerEngine(config, parent)
        self._client = engine.client
        self._client.facade = type(self).__name__
        self._transactions = engine.transactions
        self._append = engine.intake.append

    # --- start and stop ----------------------------------------------------------------------------------------------

    async def start(self, *, wait: bool = True, timeout_ms: float | None = None) -> None:
        """Connect to the cluster.

        Raises `KafkaConnectionError` with the reason for each bootstrap server if none could be used within
        ``timeout_ms`` (``request_timeout_ms``); authentication and TLS errors unchanged.

        Without ``wait`` it returns at once and keeps trying to connect in the background, so that an application can
        start while Kafka is down. Until then `send` waits, and raises the connection error after ``max_block_ms``, or
        at once if waiting cannot help. With a ``transactional_id`` the first transaction then begins by fencing an
        earlier producer of that name, which otherwise `start` does, within the rest of ``timeout_ms``
        (``max_block_ms``).
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))
        engine = self._engine
        if ACCELERATED and engine.sends.as_they_come and (type(self).send, type(self).send_nowait) == _SEND_METHODS:
            own = vars(self)  # found before methods of the class
            own.setdefault("send", QuickSend(engine.intake, self.send))
            own.setdefault("send_nowait", QuickSendNowait(engine.intake, self.send_nowait).send_nowait)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send pending records and close every connection, within ``timeout_ms`` regardless of the brokers.

        Records that are not acknowledged by then fail with `ClientClosedError`. Without a timeout they have their
        ``delivery_timeout_ms``. May be called again. A cancelled stop drops pending records, and closes. An open
        transaction is aborted, and its pending records are not sent.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    # --- records -----------------------------------------------------------------------------------------------------

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> Delivery:
        """Accept a record, and return its `Delivery` once it is in a batch: await that for the acknowledgement.

        Waits for metadata and for room in ``buffer_memory``, together at most ``timeout_ms`` (``max_block_ms``), apart
        from the time of serializers; then raises `BufferFull`, or the error that kept the topic unknown. A call that is
        cancelled or raises has not accepted the record. If ``partition`` is None, the key or the partitioner chooses
        it; ``timestamp_ms`` None means now. Raises `MessageTooLargeError` for a record beyond ``max_request_size``,
        `RecordSerializationError` if a serializer raised, and `ConfigError` (a ValueError) or `ConfigTypeError` (a
        TypeError) for invalid arguments.
        """
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        append = self._append  # apart from the call, CPython 3.11 specialises it (PEP 659)
        delivery = append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            delivery = await self._engine.sends.send(topic, value, key, partition, timestamp_ms, headers, deadline)
        return delivery

    async def send_and_wait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> RecordMetadata:
        """Call `send`, and wait until the record is acknowledged. Raises the error of the delivery.

        With ``timeout_ms``, for both, it raises `RequestTimedOutError` for an accepted record that is not acknowledged
        by then; the record may still be written. Without, the record has its ``delivery_timeout_ms``.
        """
        if timeout_ms is None:
            return await (await self.send(topic, value, key, partition, timestamp_ms, headers))
        return await within(timeout_ms, self.send, topic, value, key, partition, timestamp_ms, headers)

    def send_nowait(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> Delivery:
        """Accept a record without waiting: raises `BufferFull` if there is no room in ``buffer_memory``.

        A record for an unknown topic is kept until the topic is known, for ``max_block_ms`` at most; the delivery then
        raises the errors of `send`. Raises `IllegalStateError` if a serializer is a coroutine function. A loop of these
        calls without an await keeps the producer from sending; await something now and then.
        """
        append = self._append  # apart from the call, CPython 3.11 specialises it (PEP 659)
        delivery = append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            delivery = self._engine.sends.send_nowait(topic, value, key, partition, timestamp_ms, headers)
        return delivery

    async def send_many(
        self,
        topic: str,
        values: Iterable[V | None],
        keys: Iterable[K | None] | None = None,
        partition: int | None = None,
        headers: Sequence[Header] | Sequence[Sequence[Header] | None] | None = None,
        timestamps_ms: Iterable[int] | None = None,
        *,
        timeout_ms: float | None = None,
    ) -> DeliveryBatch:
        """Accept many records, and return a `DeliveryBatch` once all are in batches: await that for their outcomes.

        ``keys`` and ``timestamps_ms`` have one entry per value; ``headers`` also has, or is one list for all. A record
        that is too large fails alone: its outcome is the error. If there is no room for a record within
        ``max_block_ms``, or for all of them within ``timeout_ms``, the outcome of the rest is `BufferFull`. Wrong
        arguments raise before any record is accepted. A cancelled call may have accepted some of the first records.
        """
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        return await self._engine.sends.send_many(topic, values, keys, partition, headers, timestamps_ms, deadline)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all accepted records without lingering, and wait until each is acknowledged or has failed.

        Raises `RequestTimedOutError` after ``timeout_ms``; without one, every record has its ``delivery_timeout_ms``.
        Errors of records are raised by their deliveries only.
        """
        await self._engine.flush(TIMEOUT("timeout_ms", timeout_ms))

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction[K, V]:
        """Return a transaction for ``async with``: committed at the end of the block, aborted if the block raises.

            async with producer.transaction() as txn:
                await txn.send("out", b"value")
                await txn.send_offsets(consumer)

        Entering the block raises the errors of `begin_transaction`, and leaving it the errors of `commit_transaction`.
        If the block is cancelled or raises, the transaction is aborted, which takes a few seconds at most, and then the
        error propagates. Only a Kafka timeout, a `KafkaTimeoutError`, becomes the cause of a
        `TransactionTimedOutError`, so that a loop that repeats aborted transactions need not know every symptom of an
        outage.
        """
        from .transaction import Transaction  # here, as below: most producers have no transactions

        return Transaction(self, self._own_transactions())

    async def begin_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Begin a transaction: all records sent until its end are part of it.

        Waits for the end of the previous transaction, and for a producer id, at most ``timeout_ms`` (``max_block_ms``).
        Raises `ProducerFencedError` once another producer has the transactional id, `TransactionTimedOutError` after
        that time, and if the outcome of the previous transaction was unknown, `CommitOutcomeUnknownError` while it
        still is, or `TransactionAbortedError` if it was aborted.
        """
        await self._own_transactions().begin(timeout_s(timeout_ms))

    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Commit the open transaction; returns when it is certain that all of it counts, atomically.

        Sends pending records and waits for them. Raises `TransactionAbortedError` if any record of the transaction has
        failed, even if its delivery was never awaited: then the transaction is aborted, and may be repeated;
        `ProducerFencedError` when another producer has taken over the transactional id; `CommitOutcomeUnknownError`
        after ``timeout_ms`` (``max_block_ms``), and then it may be called again. Cancelling the call while records are
        in flight aborts; later the cancellation is raised once the outcome is known.
        """
        await self._own_transactions().commit(timeout_s(timeout_ms))

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Abort the open transaction; pending records fail with `TransactionAbortedError`.

        Does nothing if the latest transaction is already aborted. Raises `TransactionTimedOutError` after
        ``timeout_ms`` (``max_block_ms``); the abort then continues, as after a cancellation of the call, and the next
        transaction waits for it.
        """
        await self._own_transactions().abort(timeout_s(timeout_ms))

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets of a consumer group as part of the open transaction (KIP-98, KIP-447).

        An offset is the offset of the next record to read. ``group_metadata`` comes from `Consumer.group_metadata`, so
        that a member removed from the group cannot commit; pass only the group's name for consumers that assign their
        partitions themselves. Raises `CommitFailedError` for a removed member, or another `KafkaError`; then the
        transaction can only be aborted, as after a cancellation of the call.
        """
        from .._core.transactions.additions import OFFSETS, checked_group

        found = OFFSETS("offsets", offsets)
        group = checked_group(group_metadata)
        await self._own_transactions().send_offsets(found, group, timeout_s(timeout_ms))

    def transaction_health(self) -> TransactionHealth:
        """Return the state of the producer's transactions: phase, epoch, and the age of an open one.

        If a transaction is older than half of ``transaction_timeout_ms``, one warning is logged, and ``late`` is true.
        """
        return self._own_transactions().health()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str | None:
        """Name of its transactions; None for a producer without transactions."""
        return self._config.transactional_id

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the topic's partitions; waits for metadata at most ``timeout_ms`` (``max_block_ms``)."""
        topic = topic_name("topic", topic)
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._engine.check()
        known = await self._client.metadata.topic(topic, self._config.max_block_ms if given is None else given)
        return frozenset(range(len(known.partitions)))

    def metrics(self) -> ProducerMetrics:
        """Return the producer's counts. The call is cheap, and possible at any time."""
        return self._engine.sender.metrics()

    def health(self) -> ProducerHealth:
        """Return the producer's health, for liveness probes. Does not send requests; may be called at any time.

        ``healthy`` is False, with the reasons in ``problems``, when it is not running or has failed, when records have
        waited for twice ``request_timeout_ms`` without any acknowledgement, or when the cluster could not be reached
        for that time after `start`.
        """
        return self._engine.health()

    # --- internals ---------------------------------------------------------------------------------------------------

    @property
    def _takes_bytes(self) -> bool:
        """True if keys and values are sent unchanged, without serializers, as `Consumer.run` sends dead letters."""
        return self._engine.sends.takes_bytes

    async def _abort_refused(self) -> None:
        """Abort a failed transaction for `Consumer.run`, whose block has ended, so that no other code would end it."""
        from .._core.transactions.state import Phase

        transactions = self._own_transactions()
        if transactions.state.phase is Phase.FAILED:
            with suppress(RequestTimedOutError):  # the abort continues, and the next transaction waits for it
                await transactions.abort()

    def _take_failure(self) -> KafkaError | None:
        """Return None, for `Consumer.run`: a commit has already raised its failure."""
        return None

    def _own_transactions(self) -> Transactions:
        if self._transactions is None:
            raise IllegalStateError("the producer has no transactions: it was made without transactional_id")
        self._transactions.check()
        return self._transactions


_SEND_METHODS = (Producer.send, Producer.send_nowait)
"""The methods that `QuickSend` replaces; not if a subclass or a tracer has replaced them already."""
