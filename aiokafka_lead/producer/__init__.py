"""Producer of records to Kafka topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, Self

from .._accel import ACCELERATED
from .._core.producer.delivery import Delivery, DeliveryBatch
from .._io.client import Client, Elsewhere, Facade, configured
from .._io.deadline import Deadline
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
    """Producer that writes records to topics.

        async with Producer("localhost:9092") as producer:
            delivery = await producer.send("events", b"value", key=b"key")
            metadata = await delivery

    Records are collected in a batch for each partition, and a background task sends the batches. Idempotence is on by
    default, so each record is written once and in order, even if brokers and connections fail. `ProducerOptions`
    describes the options.

    Keys and values are bytes, or objects that ``key_serializer`` and ``value_serializer`` convert to bytes. None is
    never serialized. A serializer takes the key or value, and optionally a `SerializationContext`. It may be a
    coroutine function; `send`, `send_and_wait` and `send_many` then await it. Records are accepted in the order in
    which their serializers finish.

    A producer belongs to the event loop that started it. Any number of tasks of that loop may use it. All times are in
    milliseconds.
    """

    if not TYPE_CHECKING:
        produce = Elsewhere("await send()")

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
        """Check the options, without connecting.

        Give either ``bootstrap_servers`` or a ``client``, whose connections the producer then uses, like
        `Client.producer`. Raises `ConfigError` or `ConfigTypeError` for an invalid option.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._set_up(*configured(ProducerConfig, bootstrap_servers, client, options, **more))

    @classmethod
    def _beside(cls, client: Client, **options: Any) -> Self:
        """Create a producer with the connection options of this client, and with its connections if it shares them."""
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
        """Connect to the cluster; with a ``transactional_id``, also fence earlier producers with that id.

        Connecting takes at most ``timeout_ms`` (default: ``request_timeout_ms``). Fencing takes at most the rest of
        ``timeout_ms`` (default: ``max_block_ms``).

        If ``wait`` is False, the call returns immediately, and the producer keeps trying to connect in the background,
        so an application can start while Kafka is down. `send` waits for the connection, and raises the connection
        error after ``max_block_ms``, or immediately if waiting cannot help. The first transaction then fences earlier
        producers.

        Raises `KafkaConnectionError`, with the reason for each bootstrap server, if no server can be used in time.
        Raises authentication and TLS errors unchanged. After an error or a cancellation, the producer is stopped and
        cannot be started again.
        """
        await self._client.start(wait=boolean("wait", wait), timeout_ms=TIMEOUT("timeout_ms", timeout_ms))
        engine = self._engine
        if ACCELERATED and engine.sends.as_they_come and (type(self).send, type(self).send_nowait) == _SEND_METHODS:
            own = vars(self)  # attributes of the instance take precedence over methods of the class
            own.setdefault("send", QuickSend(engine.intake, self.send))
            own.setdefault("send_nowait", QuickSendNowait(engine.intake, self.send_nowait).send_nowait)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send pending records and close every connection.

        The call takes at most ``timeout_ms``, even if no broker answers. Without ``timeout_ms``, the limit is the
        ``delivery_timeout_ms`` of the pending records. Records that are not acknowledged in time fail with
        `ClientClosedError`. An open transaction is aborted, and its pending records are not sent. If the call is
        cancelled, the producer drops pending records and closes the connections. The method may be called repeatedly.
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
        """Accept a record and return its `Delivery`. Await the delivery for the acknowledgement.

            delivery = await producer.send("events", b"value", key=b"key", headers=[("trace", b"1")])
            metadata = await delivery  # a RecordMetadata, with the partition and the offset

        The call returns once the record is in a batch. If ``partition`` is None, the partitioner chooses the partition,
        by default from the key. ``timestamp_ms`` is in milliseconds since the epoch (default: the current time).
        ``headers`` are pairs of a str and bytes. A ``value`` of None deletes the key from a compacted topic.

        The call waits for metadata and for space in ``buffer_memory``, at most ``timeout_ms`` (default:
        ``max_block_ms``), not counting the time of serializers. After that time it raises `BufferFull` if there is no
        space, or the errors of `partitions_for` if the topic is unknown. A call that raises an error or is cancelled
        has not accepted the record.

        Raises `MessageTooLargeError` for a record larger than ``max_request_size``, and `RecordSerializationError` if a
        serializer raised an error. Raises `ConfigError` (a ValueError) or `ConfigTypeError` (a TypeError) for invalid
        arguments, for example a ``partition`` that the topic does not have.
        """
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        append = self._append  # CPython 3.11 specializes this attribute access only apart from the call (PEP 659)
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
        """Send a record, wait until it is acknowledged, and return its partition and offset.

            metadata = await producer.send_and_wait("events", b"value")

        See `send` for the arguments. Raises the errors of `send`, and the error of the delivery if the record fails.
        ``timeout_ms`` limits the whole call (default: the limits of `send` and ``delivery_timeout_ms``). If an accepted
        record is not acknowledged in time, the call raises `RequestTimedOutError`. After this error or a cancellation,
        the record may still be written.
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
        """Accept a record without waiting, and return its `Delivery`.

        See `send` for the arguments. Raises `BufferFull` if there is no space in ``buffer_memory``, `IllegalStateError`
        if a serializer is a coroutine function, and the errors of `send` for arguments and serializers. A record for an
        unknown topic is kept until the topic is known, but at most ``max_block_ms``; after that time, awaiting its
        delivery raises the errors of `partitions_for`.

        A loop that calls this method must await regularly, because the producer can send records only while the loop
        awaits.
        """
        append = self._append  # CPython 3.11 specializes this attribute access only apart from the call (PEP 659)
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
        """Accept many records and return a `DeliveryBatch`. Await the batch for the outcome of each record.

            batch = await producer.send_many("events", [b"a", b"b"], keys=[b"1", b"2"])
            failed = [outcome for outcome in await batch if isinstance(outcome, KafkaError)]

        The call returns once all records are in batches. ``keys`` and ``timestamps_ms`` have one entry for each value.
        ``headers`` has one entry for each value, or is one list of headers for all records. All records go to
        ``partition`` or, if it is None, to the partitions that the partitioner chooses.

        The call waits at most ``max_block_ms`` for each record, or ``timeout_ms`` for all records (default: no limit).
        If the first record cannot be accepted in time, the call raises the error of `send`, such as `BufferFull`. If a
        later record cannot be accepted, this error becomes the outcome of that record and all records after it. A
        record that is too large does not affect the records after it.

        Invalid arguments raise an error before any record is accepted. A cancelled call may have accepted the first
        records.
        """
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        return await self._engine.sends.send_many(topic, values, keys, partition, headers, timestamps_ms, deadline)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all accepted records without lingering, and wait until each is acknowledged or has failed.

        Raises `RequestTimedOutError` after ``timeout_ms``; the records are still sent. Without ``timeout_ms``, the
        limit is the ``delivery_timeout_ms`` of each record. The call does not raise the error of a failed record; await
        the record's delivery for that.
        """
        await self._engine.flush(TIMEOUT("timeout_ms", timeout_ms))

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction[K, V]:
        """Return a transaction for ``async with``.

            async with producer.transaction() as txn:
                await txn.send("out", b"value")
                await txn.send_offsets(consumer)

        The transaction is committed at the end of the block. If the block raises an error or is cancelled, the
        transaction is aborted within a few seconds, and the error propagates.

        Entering the block raises the errors of `begin_transaction`; leaving it raises the errors of
        `commit_transaction`. A `KafkaTimeoutError` in the block becomes the cause of a `TransactionTimedOutError`, a
        subclass of `TransactionAbortedError`. To repeat aborted transactions, catch only `TransactionAbortedError`.
        """
        from .transaction import Transaction  # imported here and below, because most producers have no transactions

        return Transaction(self, self._own_transactions())

    async def begin_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Begin a transaction, which includes all records sent until it ends.

        The call waits at most ``timeout_ms`` (default: ``max_block_ms``) for the end of the previous transaction and
        for a producer id. After that time it raises `TransactionTimedOutError`. After this error or a cancellation, no
        transaction is open, and the call may be repeated.

        Raises `ProducerFencedError` if another producer uses the transactional id, `IllegalStateError` if a transaction
        is already open, `CommitOutcomeUnknownError` if the outcome of the previous transaction is still unknown, and
        `TransactionAbortedError` if the previous transaction turns out to have been aborted.
        """
        await self._own_transactions().begin(timeout_s(timeout_ms))

    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Commit the open transaction, and return when the commit is certain.

        The call sends pending records, waits until they are acknowledged, and then waits for the transaction
        coordinator. All this takes at most ``timeout_ms`` (default: ``max_block_ms``).

        If a record has failed, even one whose delivery was not awaited, or is not acknowledged in time, the call aborts
        the transaction and raises `TransactionAbortedError`. The transaction may then be repeated.

        Raises `CommitOutcomeUnknownError` if the coordinator does not answer in time; call this method again to learn
        the outcome. Raises `ProducerFencedError` if another producer has taken over the transactional id.

        A cancellation while records are in flight aborts the transaction. A later cancellation is raised once the
        outcome is known.
        """
        await self._own_transactions().commit(timeout_s(timeout_ms))

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Abort the open transaction.

        Pending records fail with `TransactionAbortedError`. If the latest transaction has already been aborted, the
        call does nothing. Raises `IllegalStateError` if no transaction is open, and `TransactionTimedOutError` after
        ``timeout_ms`` (default: ``max_block_ms``). After a timeout or a cancellation, the abort continues in the
        background, and the next transaction waits for it.
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

        Each value is the offset of the next record to read. Pass the result of `Consumer.group_metadata` as
        ``group_metadata``, so that the broker rejects offsets of a member that was removed from the group. For a
        consumer that uses `Consumer.assign`, pass the name of the group.

        Raises `CommitFailedError` for a removed member, `TransactionTimedOutError` after ``timeout_ms`` (default:
        ``max_block_ms``), or another `KafkaError`. After an error or a cancellation, the transaction can only be
        aborted.

            offsets = {TopicPartition("in", 0): record.offset + 1}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        """
        from .._core.transactions.additions import OFFSETS, checked_group

        found = OFFSETS("offsets", offsets)
        group = checked_group(group_metadata)
        await self._own_transactions().send_offsets(found, group, timeout_s(timeout_ms))

    def transaction_health(self) -> TransactionHealth:
        """Return the state of the producer's transactions: phase, epoch, and age of the open transaction.

        The call sends no requests. When a transaction is older than half of ``transaction_timeout_ms``, ``late`` is
        True, and one warning is logged. Raises `IllegalStateError` without a ``transactional_id``.
        """
        return self._own_transactions().health()

    # --- state -------------------------------------------------------------------------------------------------------

    @property
    def transactional_id(self) -> str | None:
        """Transactional id of the producer, or None if it has no transactions."""
        return self._config.transactional_id

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """Return the numbers of the topic's partitions.

        The call waits at most ``timeout_ms`` (default: ``max_block_ms``) for metadata. After that time it raises
        `UnknownTopicOrPartitionError` if the topic is missing, or `RequestTimedOutError` if no broker has answered. It
        raises `TopicAuthorizationFailedError` or `InvalidTopicError` immediately.
        """
        topic = topic_name("topic", topic)
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._engine.check()
        known = await self._client.metadata.topic(topic, self._config.max_block_ms if given is None else given)
        return frozenset(range(len(known.partitions)))

    def metrics(self) -> ProducerMetrics:
        """Return the producer's metrics: counters since its creation, and the state of its buffer.

        The call sends no requests and may be made at any time.
        """
        return self._engine.sender.metrics()

    def health(self) -> ProducerHealth:
        """Return the producer's health, for liveness probes.

        The call sends no requests and may be made at any time. ``healthy`` is False, with the reasons in ``problems``,
        in these cases:

        - The producer is not running or has failed.
        - Records have waited for twice ``request_timeout_ms`` without any acknowledgement.
        - The cluster could not be reached for twice ``request_timeout_ms`` after `start`.
        """
        return self._engine.health()

    # --- internals ---------------------------------------------------------------------------------------------------

    @property
    def _takes_bytes(self) -> bool:
        """True if keys and values are sent unchanged, without serializers, as `Consumer.run` sends dead letters."""
        return self._engine.sends.takes_bytes

    async def _abort_refused(self) -> None:
        """Abort a failed transaction for `Consumer.run`.

        The transaction's block has ended, so no other code would abort it.
        """
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
            raise IllegalStateError("the producer has no transactions: create it with a transactional_id")
        self._transactions.check()
        return self._transactions


_SEND_METHODS = (Producer.send, Producer.send_nowait)
"""Methods that `QuickSend` replaces, unless a subclass or a tracer has already replaced them."""
