"""Sequence numbers of a transactional producer, and the partitions of its transaction (KIP-98, KIP-890).

All partitions share the producer's epoch, so a single partition cannot restart its sequence numbers. If this becomes
necessary, the transaction fails, and the next one gets a new epoch.

Without KIP-890, the coordinator must add a partition to the transaction before its first batch is sent. With KIP-890,
the first batch adds the partition: the broker asks the coordinator. If the same producer makes the broker ask again
before the coordinator has responded, the broker returns an error. A broker therefore gets one such request at a time,
with all partitions that are ready. The brokers also take turns, because the coordinator accepts one addition at a time,
and a broker that was refused repeats its request only 20 ms later (``add.partitions.to.txn.retry.backoff.ms``). For the
same reason, no such request is sent until the coordinator has finished the previous transaction, if that is known.

If a compiler is available, this code is compiled through ``transactional.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...errors import ClusterIdMismatchError, KafkaError
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch
from .idempotence import IdempotentSequencing, is_later, sequence_after

TOUCHES_APART_S = 0.1
"""Seconds after which the next broker gets its first request, although the previous broker has not answered.

It is long enough for slow brokers. If two brokers asked the coordinator to add partitions at the same time, the refused
one would repeat its request every 20 ms for up to 100 ms, and then refuse the batch.
"""

_NO_SEQUENCE = NO_SEQUENCE
_TOUCHES_APART_S = TOUCHES_APART_S


class TransactionalSequencing(IdempotentSequencing):
    """Producer id and sequence numbers of a transactional producer, and the partitions of its open transaction."""

    __slots__ = (
        "_touch_at",
        "_touching",
        "_waiting",
        "failed",
        "gap",
        "held",
        "lenient",
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
        """Number of the open transaction, or of the last one."""
        self.v2 = False
        """True if the transaction follows KIP-890."""
        self.failed = True
        """True if no more batches of the transaction will be sent, or if no transaction is open."""
        self.written = False
        """True if a batch of the transaction has been sent, so that a partition may contain it."""
        self.gap = False
        """True if a batch with a sequence number was given up, which makes the epoch unusable."""
        self.held = False
        """True while partitions wait for the coordinator to finish the previous transaction. See `release`."""
        self.lenient = False
        """True if the transaction continues without a record for which a call raised an error."""
        self.wanted: dict[PartitionQueue, None] = {}
        """Partitions that the coordinator must add to the transaction."""
        self.on_wanted: Callable[[], None] = _ignore
        """Called when ``wanted`` grows, or when a partition starts to wait because of ``held``."""
        self.on_failure: Callable[[KafkaError], None] = _ignore_error
        """Called when records of the transaction are given up."""
        self._touching: dict[int, dict[PartitionQueue, None]] = {}
        """For each broker, the partitions whose first batch of the transaction is in flight."""
        self._waiting: dict[PartitionQueue, None] = {}
        """Partitions that wait for responses to such batches, or are waiting because of ``held``."""
        self._touch_at = 0.0
        """Time from which another broker may get a first batch even if one has not responded."""

    # --- the transaction ----------------------------------------------------------------------------------------------

    def begin(self, number: int, producer_id: int, producer_epoch: int, v2: bool, held: bool = False) -> None:
        """Begin the next transaction with this producer id and epoch.

        ``v2`` is True if it follows KIP-890. With ``held``, new partitions wait until `release` is called.
        """
        self.assign_producer_id(producer_id, producer_epoch)
        self.transaction = number
        self.v2 = v2
        self.held = held
        self.failed = self.gap = self.written = False
        self.wanted.clear()

    def end(self) -> None:
        """End the transaction. No more of its batches will be sent."""
        self.failed = True
        self.wanted.clear()

    def opened(self, queue: PartitionQueue) -> None:
        """Handle a new batch. If its partition is not in the transaction yet, the coordinator must add it."""
        if self.held:
            self.on_wanted()
        elif not self.v2 and queue.transaction != self.transaction and queue not in self.wanted:
            self.wanted[queue] = None
            self.on_wanted()

    def added(self, queue: PartitionQueue) -> None:
        """Record that the coordinator has added the partition to the transaction, so its batches may be sent."""
        self.wanted.pop(queue, None)
        queue.transaction = self.transaction

    def release(self) -> list[PartitionQueue]:
        """Record that the coordinator has finished the previous transaction, which ends the wait of `begin`.

        Returns the partitions that no longer wait.
        """
        self.held = False
        return self._waited()

    def requested(self, node_id: int, batches: Sequence[ProducerBatch], now: float) -> None:
        """Record that a request with these batches is being sent to a broker.

        With KIP-890, no other partition can join the transaction through this broker until it has answered.
        """
        self.written = True
        if not self.v2:
            return
        for batch in batches:
            if batch.queue.transaction != self.transaction:
                self._touching.setdefault(node_id, {})[batch.queue] = None
                self._touch_at = now + _TOUCHES_APART_S

    def answered(self, queue: PartitionQueue) -> list[PartitionQueue]:
        """Handle a change in a partition's batches in flight.

        Returns the partitions that no longer wait for the broker's request to the coordinator.
        """
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
        """Forget the producer id, because it was assigned by another cluster. The transaction fails."""
        super().forget_producer_id()
        self.on_failure(ClusterIdMismatchError("the transaction began in another cluster"))

    # --- sequence numbers ---------------------------------------------------------------------------------------------

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
            return  # the batch belongs to a previous transaction
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
        """Do nothing. Other producers restart the sequence numbers here, but this caller gives up the batch."""

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        self.gap = True

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        return False


_NONE: list[PartitionQueue] = []


def _ignore() -> None:
    pass


def _ignore_error(_: KafkaError) -> None:
    pass
