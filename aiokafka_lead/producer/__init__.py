"""Producer of records to Kafka topics."""

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

    Records are batched by partition and sent by a background task. Idempotence is on by default: records are written
    once and in order despite failures of brokers and connections. `ProducerOptions` describes the options.

    Keys and values are bytes, or objects that ``key_serializer`` and ``value_serializer`` convert to bytes; None is
    never serialized. A serializer takes the key or value, and optionally a `SerializationContext`. It may be a
    coroutine function, which `send`, `send_and_wait` and `send_many` await. Records are accepted in the order in which
    their serializers finish.

    A producer belongs to the event loop that started it, where any number of tasks may use it. All times are in
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

        With a ``client`` it uses that client's connections, like `Client.producer`.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._set_up(*configured(ProducerConfig, bootstrap_servers, client, options, **more))

    @classmethod
    def _beside(cls, client: Client, **options: Any) -> Self:
        """Create a producer with this client's connection options and, if it shares connections, on these."""
        producer = cls.__new__(cls)
        producer._set_up(ProducerConfig.beside(client.config, options), client.parent)
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

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if none could be used within
        ``timeout_ms`` (``request_timeout_ms``), and authentication and TLS errors unchanged. With a
        ``transactional_id``, this also fences earlier producers with that id, in the rest of ``timeout_ms``
        (``max_block_ms``).

        Without ``wait``, this returns immediately and keeps trying to connect in the background, so that an application
        can start while Kafka is down. Until then `send` waits, and raises the connection error after ``max_block_ms``,
        or immediately if waiting cannot help. The first transaction then fences earlier producers.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))
        engine = self._engine
        if ACCELERATED and engine.sends.as_they_come and (type(self).send, type(self).send_nowait) == _SEND_METHODS:
            own = vars(self)  # attributes of the instance precede methods of the class
            own.setdefault("send", QuickSend(engine.intake, self.send))
            own.setdefault("send_nowait", QuickSendNowait(engine.intake, self.send_nowait).send_nowait)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send pending records and close every connection, within ``timeout_ms`` regardless of the brokers.

        Records that are not acknowledged in time fail with `ClientClosedError`. Without ``timeout_ms``, the limit is
        their ``delivery_timeout_ms``. An open transaction is aborted, and its pending records are not sent. If `stop`
        is cancelled, it drops pending records and closes the connections. May be called again.
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
        """Accept a record and return its `Delivery`; await that for the acknowledgement.

        Returns once the record is in a batch. Waits at most ``timeout_ms`` (``max_block_ms``), not counting
        serializers, for metadata and for space in ``buffer_memory``, and then raises `BufferFull`, or the errors of
        `partitions_for`. A call that raises or is cancelled has not accepted the record. If ``partition`` is None, the
        partitioner chooses the partition, by default from the key. If ``timestamp_ms`` is None, the record gets the
        current time.

        Raises `MessageTooLargeError` for a record larger than ``max_request_size``, `RecordSerializationError` if a
        serializer raised, and `ConfigError` (a ValueError) or `ConfigTypeError` (a TypeError) for invalid arguments.
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
        """Call `send` and wait until the record is acknowledged. Raises the error of the delivery.

        ``timeout_ms`` limits both together. If an accepted record is not acknowledged in time, this raises
        `RequestTimedOutError`, and the record may still be written. Without it, the limit is ``delivery_timeout_ms``.
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
        """Accept a record without waiting. Raises `BufferFull` if there is no space in ``buffer_memory``.

        A record for an unknown topic is kept until the topic is known, for at most ``max_block_ms``. Then its delivery
        raises the errors of `send`. Raises `IllegalStateError` if a serializer is a coroutine function. The producer
        cannot send while a loop makes these calls without an await, so await something regularly.
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
        """Accept many records and return a `DeliveryBatch`; await that for their outcomes.

        Returns once all records are in batches. ``keys`` and ``timestamps_ms`` have one entry per value. ``headers``
        has one entry per value, or is one list for all records. If a record is too large, only its outcome is the
        error. If there is no space for a record within ``max_block_ms``, or for all records within ``timeout_ms``, the
        outcome of the remaining records is `BufferFull`. Invalid arguments raise before any record is accepted. A
        cancelled call may have accepted the first records.
        """
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        return await self._engine.sends.send_many(topic, values, keys, partition, headers, timestamps_ms, deadline)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all accepted records without lingering, and wait until each is acknowledged or has failed.

        Raises `RequestTimedOutError` after ``timeout_ms``. Without it, the limit is each record's
        ``delivery_timeout_ms``. Errors of records are raised only by their deliveries.
        """
        await self._engine.flush(TIMEOUT("timeout_ms", timeout_ms))

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction[K, V]:
        """Return a transaction for ``async with``: committed at the end of the block, aborted if the block raises.

            async with producer.transaction() as txn:
                await txn.send("out", b"value")
                await txn.send_offsets(consumer)

        Entering the block raises the errors of `begin_transaction`; leaving it raises the errors of
        `commit_transaction`. If the block raises or is cancelled, the transaction is aborted, which takes a few seconds
        at most, and the error propagates. A `KafkaTimeoutError` becomes the cause of a `TransactionTimedOutError`, so a
        loop that repeats aborted transactions only has to catch `TransactionAbortedError`.
        """
        from .transaction import Transaction  # imported here and below, since most producers have no transactions

        return Transaction(self, self._own_transactions())

    async def begin_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Begin a transaction, which includes all records sent until it ends.

        Waits at most ``timeout_ms`` (``max_block_ms``) for the end of the previous transaction and for a producer id,
        and then raises `TransactionTimedOutError`. Raises `ProducerFencedError` once another producer uses the
        transactional id. If the outcome of the previous transaction was unknown, raises `CommitOutcomeUnknownError`
        while it still is, and `TransactionAbortedError` if that transaction was aborted.
        """
        await self._own_transactions().begin(timeout_s(timeout_ms))

    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Commit the open transaction atomically, and return when the commit is certain.

        Sends pending records and waits for them, then for the coordinator, together at most ``timeout_ms``
        (``max_block_ms``). If any record has failed, even if its delivery was not awaited, or is not acknowledged in
        time, the transaction is aborted, and this raises `TransactionAbortedError`; the transaction may be repeated.
        Raises `ProducerFencedError` when another producer has taken over the transactional id. Raises
        `CommitOutcomeUnknownError` if the coordinator does not answer in time; the call may then be repeated.
        Cancelling the call while records are in flight aborts the transaction. A later cancellation is raised once the
        outcome is known.
        """
        await self._own_transactions().commit(timeout_s(timeout_ms))

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Abort the open transaction; pending records fail with `TransactionAbortedError`.

        Does nothing if the latest transaction is already aborted. Raises `TransactionTimedOutError` after
        ``timeout_ms`` (``max_block_ms``). The abort continues after a timeout or a cancellation, and the next
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

        An offset names the next record to read. ``group_metadata`` is the result of `Consumer.group_metadata`, so that
        a member removed from the group cannot commit. For a consumer that uses `Consumer.assign`, it is the group's
        name. Raises `CommitFailedError` for a removed member, or another `KafkaError`. After an error or a cancellation
        the transaction can only be aborted.
        """
        from .._core.transactions.additions import OFFSETS, checked_group

        found = OFFSETS("offsets", offsets)
        group = checked_group(group_metadata)
        await self._own_transactions().send_offsets(found, group, timeout_s(timeout_ms))

    def transaction_health(self) -> TransactionHealth:
        """Return the state of the producer's transactions: phase, epoch, and the age of the open transaction.

        When a transaction is older than half of ``transaction_timeout_ms``, ``late`` is True, and one warning is
        logged.
        """
        return self._own_transactions().health()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str | None:
        """Transactional id of the producer; None without transactions."""
        return self._config.transactional_id

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the numbers of the topic's partitions.

        Waits at most ``timeout_ms`` (``max_block_ms``) for metadata, then raises `UnknownTopicOrPartitionError` if the
        topic is missing, or `RequestTimedOutError` if no broker has answered. Raises `TopicAuthorizationFailedError`
        and `InvalidTopicError`.
        """
        topic = topic_name("topic", topic)
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._engine.check()
        known = await self._client.metadata.topic(topic, self._config.max_block_ms if given is None else given)
        return frozenset(range(len(known.partitions)))

    def metrics(self) -> ProducerMetrics:
        """Return the producer's metrics, without sending requests. May be called at any time."""
        return self._engine.sender.metrics()

    def health(self) -> ProducerHealth:
        """Return the producer's health, for liveness probes, without sending requests. May be called at any time.

        ``healthy`` is False, with the reasons in ``problems``, if the producer is not running or has failed, if records
        have waited for twice ``request_timeout_ms`` without any acknowledgement, or if the cluster could not be reached
        for that time after `start`.
        """
        return self._engine.health()

    # --- internals ---------------------------------------------------------------------------------------------------

    @property
    def _takes_bytes(self) -> bool:
        """True if keys and values are sent unchanged, without serializers, as `Consumer.run` sends dead letters."""
        return self._engine.sends.takes_bytes

    async def _abort_refused(self) -> None:
        """Abort a failed transaction for `Consumer.run`, whose block has ended: no other code would abort it."""
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
            raise IllegalStateError("the producer has no transactions: it was created without transactional_id")
        self._transactions.check()
        return self._transactions


_SEND_METHODS = (Producer.send, Producer.send_nowait)
"""Methods that `QuickSend` replaces, unless a subclass or a tracer has already replaced them."""
