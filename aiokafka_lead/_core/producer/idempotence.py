"""Sequence numbers, which prevent retries from duplicating or reordering records (KIP-98, KIP-360).

A broker appends a batch only if its sequence number follows the last one of the same producer id and epoch in that
partition. It detects duplicates of the latest five batches. A batch that may have been appended must therefore be
retried unchanged and in order until its outcome is known. Only if a batch is certainly not in the log, the sequence
numbers after it may be reassigned. They are reassigned in the next producer epoch, so that a request that seemed lost
but still arrives is refused.

Here, each partition has its own epoch. Brokers compare epochs only within a partition. After a problem in one
partition, the other partitions therefore need not finish their batches first. Java increases the epoch of all
partitions. The partitions of a transactional producer share one epoch; see `TransactionalSequencing`.
"""

from __future__ import annotations

from ..metadata.types import NO_LEADER
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1

_NO_LEADER = NO_LEADER
_NO_SEQUENCE = NO_SEQUENCE


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number ``count`` records later.

    0 follows 2147483647 (Java: ``DefaultRecordBatch.incrementSequence``).
    """
    return (sequence + count) & SEQUENCE_MAX


def is_later(sequence: int, than: int) -> bool:
    """Return True if ``sequence`` is later than ``than``.

    Sequence numbers wrap around, so half of all numbers count as later.
    """
    return 0 < (sequence - than) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


class Sequencing:
    """Decides whether a partition's next batch may be sent, and applies responses. This base class does nothing."""

    __slots__ = ()

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        """Return True if ``batch`` must not be sent before earlier batches are answered.

        ``batch`` is the first batch in ``queue`` that is not in flight, and ``leader_id`` is the broker to which it
        would be sent.
        """
        raise NotImplementedError

    def waits_until(self, queue: PartitionQueue) -> float:
        """Return the time from which a batch may be sent to the partition. 0, or a time in the past, means now."""
        return 0.0

    def sending(self, batch: ProducerBatch) -> None:
        """Give a batch its sequence number, just before it is sent."""

    def acknowledged(self, batch: ProducerBatch, node_id: int) -> None:
        """Record that the broker has appended the batch."""

    def refused(self, batch: ProducerBatch) -> None:
        """Record that the batch was refused or not answered, and will be sent again."""

    def surely_in_log(self, batch: ProducerBatch) -> bool:
        """Return True if a later batch was appended, which implies that this batch was appended as well."""
        return False

    def rejected(self, batch: ProducerBatch) -> None:
        """Record that the first batch was refused because of its sequence number, so it is not in the log."""

    def outdated(self, batch: ProducerBatch) -> None:
        """Record that the batch was refused because of its producer epoch, so it is not in the log."""

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        """Record that the batch, which is still queued, will not be sent again.

        ``in_doubt`` is True if the batch was sent and may be in the log.
        """

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        """Restart the partition's sequence numbers at 0 if necessary and possible. Return True if this was done.

        It is necessary if a batch was given up and may be missing from the log. It is possible once no earlier batch
        can still be appended. Must be called after every change of the partition's queue.
        """
        return False


class PlainSequencing(Sequencing):
    """Sequencing without idempotence.

    Order is guaranteed only with one request in flight, but in that case even across leader changes. No batch is sent
    to a new leader before the old leader has answered everything. Otherwise, a refused batch could be appended before
    or after later batches.
    """

    __slots__ = ("_one_at_a_time",)

    def __init__(self, max_in_flight: int) -> None:
        self._one_at_a_time = max_in_flight == 1

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        return queue.in_flight > 0 and (self._one_at_a_time or queue.in_flight_node != leader_id)


