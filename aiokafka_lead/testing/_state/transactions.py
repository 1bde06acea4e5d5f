"""Transactions (KIP-98, KIP-360, KIP-890): who may write, what is open, how it ends.

Markers are written at once, so that a transaction is never seen between its decision and its end; the broker's answer
for that moment, CONCURRENT_TRANSACTIONS, can be had by a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from ...errors import (
    BrokerError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from .clock import Clock, TimerHandle
from .topics import Partition

_EPOCH_MAX = 2**15 - 2
"""A producer whose epoch would pass this gets another id (Java: ``isEpochExhausted``)."""

_TIMEOUT_MAX_MS = 900_000
"""transaction.max.timeout.ms"""


class TxnState(Enum):
    """A transactional id's state, with the names that DescribeTransactions tells."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class Transaction:
    """What the coordinator knows of one transactional id."""

    __slots__ = (
        "epoch",
        "groups",
        "partitions",
        "producer_id",
        "started_ms",
        "state",
        "timeout_ms",
        "timer",
        "transactional_id",
    )

    def __init__(self, transactional_id: str, producer_id: int, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.epoch = 0
        self.timeout_ms = timeout_ms
        self.state = TxnState.EMPTY
        # Written to since the transaction began, in order.
        self.partitions: dict[Partition, None] = {}
        # Consumer groups whose offsets are part of it.
        self.groups: set[str] = set()
        # Of the last transaction: wall clock, -1 before the first.
        self.started_ms = -1
        self.timer: TimerHandle | None = None


class TransactionCoordinator:
    """All transactional ids of the cluster."""

    def __init__(
        self,
        clock: Clock,
        now_ms: Callable[[], int],
        next_producer_id: Callable[[], int],
        offsets_decided: Callable[[int, bool], None],
    ) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._next_producer_id = next_producer_id
        # Told (producer id, committed) when a transaction ends: offsets that were part of it count from then on.
        self._offsets_decided = offsets_decided
        self.transactions: dict[str, Transaction] = {}
        self._by_producer_id: dict[int, Transaction] = {}

    def init_producer_id(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """A producer id and epoch; whoever had the transactional id before is fenced, and its transaction aborted.

        ``producer_id`` and ``epoch`` are those of a producer that goes on after an error (KIP-360), else -1.
        """
        if not 0 < timeout_ms <= _TIMEOUT_MAX_MS:
            raise InvalidTransactionTimeoutError(f"transaction timeout {timeout_ms} ms is not in 1..{_TIMEOUT_MAX_MS}")
        txn = self.transactions.get(transactional_id)
        if txn is None:
            txn = Transaction(transactional_id, self._next_producer_id(), timeout_ms)
            self.transactions[transactional_id] = self._by_producer_id[txn.producer_id] = txn
            return txn.producer_id, txn.epoch
        if producer_id >= 0 and (producer_id != txn.producer_id or epoch not in (txn.epoch, txn.epoch - 1)):
            raise ProducerFencedError(f"{transactional_id} belongs to producer {txn.producer_id} epoch {txn.epoch}")
        txn.timeout_ms = timeout_ms
        if 0 <= epoch < txn.epoch:
            # The same request again: its first answer was lost.
            return txn.producer_id, txn.epoch
        if txn.state is TxnState.ONGOING:
            self._bump(txn)
            self._finish(txn, committed=False)
        self._bump(txn)
        txn.state = TxnState.EMPTY
        return txn.producer_id, txn.epoch

    def add_partitions(
        self, transactional_id: str, producer_id: int, epoch: int, partitions: Iterable[Partition]
    ) -> None:
        txn = self._checked(transactional_id, producer_id, epoch)
        self._begin(txn)
        txn.partitions.update(dict.fromkeys(partitions))

    def add_group(self, transactional_id: str, producer_id: int, epoch: int, group_id: str) -> None:
        txn = self._checked(transactional_id, producer_id, epoch)
        self._begin(txn)
        txn.groups.add(group_id)

    def verify_write(
        self,
        transactional_id: str | None,
        producer_id: int,
        epoch: int,
        partition: Partition,
        *,
        add: bool,
        not_part_of_it: type[BrokerError],
    ) -> None:
        """Let a producer write to a partition within its transaction; ``add``: the write makes it part of it.

        ``not_part_of_it`` is the error that the client knows for a partition that was not added before.
        """
        txn = self._by_producer_id.get(producer_id)
        if txn is None or transactional_id not in (None, txn.transactional_id):
            raise InvalidProducerIdMappingError(f"producer {producer_id} does not belong to {transactional_id}")
        if epoch != txn.epoch:
            raise InvalidProducerEpochError(f"producer {producer_id} is at epoch {txn.epoch}, not {epoch}")
        if add:
            self._begin(txn)
            txn.partitions[partition] = None
        elif txn.state is not TxnState.ONGOING or partition not in txn.partitions:
            raise not_part_of_it(
                f"{partition.topic.name}-{partition.index} is not part of a transaction of {transactional_id}"
            )

    def verify_offsets(self, transactional_id: str, producer_id: int, epoch: int, group_id: str, *, add: bool) -> None:
        """The same for offsets of a group."""
        txn = self._checked(transactional_id, producer_id, epoch)
        if add:
            self._begin(txn)
            txn.groups.add(group_id)
        elif txn.state is not TxnState.ONGOING or group_id not in txn.groups:
            raise InvalidTxnStateError(f"group {group_id} is not part of a transaction of {transactional_id}")

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, committed: bool, bump: bool
    ) -> tuple[int, int]:
        """Commit or abort; returns the producer's id and epoch from now on.

        ``bump``: each transaction has an epoch of its own (KIP-890, EndTxn 5), so that nothing late can slip into
        the next one.
        """
        done = TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT
        txn = self.transactions.get(transactional_id)
        if bump and txn is not None and txn.producer_id == producer_id and epoch == txn.epoch - 1 and txn.state is done:
            # The same request again: its first answer was lost.
            return txn.producer_id, txn.epoch
        txn = self._checked(transactional_id, producer_id, epoch)
        if txn.state is TxnState.ONGOING:
            if bump:
                self._bump(txn)
            self._finish(txn, committed=committed)
        elif bump and not committed:
            # An abort of nothing still starts a new epoch.
            self._bump(txn)
            txn.state = TxnState.COMPLETE_ABORT
        elif txn.state is not done:
            raise InvalidTxnStateError(f"{transactional_id} is {txn.state.value}: nothing to end")
        return txn.producer_id, txn.epoch

    def _checked(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        txn = self.transactions.get(transactional_id)
        if txn is None or txn.producer_id != producer_id:
            raise InvalidProducerIdMappingError(f"{transactional_id} does not belong to producer {producer_id}")
        if txn.epoch != epoch:
            raise ProducerFencedError(f"{transactional_id} is at epoch {txn.epoch}, not {epoch}")
        return txn

    def _begin(self, txn: Transaction) -> None:
        if txn.state is TxnState.ONGOING:
            return
        txn.state = TxnState.ONGOING
        txn.started_ms = self._now_ms()
        txn.timer = self._clock.call_at(self._clock.now() + txn.timeout_ms / 1000, lambda: self._timed_out(txn))

    def _timed_out(self, txn: Transaction) -> None:
        """The coordinator aborts what takes too long, and fences who has begun it."""
        if txn.state is TxnState.ONGOING:
            self._bump(txn)
            self._finish(txn, committed=False)

    def _finish(self, txn: Transaction, *, committed: bool) -> None:
        for partition in txn.partitions:
            try:
                partition.log.end_transaction(
                    txn.producer_id,
                    txn.epoch,
                    committed=committed,
                    coordinator_epoch=0,
                    leader_epoch=partition.leader_epoch,
                    now_ms=self._now_ms(),
                )
            except BrokerError:
                # A newer epoch wrote here meanwhile: its transaction is another one.
                continue
            partition.notify()
        self._offsets_decided(txn.producer_id, committed)
        txn.partitions.clear()
        txn.groups.clear()
        if txn.timer is not None:
            txn.timer.cancel()
            txn.timer = None
        txn.state = TxnState.COMPLETE_COMMIT if committed else TxnState.COMPLETE_ABORT

    def _bump(self, txn: Transaction) -> None:
        """The next epoch, or another producer id when there is none."""
        if txn.epoch < _EPOCH_MAX:
            txn.epoch += 1
            return
        del self._by_producer_id[txn.producer_id]
        txn.producer_id, txn.epoch = self._next_producer_id(), 0
        self._by_producer_id[txn.producer_id] = txn
