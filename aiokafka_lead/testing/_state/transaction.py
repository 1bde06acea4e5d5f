"""A transactional id's state, and what an EndTxn means in each state (Java: ``TransactionMetadata``)."""

from __future__ import annotations

from enum import Enum, auto

from .clock import TimerHandle
from .topics import Partition

EPOCH_MAX = 2**15 - 2
"""The last epoch that a producer may use: the one after it is left for fencing it (Java: ``isEpochExhausted``)."""

NO_EPOCH = -1
NO_PRODUCER_ID = -1


class TxnState(Enum):
    """A transactional id's state, with the names that DescribeTransactions tells."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


class EndAnswer(Enum):
    """What the coordinator does about an EndTxn."""

    PREPARE = auto()
    """It decides, and the markers follow."""
    DONE = auto()
    """It was decided so before: the same answer again."""
    CONCURRENT = auto()
    """The markers of an earlier decision are not written yet: CONCURRENT_TRANSACTIONS."""
    INVALID = auto()
    """INVALID_TXN_STATE."""
    FENCED = auto()
    """PRODUCER_FENCED."""


_EndTable = dict[tuple[TxnState, bool], EndAnswer]
"""By the state, and whether the transaction is to be committed. While markers are on their way all is CONCURRENT."""

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
"""Version 1 (KIP-98): the epoch stays, so that a repeated end looks like the next one."""

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
"""Version 2 (KIP-890), with the epoch that the coordinator knows (Java: ``TransactionCoordinator.endTransaction``)."""

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
"""Version 2, with the epoch before it: a producer that asks has not got the answer to an end."""


class Transaction:
    """What the coordinator knows of one transactional id."""

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
        # The producer's epoch before this one, as far as it may ask again with it; else NO_EPOCH.
        self.last_epoch = NO_EPOCH
        # The id before this one, while the end of the transaction that used up its epochs may be asked for again.
        self.previous_producer_id = NO_PRODUCER_ID
        # The id from the end of this transaction on, where it uses the last epoch.
        self.next_producer_id = NO_PRODUCER_ID
        self.timeout_ms = timeout_ms
        self.state = TxnState.EMPTY
        # Part of the transaction and without a marker yet, in the order in which they were added.
        self.partitions: dict[Partition, None] = {}
        # Consumer groups whose offsets are part of it.
        self.groups: dict[str, None] = {}
        # Of the present transaction or the last one: wall clock, -1 where there is none.
        self.started_ms = -1
        # The timeout's while it is open, the markers' while they are on their way.
        self.timer: TimerHandle | None = None

    @property
    def is_ending(self) -> bool:
        """Whether it is decided, and its markers are not all written."""
        return self.state in (TxnState.PREPARE_COMMIT, TxnState.PREPARE_ABORT)

    @property
    def is_exhausted(self) -> bool:
        """Whether the producer id has no epoch left."""
        return self.epoch >= EPOCH_MAX

    def answer_to_end(self, producer_id: int, epoch: int, *, committed: bool, bump: bool) -> EndAnswer | None:
        """What an EndTxn means; None for a producer id that is not this one's. ``bump``: it is of version 2."""
        if bump and self.is_ending:
            return EndAnswer.CONCURRENT  # before anything else: a producer may have its next id already (KAFKA-18660)
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
        """Go on to another state, in which the producer id before this one counts no more."""
        self.state = state
        self.previous_producer_id = self.producer_id

    def decide(self, *, committed: bool, bump: bool, next_producer_id: int, now_ms: int) -> tuple[int, int]:
        """Take the decision; returns the producer's id and epoch from its end on.

        ``bump`` starts another epoch; where there is none left, another id, which is given as ``next_producer_id``.
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
        """The markers are written."""
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
