"""The coordinator of transactions (KIP-98, KIP-360, KIP-890): the producers, contents and ends of transactional ids.

As at a broker, the version of a request determines the version of transactions. For actions of the coordinator (a
timeout, a fenced producer) the finalized level of ``transaction.version`` counts. Java: ``TransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum, auto

from ... import errors
from .clock import Clock, TimerHandle
from .topics import Partition

EPOCH_MAX = 2**15 - 2
"""Last epoch of a producer. The next epoch is reserved for fencing it (Java: ``isEpochExhausted``)."""

NO_EPOCH = -1
NO_PRODUCER_ID = -1


class TxnState(Enum):
    """State of a transactional id, by its name in DescribeTransactions."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class EndAnswer(Enum):
    """The coordinator's reaction to a request to end a transaction (EndTxn)."""

    PREPARE = auto()
    """The transaction is committed or aborted, and the markers follow."""
    DONE = auto()
    """The same request has already been handled, so the same response is sent again."""
    CONCURRENT = auto()
    """CONCURRENT_TRANSACTIONS: the markers of an earlier decision have not been written yet."""
    INVALID = auto()
    """INVALID_TXN_STATE."""
    FENCED = auto()
    """PRODUCER_FENCED."""


_EndTable = dict[tuple[TxnState, bool], EndAnswer]
"""Reactions by state, and True for a commit. While markers are being written, all are CONCURRENT."""

END_V1: _EndTable = {
    (TxnState.EMPTY, True): EndAnswer.INVALID,
    (TxnState.EMPTY, False): EndAnswer.INVALID,
    (TxnState.ONGOING, True): EndAnswer.PREPARE,
    (TxnState.ONGOING, False): EndAnswer.PREPARE,
    (TxnState.COMPLETE_COMMIT, True): EndAnswer.DONE,
    (TxnState.COMPLETE_COMMIT, False): EndAnswer.INVALID,
    (TxnState.COMPLETE_ABORT, True): EndAnswer.INVALID,
    (TxnState.COMPLETE_ABORT, False): EndAnswer.DONE,
}
"""Version 1 (KIP-98). The epoch does not change, so a repeated EndTxn looks like an EndTxn of the next transaction."""

END_V2_CURRENT: _EndTable = {
    (TxnState.EMPTY, True): EndAnswer.INVALID,
    (TxnState.EMPTY, False): EndAnswer.PREPARE,
    (TxnState.ONGOING, True): EndAnswer.PREPARE,
    (TxnState.ONGOING, False): EndAnswer.PREPARE,
    (TxnState.COMPLETE_COMMIT, True): EndAnswer.INVALID,
    (TxnState.COMPLETE_COMMIT, False): EndAnswer.PREPARE,
    (TxnState.COMPLETE_ABORT, True): EndAnswer.INVALID,
    (TxnState.COMPLETE_ABORT, False): EndAnswer.PREPARE,
}
"""Version 2 (KIP-890), with the coordinator's epoch (Java: ``TransactionCoordinator.endTransaction``)."""

END_V2_RETRY: _EndTable = {
    (TxnState.EMPTY, True): EndAnswer.FENCED,
    (TxnState.EMPTY, False): EndAnswer.FENCED,
    (TxnState.ONGOING, True): EndAnswer.FENCED,
    (TxnState.ONGOING, False): EndAnswer.FENCED,
    (TxnState.COMPLETE_COMMIT, True): EndAnswer.DONE,
    (TxnState.COMPLETE_COMMIT, False): EndAnswer.INVALID,
    (TxnState.COMPLETE_ABORT, True): EndAnswer.INVALID,
    (TxnState.COMPLETE_ABORT, False): EndAnswer.DONE,
}
"""Version 2, with the previous epoch: the producer has not received the response to EndTxn."""


