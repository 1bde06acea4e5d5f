"""A producer's transaction as an ``async with`` block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Generic, Literal, Self, overload

from .. import errors
from .._accel import ACCELERATED
from .._core.consumer.consumed import Consumed
from .._core.consumer.record_batch import RecordBatch
from .._core.producer.delivery import Delivery, DeliveryBatch
from .._core.transactions.state import Fate
from .._io.deadline import Deadline
from .._io.producer.checked_sends import CheckedSends
from .._io.producer.send_methods import QuickSend, QuickSendNowait
from .._io.transactions.manager import Transactions
from .._options.arguments import TIMEOUT, timeout_s
from .._options.sent_types import K, V
from ..types import ConsumerGroupMetadata, Header, OffsetAndMetadata, RecordMetadata, TopicPartition
from ._engine import within

__all__ = ["Transaction"]

_QUICK = ("send", "send_nowait")
"""Methods that an open block replaces with faster ones."""


class Transaction(Generic[K, V]):
    """One transaction of a producer, with the methods that send its records; see `Producer.transaction`.

    After the end of the block, these methods raise `IllegalStateError`. Otherwise, a task that outlives the block could
    add records to a later transaction.
    """

    def __init__(self, producer: Any, transactions: Transactions) -> None:
        self._producer = producer
        self._transactions = transactions
        self._number = 0
        """0 before it begins."""
        self._fate: Fate | None = None

    @property
    def outcome(self) -> Literal["committed", "aborted", "unknown"] | None:
        """Outcome of the transaction, or None before it is known.

        "unknown" means that the outcome will never be known. The outcome is set even if the end of the block was
        cancelled.
        """
        if self._fate is None or self._fate.outcome is None:
            return None
        return self._fate.outcome.value

    async def __aenter__(self) -> Self:
        if self._number:
            raise errors.IllegalStateError("this transaction has already begun: call transaction() for another")
        await self._begin()
        self._fate = self._transactions.state.fate
        intake = self._transactions.intake_of_block()
        self._append = intake.append
        self._sends: CheckedSends = self._producer._engine.sends.through(intake)
        if ACCELERATED and self._sends.as_they_come:
            own = vars(self)  # attributes of the instance take precedence over methods of the class
            own["send"] = QuickSend(intake, self.send)
            own["send_nowait"] = QuickSendNowait(intake, self.send_nowait).send_nowait
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in _QUICK:
            vars(self).pop(name, None)  # breaks a reference cycle, which only the garbage collector would free
        if not self._transactions.is_open(self._number):
            return  # the block has committed or aborted it
        if error is None:
            await self._commit()
        else:
            await self._leave(error)
            if isinstance(error, errors.KafkaTimeoutError) and not isinstance(error, errors.TransactionAbortedError):
                raise errors.TransactionTimedOutError(f"the transaction was aborted: {error}") from error

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
        *,
        timeout_ms: float | None = None,
    ) -> Delivery:
        """Send a record in this transaction; see `Producer.send`."""
        self._check()
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        delivery = self._append(topic, value, key, partition, timestamp_ms, headers)
        if delivery is None:
            delivery = await self._sends.send(topic, value, key, partition, timestamp_ms, headers, deadline)
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
        """Send a record in this transaction and wait for the acknowledgement; see `Producer.send_and_wait`."""
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
        """Send a record in this transaction without waiting; see `Producer.send_nowait`."""
        self._check()
        delivery = self._append(topic, value, key, partition, timestamp_ms, headers)
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
        *,
        timeout_ms: float | None = None,
    ) -> DeliveryBatch:
        """Send many records in this transaction; see `Producer.send_many`."""
        self._check()
        deadline = None if timeout_ms is None else Deadline(TIMEOUT("timeout_ms", timeout_ms))
        return await self._sends.send_many(topic, values, keys, partition, headers, timestamps_ms, deadline)

    @overload
    async def send_offsets(self, offsets: Consumed, /, *, timeout_ms: float | None = None) -> None: ...
    @overload
    async def send_offsets(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str,
        /,
        *,
        timeout_ms: float | None = None,
    ) -> None: ...
    async def send_offsets(
        self,
        offsets: Consumed | Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata | str | None = None,
        /,
        *,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit offsets of a consumer group with this transaction.

            await txn.send_offsets(consumer)  # after all records that the consumer has returned
            await txn.send_offsets(batch)  # after the records of a batch of Consumer.batches
            await txn.send_offsets({TopicPartition("in", 0): 42}, consumer.group_metadata())

        The third form takes the arguments of `Producer.send_offsets_to_transaction`, and raises its errors. The first
        two forms also control the consumer. A rebalance waits for the end of the transaction before it takes the
        partitions away. If this transaction or a later one of the producer is not committed, the consumer returns to
        the committed offsets.

        If the consumer has lost some of these partitions, or returns records again after an earlier aborted
        transaction, the call aborts this transaction and raises `CommitFailedError`. Repeat the block with the records
        that the consumer then returns. Raises `IllegalStateError` for a consumer with ``enable_auto_commit=True``,
        which would also commit records of aborted transactions. Raises `TransactionTimedOutError` after ``timeout_ms``
        (default: ``max_block_ms``).
        """
        within_s = timeout_s(timeout_ms)
        self._check()
        if isinstance(offsets, Mapping):
            if group_metadata is None:
                raise errors.ConfigTypeError("offsets need group_metadata: pass Consumer.group_metadata()")
            await self._producer.send_offsets_to_transaction(offsets, group_metadata, timeout_ms=timeout_ms)
        elif hasattr(offsets, "_transaction_part"):
            await self._transactions.send_part(offsets, within_s)
        else:
            raise errors.ConfigTypeError(f"offsets must be a Consumer, one of its batches or a dict, not {offsets!r}")

    async def commit_batch(self, batch: RecordBatch[Any, Any], *, timeout_ms: float | None = None) -> None:
        """Commit the offset after a batch of `Consumer.batches` with this transaction.

        This is `send_offsets` with the batch. Raises `CommitFailedError` if the partition was taken away from the
        consumer, or if the batch is returned again because a transaction was aborted. Raises `IllegalStateError` for a
        batch of a consumer without a ``group_id``, or with ``enable_auto_commit=True``, and `TransactionTimedOutError`
        after ``timeout_ms`` (default: ``max_block_ms``).
        """
        within_s = timeout_s(timeout_ms)
        self._check()
        await self._transactions.send_part(batch, within_s)

    def _check(self) -> None:
        self._transactions.state.check_open(self._number)

    def _watch(self) -> Callable[[], int]:
        """Return a function that counts uses of the producer outside this block, for `Consumer.run`."""
        return self._transactions.watch()
