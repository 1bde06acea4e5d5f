"""The producer: records into Kafka topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self

from .._accel import ACCELERATED
from .._core.producer.delivery import Delivery, DeliveryBatch
from .._core.transactions.additions import OFFSETS, checked_group
from .._core.transactions.phase import Phase
from .._io.client import Client, configured
from .._io.producer.send_methods import QuickSend, QuickSendNowait
from .._io.pushed_metrics import PushedMetrics
from .._io.transactions.manager import Transactions
from .._options.arguments import TIMEOUT, topic_name
from .._options.checks import boolean, discreet
from .._options.sent_types import K, V
from ..config import ProducerConfig, SharedClient
from ..errors import (
    IllegalStateError,
    KafkaError,
    RequestTimedOutError,
)
from ..health import ProducerHealth, TransactionHealth
from ..metrics import ProducerMetrics, ProducerTopicMetrics
from ..types import ConsumerGroupMetadata, Header, OffsetAndMetadata, RecordMetadata, TopicPartition
from ._engine import ProducerEngine
from .transaction import Transaction

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .._options.serialization import Serializer
    from ..config import ProducerBaseOptions


__all__ = ["Delivery", "DeliveryBatch", "Producer", "ProducerHealth", "ProducerMetrics", "ProducerTopicMetrics"]


class Producer(PushedMetrics, Generic[K, V]):
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
        """Check the options; connects to nothing. Raises `ConfigError` or `ConfigTypeError`.

        With a ``client`` it uses that one's connections, and is what `Client.producer` makes.
        """
        more = {"key_serializer": key_serializer, "value_serializer": value_serializer}
        self._set_up(*configured(ProducerConfig, bootstrap_servers, client, options, **more))

    @classmethod
    def _beside(cls, client: Client, **options: Any) -> Self:
        """One that connects as this client does, and shares the connections that it shares."""
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
        await self._client.start(wait=boolean("wait", wait))
        engine = self._engine
        if ACCELERATED and engine.sends.as_they_come and (type(self).send, type(self).send_nowait) == _SEND_METHODS:
            own = vars(self)  # found before those of the class
            own.setdefault("send", QuickSend(engine.intake, self.send))
            own.setdefault("send_nowait", QuickSendNowait(engine.intake, self.send_nowait).send_nowait)

    async def stop(self, timeout_ms: float | None = None) -> None:
        """Send what is pending and close every connection, within ``timeout_ms`` whatever the brokers do.

        Records that are not acknowledged by then fail with `ClientClosedError`. Without a timeout they have their
        ``delivery_timeout_ms``. May be called again. A cancelled stop gives up what is pending, and closes. An
        open transaction is aborted, and what is pending of it is not sent.
        """
        await self._client.stop(TIMEOUT("timeout_ms", timeout_ms))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop(self._config.close_timeout_ms)

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
            delivery = await self._engine.sends.send(topic, value, key, partition, timestamp_ms, headers)
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
    ) -> DeliveryBatch:
        """Take many records; returns a `DeliveryBatch` as soon as all are in batches: await that for their outcomes.

        ``keys`` and ``timestamps_ms`` have one entry for each value; ``headers`` has, too, or is one list for all. A
        record that is too large fails alone: its outcome is the error. Where there is no room within ``max_block_ms``,
        the outcome of the rest is `BufferFull`. Wrong arguments raise before any record is taken. A call that is
        cancelled may have taken some of the first ones.
        """
        return await self._engine.sends.send_many(topic, values, keys, partition, headers, timestamps_ms)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send everything that was taken so far without lingering, and wait until it is acknowledged or failed.

        Raises `RequestTimedOutError` after ``timeout_ms``; without one, every record has its ``delivery_timeout_ms``.
        Does not raise what records failed with: their deliveries do.
        """
        await self._engine.flush(TIMEOUT("timeout_ms", timeout_ms))

    # --- transactions ------------------------------------------------------------------------------------------------

    def transaction(self) -> Transaction[K, V]:
        """A transaction, for ``async with``: committed at the end of the block, aborted when that raises.

            async with producer.transaction() as txn:
                await txn.send("out", b"value")
                await txn.send_offsets(consumer)

        Entering the block raises what `begin_transaction` raises, and leaving it what `commit_transaction` does. A
        block that is cancelled, or raises, aborts: that takes a few seconds at most, and then its own error goes on.
        Only a time-out of Kafka's, a `KafkaTimeoutError`, goes on as `TransactionTimedOutError`, with itself as the
        cause: a loop that does aborted transactions again need not know every way in which an outage shows.
        """
        return Transaction(self, self._own_transactions())

    async def begin_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Begin a transaction: what is sent from now on is part of it, until its end.

        Waits for the end of the one before, and for a producer id, at most ``timeout_ms`` (``max_block_ms``). Raises
        `ProducerFencedError` once another producer has the transactional id, `TransactionTimedOutError` after
        that time, and where the outcome of the transaction before was unknown, `CommitOutcomeUnknownError` while
        it still is, or `TransactionAbortedError` if it turned out to be that.
        """
        await self._own_transactions().begin(_seconds(timeout_ms))

    async def commit_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Commit the open transaction; returns when it is certain that all of it counts, at the same time.

        Sends what is pending and waits for it. Raises `TransactionAbortedError` if anything of it has failed, whether
        or not somebody awaited that: then it is aborted, and may be done again; `ProducerFencedError` when another
        producer has taken over the transactional id; `CommitOutcomeUnknownError` after ``timeout_ms``
        (``max_block_ms``), and then it may be called again. Cancelled while records are on their way, it aborts; later
        it cannot be, and the cancellation is raised when the outcome is known.
        """
        await self._own_transactions().commit(_seconds(timeout_ms))

    async def abort_transaction(self, *, timeout_ms: float | None = None) -> None:
        """Abort the open transaction: none of it counts. Records that are pending fail with `TransactionAbortedError`.

        Does nothing where the latest transaction is aborted already. Raises `TransactionTimedOutError` after
        ``timeout_ms`` (``max_block_ms``); the abort goes on then, as it does when the call is cancelled, and the next
        transaction waits for it.
        """
        await self._own_transactions().abort(_seconds(timeout_ms))

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit these offsets of a consumer group as part of the open transaction (KIP-98, KIP-447).

        An offset is that of the next record to read. ``group_metadata`` is that of `Consumer.group_metadata`, so that a
        member which the group has put out cannot commit; the group's name alone is for consumers that assign their
        partitions themselves. Raises `CommitFailedError` for such a member, `TransactionTimedOutError` after
        ``timeout_ms`` (``max_block_ms``), or another `KafkaError`; then the transaction can only be aborted. A call
        that is cancelled leaves it so, too.
        """
        found = OFFSETS("offsets", offsets)
        group = checked_group(group_metadata)
        await self._own_transactions().send_offsets(found, group, _seconds(timeout_ms))

    def transaction_health(self) -> TransactionHealth:
        """How the producer's transactions are doing: phase, epoch, and the age of an open one. Possible at any time.

        Of one that is older than half of ``transaction_timeout_ms`` there is a warning in the log, once, and ``late``
        is true.
        """
        return self._own_transactions().health()

    # --- the rest ----------------------------------------------------------------------------------------------------

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
        return self._engine.sends.takes_bytes

    async def partitions_for(self, topic: str, *, timeout_ms: float | None = None) -> frozenset[int]:
        """The topic's partitions; waits for metadata at most ``timeout_ms`` (``max_block_ms``)."""
        topic = topic_name("topic", topic)
        given = TIMEOUT("timeout_ms", timeout_ms)
        self._engine.check()
        known = await self._client.metadata.topic(topic, self._config.max_block_ms if given is None else given)
        return frozenset(range(len(known.partitions)))

    def metrics(self) -> ProducerMetrics:
        """What this producer has done so far, in numbers. The call is cheap, and possible at any time."""
        return self._engine.sender.metrics()

    def health(self) -> ProducerHealth:
        """Whether this producer makes progress, for liveness probes. Costs no request; may be called at any time.

        ``healthy`` is False, and ``problems`` say why, when it is not running or has failed, when records have waited
        for twice ``request_timeout_ms`` and none was acknowledged meanwhile, or when the cluster could not be reached
        for as long after `start`.
        """
        return self._engine.health()

    # --- inside ------------------------------------------------------------------------------------------------------

    async def _abort_refused(self) -> None:
        """For `Consumer.run`: nobody else ends a transaction whose block has been left."""
        transactions = self._own_transactions()
        if transactions.state.phase is Phase.FAILED:
            with suppress(RequestTimedOutError):  # it goes on, and the next transaction waits for it
                await transactions.abort()

    def _take_failure(self) -> KafkaError | None:
        """For `Consumer.run`: a commit has raised its failure already."""
        return None

    def _own_transactions(self) -> Transactions:
        if self._transactions is None:
            raise IllegalStateError("the producer has no transactions: it was made without transactional_id")
        self._transactions.check()
        return self._transactions


_SEND_METHODS = (Producer.send, Producer.send_nowait)
"""The methods that `QuickSend` stands in for. Those of a subclass, or of a tracer that replaced them, are called."""


def _seconds(timeout_ms: float | None) -> float | None:
    given: float | None = TIMEOUT("timeout_ms", timeout_ms)
    return None if given is None else given / 1000