class Transaction:
    """A transactional id at its coordinator: the producer, the state, and the parts of the current transaction."""

    __slots__ = (
        "epoch",
        "groups",
        "last_epoch",
        "next_producer_id",
        "partitions",
        "previous_producer_id",
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
        self.epoch = NO_EPOCH
        # The producer's previous epoch if its requests may still use it, otherwise NO_EPOCH.
        self.last_epoch = NO_EPOCH
        # The previous id, as long as the end of the transaction that exhausted its epochs may be repeated.
        self.previous_producer_id = NO_PRODUCER_ID
        # The id after the end of this transaction if it uses the last epoch.
        self.next_producer_id = NO_PRODUCER_ID
        self.timeout_ms = timeout_ms
        self.state = TxnState.EMPTY
        # Partitions whose marker has not been written, in the order in which they were added.
        self.partitions: dict[Partition, None] = {}
        # Consumer groups with offsets in the transaction.
        self.groups: dict[str, None] = {}
        # Wall-clock times of the current or last transaction. -1 means none.
        self.started_ms = -1
        # Timer of the timeout while the transaction is open, and of the markers while they are written.
        self.timer: TimerHandle | None = None

    @property
    def is_ending(self) -> bool:
        """True if the transaction has been committed or aborted, but not all markers have been written."""
        return self.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """True if the producer id has no epoch left."""
        return self.epoch >= EPOCH_MAX

    def answer_to_end(self, producer_id: int, epoch: int, *, committed: bool, bump: bool) -> EndAnswer | None:
        """Return the reaction to EndTxn, or None for another producer's id.

        ``committed`` is True for a commit. ``bump`` is True if the transaction has version 2, in which each transaction
        has a new epoch.
        """
        if bump and self.is_ending:
            return EndAnswer.CONCURRENT  # checked first, because a producer may already have its next id (KAFKA-18660)
        rotated = (
            bump and producer_id == self.previous_producer_id != self.producer_id
            and epoch == EPOCH_MAX and self.epoch == 0
        )  # fmt: skip
        if producer_id != self.producer_id and not rotated:
            return None
        if bump and (rotated or epoch == self.epoch - 1):
            return END_V2_RETRY[self.state, committed]
        if epoch != self.epoch:
            return EndAnswer.FENCED
        if self.is_ending:
            return EndAnswer.CONCURRENT
        return (END_V2_CURRENT if bump else END_V1)[self.state, committed]

    def enter(self, state: TxnState) -> None:
        """Change to a state in which the previous producer id is no longer valid."""
        self.state = state
        self.previous_producer_id = self.producer_id

    def decide(self, *, committed: bool, bump: bool, next_producer_id: int, now_ms: int) -> tuple[int, int]:
        """Commit or abort the transaction, and return the producer's id and epoch after it.

        With ``bump``, the producer gets another epoch. After its last epoch, it gets another id, which is
        ``next_producer_id``.
        """
        if self.state is not TxnState.ONGOING:
            self.started_ms = now_ms
        if bump:
            self.last_epoch = self.epoch
            self.epoch += 1
            self.next_producer_id = next_producer_id
        self.stop_timer()
        self.enter(TxnState.PREPARE_COMMIT if committed else TxnState.PREPARE_ABORT)
        return (self.producer_id, self.epoch) if self.next_producer_id < 0 else (self.next_producer_id, 0)

    def complete(self) -> None:
        """End the transaction after its markers have been written."""
        self.stop_timer()
        self.partitions.clear()
        self.groups.clear()
        self.enter(TxnState.COMPLETE_COMMIT if self.state is TxnState.PREPARE_COMMIT else TxnState.COMPLETE_ABORT)
        if self.next_producer_id >= 0:
            self.producer_id, self.epoch, self.next_producer_id = self.next_producer_id, 0, NO_PRODUCER_ID

    def stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


_TIMEOUT_MAX_MS = 900_000
"""transaction.max.timeout.ms"""

_BUMPS_FROM = 2
"""Level of transaction.version from which every transaction has a new epoch."""


class TransactionCoordinator:
    """Coordinates the transactions of all transactional ids of the cluster.

    ``marker_delay_ms`` is the time from a commit or abort to its markers. None holds the markers until `write_markers`.
    """

    def __init__(
        self,
        clock: Clock,
        now_ms: Callable[[], int],
        next_producer_id: Callable[[], int],
        version: Callable[[], int],
        offsets_decided: Callable[[int, bool], None],
        coordinator_epoch: Callable[[str], int],
    ) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._next_producer_id = next_producer_id
        # Finalized level of transaction.version.
        self._version = version
        # Called with the producer id and True for a commit when a transaction ends and its offsets become valid.
        self._offsets_decided = offsets_decided
        # Number of changes of a transactional id's coordinator.
        self._coordinator_epoch = coordinator_epoch
        self.marker_delay_ms: float | None = 0
        self.transactions: dict[str, Transaction] = {}

    # --- InitProducerId ----------------------------------------------------------------------------------------------

    def init_producer_id(self, transactional_id: str, timeout_ms: int, producer_id: int, epoch: int) -> tuple[int, int]:
        """Return a producer id and epoch, and fence the previous producer of the transactional id.

        ``producer_id`` and ``epoch`` identify a producer that continues after an error (KIP-360), and are -1 otherwise.
        An open transaction is aborted, and the response is CONCURRENT_TRANSACTIONS until its markers are written.
        """
        txn = self.transactions.get(transactional_id)
        if txn is None:
            txn = self.transactions[transactional_id] = Transaction(
                transactional_id, self._next_producer_id(), timeout_ms
            )
        elif txn.is_ending:
            raise _ending(txn)
        elif 0 <= producer_id != txn.producer_id and (producer_id != txn.previous_producer_id or epoch < EPOCH_MAX):
            raise errors.ProducerFencedError(
                f"transactional id {transactional_id} belongs to producer {txn.producer_id}"
            )
        if txn.state is TxnState.ONGOING:
            self._abort(txn)
            raise errors.ConcurrentTransactionsError(
                f"transactional id {transactional_id} has an open transaction, which is being aborted"
            )
        self._next_epoch(txn, resumed=producer_id >= 0, epoch=epoch)
        txn.timeout_ms = timeout_ms
        txn.started_ms = -1
        txn.state = TxnState.EMPTY
        return txn.producer_id, txn.epoch

    def check_timeout(self, timeout_ms: int) -> None:
        if not 0 < timeout_ms <= _TIMEOUT_MAX_MS:
            raise errors.InvalidTransactionTimeoutError(
                f"the transaction timeout must be from 1 to {_TIMEOUT_MAX_MS} ms, not {timeout_ms}"
            )

    def _next_epoch(self, txn: Transaction, *, resumed: bool, epoch: int) -> None:
        """Advance the producer of a transactional id to its next epoch, or after the last epoch to another id.

        A producer that repeats its request because it has not received the response gets the same id and epoch again.
        """
        if txn.is_exhausted and (not resumed or epoch == txn.epoch):
            txn.previous_producer_id = txn.producer_id
            txn.last_epoch = txn.epoch if resumed else NO_EPOCH
            txn.producer_id, txn.epoch = self._next_producer_id(), 0
            return
        if resumed and txn.epoch != NO_EPOCH and epoch not in (txn.epoch, txn.last_epoch):
            raise errors.ProducerFencedError(
                f"transactional id {txn.transactional_id} is at epoch {txn.epoch}, not {epoch}"
            )
        txn.previous_producer_id = txn.producer_id
        if not resumed or epoch == txn.epoch or txn.epoch == NO_EPOCH:
            txn.last_epoch = txn.epoch if resumed else NO_EPOCH
            txn.epoch += 1

    # --- parts of a transaction --------------------------------------------------------------------------------------

    def add(
        self,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        partitions: Iterable[Partition] = (),
        groups: Iterable[str] = (),
    ) -> None:
        """Add partitions and offsets of consumer groups to the producer's transaction. Begin it if necessary."""
        known = self.transactions.get(transactional_id)
        if known is not None and known.is_ending:
            raise _ending(known)  # for any producer id, because a producer may already have its next id (KAFKA-18660)
        txn = self._checked(transactional_id, producer_id, epoch)
        if txn.state is not TxnState.ONGOING:
            txn.enter(TxnState.ONGOING)
            txn.started_ms = self._now_ms()
            txn.timer = self._clock.call_at(self._clock.now() + txn.timeout_ms / 1000, lambda: self._abort(txn))
        txn.partitions.update(dict.fromkeys(partitions))
        txn.groups.update(dict.fromkeys(groups))

    def verified(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        """Return the producer's transaction, so that the caller can check its partitions.

        Raises an error unless the id and epoch are current.
        """
        return self._checked(transactional_id, producer_id, epoch)

    def _checked(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        txn = self.transactions.get(transactional_id)
        if txn is None or txn.producer_id != producer_id:
            raise errors.InvalidProducerIdMappingError(
                f"transactional id {transactional_id} does not belong to producer {producer_id}"
            )
        if txn.epoch != epoch:
            raise errors.ProducerFencedError(
                f"transactional id {transactional_id} is at epoch {txn.epoch}, not {epoch}"
            )
        if txn.is_ending:
            raise _ending(txn)
        return txn

    # --- ending transactions -----------------------------------------------------------------------------------------

    def end(
        self, transactional_id: str, producer_id: int, epoch: int, *, committed: bool, bump: bool
    ) -> tuple[int, int]:
        """Commit or abort, and return the producer's id and epoch from now on.

        With ``bump``, each transaction has a new epoch (KIP-890, EndTxn 5), so that a late request cannot become part
        of the next transaction.
        """
        txn = self.transactions.get(transactional_id)
        answer = None if txn is None else txn.answer_to_end(producer_id, epoch, committed=committed, bump=bump)
        if txn is None or answer is None:
            raise errors.InvalidProducerIdMappingError(
                f"transactional id {transactional_id} does not belong to producer {producer_id}"
            )
        match answer:
            case EndAnswer.PREPARE:
                return self._decide(txn, committed=committed, bump=bump)
            case EndAnswer.DONE:
                return txn.producer_id, txn.epoch
            case EndAnswer.CONCURRENT:
                raise _ending(txn)
            case EndAnswer.INVALID:
                raise errors.InvalidTxnStateError(
                    f"transactional id {transactional_id} is in the state {txn.state.value}"
                )
            case EndAnswer.FENCED:
                raise errors.ProducerFencedError(
                    f"transactional id {transactional_id} is at epoch {txn.epoch}, not {epoch}"
                )

    def time_out(self, transactional_id: str) -> bool:
        """Abort a transaction as if its timeout had passed, and fence its producer. Return False if none is open."""
        txn = self.transactions.get(transactional_id)
        if txn is None or txn.state is not TxnState.ONGOING:
            return False
        self._abort(txn)
        return True

    def forget(self, transactional_id: str) -> None:
        """Forget a transactional id. No markers are written for its open transaction."""
        txn = self.transactions.pop(transactional_id, None)
        if txn is not None:
            txn.stop_timer()

    def coordinator_moved(self, concerns: Callable[[str], bool]) -> None:
        """Handle a change of coordinator. The new coordinator reads the log, which does not contain the last epoch."""
        for txn in self.transactions.values():
            if concerns(txn.transactional_id):
                txn.last_epoch = NO_EPOCH

    def _abort(self, txn: Transaction) -> None:
        """Abort a transaction that its producer has not ended. Java: ``prepareFenceProducerEpoch``."""
        if self._version() >= _BUMPS_FROM:
            self._decide(txn, committed=False, bump=True)
            return
        txn.epoch, txn.last_epoch = txn.epoch + 1, NO_EPOCH
        self._decide(txn, committed=False, bump=False)

    def _decide(self, txn: Transaction, *, committed: bool, bump: bool) -> tuple[int, int]:
        next_producer_id = self._next_producer_id() if bump and txn.is_exhausted else NO_PRODUCER_ID
        answer = txn.decide(committed=committed, bump=bump, next_producer_id=next_producer_id, now_ms=self._now_ms())
        if self.marker_delay_ms == 0:
            self._complete(txn)
        elif self.marker_delay_ms is not None:
            when = self._clock.now() + self.marker_delay_ms / 1000
            txn.timer = self._clock.call_at(when, lambda: self._complete(txn))
        return answer

    def write_markers(self) -> None:
        """Write the markers of all transactions that have been committed or aborted but still lack them."""
        for txn in self.transactions.values():
            if txn.is_ending:
                self._complete(txn)

    def _complete(self, txn: Transaction) -> None:
        committed = txn.state is TxnState.PREPARE_COMMIT
        for partition in txn.partitions:
            if partition.topic.deleted:
                continue
            try:
                partition.log.end_transaction(
                    txn.producer_id,
                    txn.epoch,
                    committed=committed,
                    coordinator_epoch=self._coordinator_epoch(txn.transactional_id),
                    leader_epoch=partition.leader_epoch,
                    now_ms=self._now_ms(),
                )
            except errors.BrokerError:
                # A newer epoch or coordinator has since written here in another transaction.
                continue
            partition.notify()
        self._offsets_decided(txn.producer_id, committed)
        txn.complete()


def _ending(txn: Transaction) -> errors.ConcurrentTransactionsError:
    return errors.ConcurrentTransactionsError(f"the transaction of {txn.transactional_id} is about to end")
