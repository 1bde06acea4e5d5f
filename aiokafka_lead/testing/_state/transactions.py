"""The coordinator of transactions (KIP-98, KIP-360, KIP-890): their producers, contents and ends.

As at a broker, the version of a request determines the version of the transaction. For the coordinator's own actions (a
timeout, a fenced producer), it is the finalized level of ``transaction.version``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...errors import (
    BrokerError,
    ConcurrentTransactionsError,
    InvalidProducerIdMappingError,
    InvalidTransactionTimeoutError,
    InvalidTxnStateError,
    ProducerFencedError,
)
from .clock import Clock
from .topics import Partition
from .transaction import EPOCH_MAX, NO_EPOCH, NO_PRODUCER_ID, EndAnswer, Transaction, TxnState

_TIMEOUT_MAX_MS = 900_000
"""transaction.max.timeout.ms"""

_BUMPS_FROM = 2
"""Level of transaction.version from which every transaction has a new epoch."""


class TransactionCoordinator:
    """All transactional ids of the cluster.

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
            raise ProducerFencedError(f"transactional id {transactional_id} belongs to producer {txn.producer_id}")
        if txn.state is TxnState.ONGOING:
            self._abort(txn)
            raise ConcurrentTransactionsError(
                f"transactional id {transactional_id} has an open transaction, which is being aborted"
            )
        self._next_epoch(txn, resumed=producer_id >= 0, epoch=epoch)
        txn.timeout_ms = timeout_ms
        txn.started_ms = -1
        txn.state = TxnState.EMPTY
        return txn.producer_id, txn.epoch

    def check_timeout(self, timeout_ms: int) -> None:
        if not 0 < timeout_ms <= _TIMEOUT_MAX_MS:
            raise InvalidTransactionTimeoutError(
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
            raise ProducerFencedError(f"transactional id {txn.transactional_id} is at epoch {txn.epoch}, not {epoch}")
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
        """Return the producer's transaction, so that its partitions can be checked."""
        return self._checked(transactional_id, producer_id, epoch)

    def _checked(self, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        txn = self.transactions.get(transactional_id)
        if txn is None or txn.producer_id != producer_id:
            raise InvalidProducerIdMappingError(
                f"transactional id {transactional_id} does not belong to producer {producer_id}"
            )
        if txn.epoch != epoch:
            raise ProducerFencedError(f"transactional id {transactional_id} is at epoch {txn.epoch}, not {epoch}")
        if txn.is_ending:
            raise _ending(txn)
        return txn

    # --- the end -----------------------------------------------------------------------------------------------------

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
            raise InvalidProducerIdMappingError(
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
                raise InvalidTxnStateError(f"transactional id {transactional_id} is in the state {txn.state.value}")
            case EndAnswer.FENCED:
                raise ProducerFencedError(f"transactional id {transactional_id} is at epoch {txn.epoch}, not {epoch}")

    def time_out(self, transactional_id: str) -> bool:
        """Abort a transaction that is taking too long, and fence its producer. Return False if none is open."""
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
        """Write the markers of all transactions that are committed or aborted."""
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
            except BrokerError:
                # A newer epoch or coordinator has since written here in another transaction.
                continue
            partition.notify()
        self._offsets_decided(txn.producer_id, committed)
        txn.complete()


def _ending(txn: Transaction) -> ConcurrentTransactionsError:
    return ConcurrentTransactionsError(f"the transaction of {txn.transactional_id} is about to end")
