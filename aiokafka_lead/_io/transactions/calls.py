"""What the application calls: the transactional part of `Producer`, and a transaction as a block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Literal, Self, overload

from ..._accel import ACCELERATED
from ..._core.consumer.consumed import Consumed
from ..._core.consumer.record_batch import RecordBatch
from ..._core.producer.delivery import Delivery, DeliveryBatch
from ..._core.transactions.additions import OFFSETS, checked_group
from ..._core.transactions.phase import Phase
from ..._core.transactions.state import Fate, TransactionHealth
from ..._options.sent_types import K, V
from ...errors import (
    ConfigTypeError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    RequestTimedOutError,
    TransactionAbortedError,
    TransactionTimedOutError,
)
from ...types import ConsumerGroupMetadata, Header, OffsetAndMetadata, RecordMetadata, TopicPartition
from ..producer.send_methods import QuickSend, QuickSendNowait
from .manager import Transactions

__all__ = ["Transaction", "TransactionalCalls"]

_QUICK = ("send", "send_nowait")
"""What an open block has ways of its own for."""


class TransactionalCalls(Generic[K, V]):
    """The calls of a producer that was made with a ``transactional_id``; others raise `IllegalStateError`."""

    _transactions: Transactions | None

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

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent from now on is part of it, until its end.

        Waits for the end of the one before, and for a producer id, at most ``max_block_ms``. Raises
        `ProducerFencedError` once another producer has the transactional id, `TransactionTimedOutError` after
        ``max_block_ms``, and where the outcome of the transaction before was unknown, `CommitOutcomeUnknownError` while
        it still is, or `TransactionAbortedError` if it turned out to be that.
        """
        await self._own_transactions().begin()

    async def commit_transaction(self) -> None:
        """Commit the open transaction; returns when it is certain that all of it counts, at the same time.

        Sends what is pending and waits for it. Raises `TransactionAbortedError` if anything of it has failed, whether
        or not somebody awaited that: then it is aborted, and may be done again; `ProducerFencedError` when another
        producer has taken over the transactional id; `CommitOutcomeUnknownError` after ``max_block_ms``. Cancelled
        while records are on their way, it aborts; later it cannot be, and the cancellation is raised when the outcome
        is known.
        """
        await self._own_transactions().commit()

    async def abort_transaction(self) -> None:
        """Abort the open transaction: none of it counts. Records that are pending fail with `TransactionAbortedError`.

        Does nothing where the latest transaction is aborted already. Raises `TransactionTimedOutError` after
        ``max_block_ms``; the abort goes on then, as it does when the call is cancelled, and the next transaction waits
        for it.
        """
        await self._own_transactions().abort()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
    ) -> None:
        """Commit these offsets of a consumer group as part of the open transaction (KIP-98, KIP-447).

        An offset is that of the next record to read. ``group_metadata`` is that of `Consumer.group_metadata`, so that a
        member which the group has put out cannot commit; the group's name alone is for consumers that assign their
        partitions themselves. Raises `CommitFailedError` for such a member, or another `KafkaError`; then the
        transaction can only be aborted. A call that is cancelled leaves it so, too.
        """
        found = OFFSETS("offsets", offsets)
        group = checked_group(group_metadata)
        await self._own_transactions().send_offsets(found, group)

    def transaction_health(self) -> TransactionHealth:
        """How the producer's transactions are doing: phase, epoch, and the age of an open one. Possible at any time.

        Of one that is older than half of ``transaction_timeout_ms`` there is a warning in the log, once, and ``late``
        is true.
        """
        return self._own_transactions().health()

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


