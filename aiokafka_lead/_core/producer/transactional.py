"""Sequences of a transactional producer, and which partitions its transaction may be written to (KIP-98, KIP-890).

All partitions share the producer's epoch, and a partition cannot start its sequences over by itself: where that would
be needed, the transaction fails, and the epoch ends with it.

Without KIP-890 the coordinator must know a partition before its first batch leaves. With it, that batch makes the
partition part of the transaction: the broker asks the coordinator, and answers an error if the same producer has it ask
again before that is answered. So a broker gets one such request at a time, with all partitions that are ready then.
Brokers get them one after the other: the coordinator takes one addition at a time, and a broker that is turned away
comes back only 20 ms later (``add.partitions.to.txn.retry.backoff.ms``). For the same reason none of them gets one
before the coordinator is done with the transaction before, where that is known.

Compiled through ``transactional.pxd`` where a compiler is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import ClusterIdMismatchError, KafkaError
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch
from .idempotence import IdempotentSequencing, is_later, sequence_after

__all__ = ["TransactionalSequencing"]

TOUCHES_APART_S = 0.1
"""After this long another broker gets its first request although the one before has not answered. Brokers whose answers
take long by themselves are still waited for one by one: where two of them have the coordinator add partitions at the
same time, the one that is turned away comes back 20 ms later, again and again for up to 100 ms, and then refuses."""

_NO_SEQUENCE = NO_SEQUENCE
_NO_LEADER = -1
_TOUCHES_APART_S = TOUCHES_APART_S


class TransactionalSequencing(IdempotentSequencing):
    """The identity and the sequences of a transactional producer, and its open transaction's partitions."""

    __slots__ = (
        "_touch_at",
        "_touching",
        "_waiting",
        "failed",
        "gap",
        "held",
        "on_failure",
        "on_wanted",
        "transaction",
        "v2",
        "wanted",
        "written",
    )

    def __init__(self) -> None:
        super().__init__()
        self.transaction = 0
        """The open transaction's number, or that of the latest."""
        self.v2 = False
        """Whether it is one of KIP-890."""
        self.failed = True
        """Whether nothing more of it is to be sent; also while none is open."""
        self.written = False
        """Whether something of it was sent to a partition, and so may be in it."""
        self.gap = False
        """Whether a batch was given up that had a sequence: the epoch cannot go on."""
        self.held = False
        """Whether partitions wait until the coordinator is done with the transaction before; see `release`."""
        self.wanted: dict[PartitionQueue, None] = {}
        """Partitions that the coordinator does not know of yet."""
        self.on_wanted: Callable[[], None] = _ignore
        """Called when there are more of them, or more that are held."""
        self.on_failure: Callable[[KafkaError], None] = _ignore_error
        """Called when records of the transaction are given up."""
        self._touching: dict[int, dict[PartitionQueue, None]] = {}
        """By broker, the partitions whose first batch of the transaction awaits its answer."""
        self._waiting: dict[PartitionQueue, None] = {}
        """Those that wait for such answers, or are held."""
        self._touch_at = 0.0
        """When the next broker may get such a batch although another has not answered."""

    # --- the transaction ----------------------------------------------------------------------------------------------

    def begin(self, number: int, producer_id: int, producer_epoch: int, v2: bool, held: bool = False) -> None:
        """The next transaction is open, under this identity."""
        self.assign_producer_id(producer_id, producer_epoch)
        self.transaction = number
        self.v2 = v2
        self.held = held
        self.failed = self.gap = self.written = False
        self.wanted.clear()

    def end(self) -> None:
        """Nothing more of the transaction is to be sent."""
        self.failed = True
        self.wanted.clear()

    def opened(self, queue: PartitionQueue) -> None:
        """A partition has a new batch."""
        if self.held:
            self.on_wanted()
        elif not self.v2 and queue.transaction != self.transaction and queue not in self.wanted:
            self.wanted[queue] = None
            self.on_wanted()

    def added(self, queue: PartitionQueue) -> None:
        """The coordinator knows that the partition is part of the transaction."""
        self.wanted.pop(queue, None)
        queue.transaction = self.transaction

    def release(self) -> list[PartitionQueue]:
        """The coordinator is done with the transaction before; those that need not wait any more."""
        self.held = False
        return self._waited()

    def requested(self, node_id: int, batches: Sequence[ProducerBatch], now: float) -> None:
        """These batches go to a broker together."""
        self.written = True
        if not self.v2:
            return
        for batch in batches:
            if batch.queue.transaction != self.transaction:
                self._touching.setdefault(node_id, {})[batch.queue] = None
                self._touch_at = now + _TOUCHES_APART_S

    def answered(self, queue: PartitionQueue) -> list[PartitionQueue]:
        """Something happened to a partition; those that need not wait any more."""
        if not self._touching or queue.in_flight > 0:
            return _NONE
        found = self._touching.get(queue.in_flight_node)
        if found is None or queue not in found:
            return _NONE
        del found[queue]
        if found:
            return _NONE
        del self._touching[queue.in_flight_node]
        return self._waited()

    def _waited(self) -> list[PartitionQueue]:
        waiting = list(self._waiting)
        self._waiting.clear()
        return waiting

    def forget_producer_id(self) -> None:
        """The cluster is another one, which never gave the producer id."""
        super().forget_producer_id()
        self.on_failure(ClusterIdMismatchError("the transaction began in another cluster"))

    # --- sequences ----------------------------------------------------------------------------------------------------

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        if queue.in_flight > 0 and queue.in_flight_node != leader_id:
            return True
        if self.failed or self.producer_id < 0:
            return True
        if queue.transaction != self.transaction:
            if not self.v2:
                return True
            if self.held or leader_id in self._touching:
                self._waiting[queue] = None
                return True
        if batch.base_sequence != _NO_SEQUENCE:
            return queue.batches[0] is not batch
        return queue.in_flight > 0 and queue.proven_node != leader_id

    def waits_until(self, queue: PartitionQueue) -> float:
        if not self._touching or queue.transaction == self.transaction:
            return 0.0
        self._waiting[queue] = None
        return self._touch_at

    def is_new_to(self, queue: PartitionQueue) -> bool:
        return queue.producer_id != self.producer_id or queue.producer_epoch != self.producer_epoch

    def acknowledged(self, batch: ProducerBatch, node_id: int) -> None:
        queue = batch.queue
        if batch.producer_epoch != queue.producer_epoch or batch.producer_id != queue.producer_id:
            return  # of a transaction before
        if queue.batches[0] is batch:
            queue.proven_node = node_id
        if batch.producer_epoch == self.producer_epoch and batch.producer_id == self.producer_id and not self.failed:
            queue.transaction = self.transaction
        following = sequence_after(batch.base_sequence, batch.builder.record_count)
        if is_later(following, queue.acked_sequence):
            queue.acked_sequence = following

    def surely_in_log(self, batch: ProducerBatch) -> bool:
        queue = batch.queue
        same = batch.producer_epoch == queue.producer_epoch and batch.producer_id == queue.producer_id
        return same and super().surely_in_log(batch)

    def rejected(self, batch: ProducerBatch) -> None:
        """Nothing: a caller that takes this for a new start of the sequences gives the batch up instead."""

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        batch.queue.proven_node = _NO_LEADER
        self.gap = True

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        return False


_NONE: list[PartitionQueue] = []


def _ignore() -> None:
    pass


def _ignore_error(_: KafkaError) -> None:
    pass
