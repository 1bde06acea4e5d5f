"""State of a transactional id, and the effect of EndTxn in each state (Java: ``TransactionMetadata``)."""

from __future__ import annotations

from enum import Enum, auto

from .clock import TimerHandle
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
    """Reaction of the coordinator to EndTxn."""

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
    """State of a transactional id at its coordinator."""

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