class Transaction(Generic[K, V]):
    """One transaction of a producer; see `Producer.transaction`. Its sends are those of the producer.

    They raise `IllegalStateError` after the end of the block: what a task that outlives it sends would become part of
    another transaction.
    """

    def __init__(self, producer: Any, transactions: Transactions) -> None:
        self._producer = producer
        self._transactions = transactions
        self._number = 0
        """0 before it begins."""
        self._fate: Fate | None = None

    @property
    def outcome(self) -> Literal["committed", "aborted", "unknown"] | None:
        """What became of the transaction; None while that is not known, "unknown" where it never will be.

        Told, too, where the end of the block was cancelled.
        """
        if self._fate is None or self._fate.outcome is None:
            return None
        return self._fate.outcome.value

    async def __aenter__(self) -> Self:
        if self._number:
            raise IllegalStateError("a transaction begins once: ask the producer for another one")
        await self._begin()
        self._fate = self._transactions.state.fate
        intake = self._transactions.intake_of_block()
        if intake is not None and ACCELERATED:
            own = vars(self)  # found before those of the class
            own["send"] = QuickSend(intake, self.send)
            own["send_nowait"] = QuickSendNowait(intake, self.send_nowait).send_nowait
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in _QUICK:
            vars(self).pop(name, None)  # they refer to this transaction, which would be left to the garbage collector
        if not self._transactions.is_open(self._number):
            return  # ended within the block
        if error is None:
            await self._commit()
        else:
            await self._leave(error)
            if isinstance(error, KafkaTimeoutError) and not isinstance(error, TransactionAbortedError):
                raise TransactionTimedOutError(f"the transaction was aborted: {error}") from error

    async def _begin(self) -> None:
        self._number = await self._transactions.begin()

    async def _commit(self) -> None:
        await self._transactions.commit()

    async def _leave(self, error: BaseException) -> None:
        await self._transactions.leave()

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[Header] | None = None,
    ) -> Delivery:
        """`Producer.send`, as part of this transaction."""
        self._check()
        delivery: Delivery = await self._producer.send(topic, value, key, partition, timestamp_ms, headers)
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
        """`Producer.send_and_wait`, as part of this transaction."""
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
        """`Producer.send_nowait`, as part of this transaction."""
        self._check()
        delivery: Delivery = self._producer.send_nowait(topic, value, key, partition, timestamp_ms, headers)
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
        """`Producer.send_many`, as part of this transaction."""
        self._check()
        batch: DeliveryBatch = await self._producer.send_many(topic, values, keys, partition, headers, timestamps_ms)
        return batch

    @overload
    async def send_offsets(self, offsets: Consumed, /) -> None: ...
    @overload
    async def send_offsets(
        self, offsets: Mapping[TopicPartition, int | OffsetAndMetadata], group_metadata: ConsumerGroupMetadata | str, /
    ) -> None: ...
    async def send_offsets(
        self,
        offsets: Consumed | Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str | None = None,
        /,
    ) -> None:
        """Commit a consumer's offsets with this transaction: behind all that a `Consumer`, or a batch, has handed out.

        No rebalance takes the partitions until the transaction has ended; where it is not committed, the consumer goes
        back to what was committed before, as it does after every later transaction of this producer that is not. Or
        given offsets of a group: see `Producer.send_offsets_to_transaction`. Raises `CommitFailedError` if the consumer
        has lost some of these partitions, or if records that were handed out come again, since a transaction before was
        aborted: then this one is, too.
        """
        self._check()
        if isinstance(offsets, Mapping):
            if group_metadata is None:
                raise ConfigTypeError("group_metadata is needed with offsets")
            await self._producer.send_offsets_to_transaction(offsets, group_metadata)
        elif hasattr(offsets, "_transaction_part"):
            await self._transactions.send_part(offsets)
        else:
            raise ConfigTypeError(f"offsets must be a Consumer, one of its batches or a dict, not {offsets!r}")

    async def commit_batch(self, batch: RecordBatch[Any, Any]) -> None:
        """Commit one batch of `Consumer.batches` with this transaction, that is the offset behind it.

        As `send_offsets` does with a batch; raises `CommitFailedError` if the batch was taken away, or comes again
        since a transaction was aborted, and `IllegalStateError` for one of a consumer without a ``group_id``.
        """
        self._check()
        await self._transactions.send_part(batch)

    def _check(self) -> None:
        self._transactions.state.check_open(self._number)