class IdempotentSequencing(Sequencing):
    """Gives batches a producer id and sequence numbers, so that retries neither duplicate nor reorder records."""

    __slots__ = ("producer_epoch", "producer_id", "restarts")

    def __init__(self) -> None:
        self.producer_id = -1
        """The producer id, or -1 if one is needed: at the start, after the last epoch, and in another cluster."""
        self.producer_epoch = -1
        self.restarts = 0
        """Number of times that a partition's sequence numbers have been restarted."""

    def assign_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Use this producer id and epoch for batches that have no sequence number yet."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def forget_producer_id(self) -> None:
        """Require another producer id. A partition switches to it once the outcomes of its sent batches are known."""
        self.producer_id = -1
        self.producer_epoch = -1

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        if queue.in_flight > 0 and queue.in_flight_node != leader_id:
            # The responses of two brokers arrive in any order, and the new leader might receive the second batch first.
            return True
        if batch.base_sequence != _NO_SEQUENCE:
            # This is a retry. The broker would refuse the batch unless it is the first in the queue.
            return queue.batches[0] is not batch or batch.stranded
        if self.producer_id < 0 or queue.gap or queue.unresolved:
            return True
        if queue.producer_id != self.producer_id and queue.next_sequence and _has_sent(queue):
            return True
        # A partition without any state for this producer accepts any first sequence number. With two requests in flight
        # to a leader whose state is unknown, the first could be refused and the second accepted.
        return queue.in_flight > 0 and queue.proven_node != leader_id

    def is_new_to(self, queue: PartitionQueue) -> bool:
        """Return True if the partition's sequence numbers belong to a different producer id or epoch."""
        return queue.producer_id != self.producer_id

    def sending(self, batch: ProducerBatch) -> None:
        if batch.base_sequence != _NO_SEQUENCE:
            return
        queue = batch.queue
        if self.is_new_to(queue):
            queue.producer_id = self.producer_id
            queue.producer_epoch = self.producer_epoch
            queue.next_sequence = queue.acked_sequence = 0
            queue.proven_node = _NO_LEADER
        batch.producer_id = queue.producer_id
        batch.producer_epoch = queue.producer_epoch
        batch.base_sequence = queue.next_sequence
        queue.next_sequence = sequence_after(queue.next_sequence, batch.builder.record_count)

    def acknowledged(self, batch: ProducerBatch, node_id: int) -> None:
        queue = batch.queue
        if queue.batches[0] is batch:
            # While an earlier batch is in doubt, do not send more, because the broker detects duplicates only among the
            # latest five.
            queue.proven_node = node_id
        following = sequence_after(batch.base_sequence, batch.builder.record_count)
        if is_later(following, queue.acked_sequence):
            queue.acked_sequence = following

    def refused(self, batch: ProducerBatch) -> None:
        batch.queue.proven_node = _NO_LEADER

    def surely_in_log(self, batch: ProducerBatch) -> bool:
        return batch.base_sequence != _NO_SEQUENCE and is_later(batch.queue.acked_sequence, batch.base_sequence)

    def rejected(self, batch: ProducerBatch) -> None:
        batch.stranded = True
        self._strand_behind(batch)

    def outdated(self, batch: ProducerBatch) -> None:
        # Either the broker keeps one epoch for each producer, and another partition has used a later one, or it accepts
        # only epochs that a broker has assigned. It accepts another producer id in both cases.
        batch.queue.producer_epoch = EPOCH_MAX
        self.rejected(batch)

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        queue = batch.queue
        queue.proven_node = _NO_LEADER
        if in_doubt:
            queue.unresolved = True
        else:
            self._strand_behind(batch)

    def _strand_behind(self, batch: ProducerBatch) -> None:
        queue = batch.queue
        queue.gap = True
        behind = False
        for other in queue.batches:
            if other is batch:
                behind = True
            elif behind and other.base_sequence != _NO_SEQUENCE:
                other.stranded = True

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        if queue.gap:
            # Stranded batches in flight will be refused. Batches before the gap may still be appended.
            if queue.in_flight > 0 or (_has_sent(queue) and not queue.batches[0].stranded):
                return False
        elif not queue.unresolved or _has_sent(queue):
            return False
        elif queue.acked_sequence == queue.next_sequence:
            # A later batch was appended, so the batch in doubt was appended as well.
            queue.unresolved = False
            return False
        self._restart(queue)
        return True

    def _restart(self, queue: PartitionQueue) -> None:
        for batch in queue.batches:
            batch.base_sequence = _NO_SEQUENCE
            batch.in_doubt = batch.stranded = False
        queue.gap = queue.unresolved = False
        queue.next_sequence = queue.acked_sequence = 0
        self.restarts += 1
        if queue.producer_epoch < EPOCH_MAX:
            queue.producer_epoch += 1
            if queue.producer_id == self.producer_id:
                # Apache Kafka brokers keep an epoch for each partition. Some other brokers keep one for each producer.
                self.producer_epoch = max(self.producer_epoch, queue.producer_epoch)
            return
        if queue.producer_id == self.producer_id:
            self.forget_producer_id()
        queue.producer_id = -1


def _has_sent(queue: PartitionQueue) -> bool:
    """Return True if the outcome of a sent batch is unknown.

    Only the first batch is examined, because sent batches come first.
    """
    return bool(queue.batches) and queue.batches[0].base_sequence != _NO_SEQUENCE
