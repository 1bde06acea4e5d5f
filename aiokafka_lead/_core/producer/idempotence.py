"""Sequence numbers, which prevent retries from duplicating or reordering records (KIP-98, KIP-360).

A broker appends a batch only if its sequence follows the last sequence of the same producer id and epoch in that
partition. It recognises repetitions of the latest five batches. So a batch that may have been appended must be retried
unchanged and in order until the answer is known. Only if a batch is certainly not in the log may the sequences after it
be reassigned. This takes the next producer epoch, which fences off a request that seemed lost and still arrives.

Each partition has a separate epoch here: brokers compare epochs within a partition only, so a problem in one partition
need not drain all partitions first (Java bumps the epoch of all). The partitions of a transactional producer share an
epoch, see `TransactionalSequencing`.
"""

from __future__ import annotations

from ..metadata.types import NO_LEADER
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1

_NO_LEADER = NO_LEADER
_NO_SEQUENCE = NO_SEQUENCE


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence ``count`` records later; 2147483647 is followed by 0
    (``DefaultRecordBatch.incrementSequence``)."""
    return (sequence + count) & SEQUENCE_MAX


def is_later(sequence: int, than: int) -> bool:
    """Return True if ``sequence`` is after ``than``. Sequences wrap around, so half of all count as later."""
    return 0 < (sequence - than) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


class Sequencing:
    """Decides if a partition's next batch may be sent, and applies answers. This base class does nothing."""

    __slots__ = ()

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        """Return True if ``batch``, the first batch without a pending answer, must wait for earlier answers."""
        raise NotImplementedError

    def waits_until(self, queue: PartitionQueue) -> float:
        """Return the time at which a batch may be sent to the partition; 0 or past if it may be sent now."""
        return 0.0

    def sending(self, batch: ProducerBatch) -> None:
        """Prepare a batch that is about to be sent."""

    def acknowledged(self, batch: ProducerBatch, node_id: int) -> None:
        """Record that the batch is in the log."""

    def refused(self, batch: ProducerBatch) -> None:
        """Record that the batch will be sent again."""

    def surely_in_log(self, batch: ProducerBatch) -> bool:
        """Return True if a later batch was appended, which implies that this batch was, too."""
        return False

    def rejected(self, batch: ProducerBatch) -> None:
        """Record that the first batch was refused as out of sequence, so that it is not in the log."""

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        """Record that the batch, still queued, will not be sent again. ``in_doubt``: it may be in the log anyway."""

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        """Restart the partition's sequences if due; return True if they were restarted. Call it after every change."""
        return False


class PlainSequencing(Sequencing):
    """Without idempotence: order is guaranteed only with one request in flight, but survives a leader's move.

    A batch is sent to a new leader only when the old leader has answered everything: otherwise a refused batch could
    be appended before or after later batches.
    """

    __slots__ = ("_one_at_a_time",)

    def __init__(self, max_in_flight: int) -> None:
        self._one_at_a_time = max_in_flight == 1

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        return queue.in_flight > 0 and (self._one_at_a_time or queue.in_flight_node != leader_id)


class IdempotentSequencing(Sequencing):
    """The producer id, and the sequences of every partition."""

    __slots__ = ("producer_epoch", "producer_id", "restarts")

    def __init__(self) -> None:
        self.producer_id = -1
        """-1 while the producer needs an id: at first, when epochs are exhausted, and in another cluster."""
        self.producer_epoch = -1
        self.restarts = 0
        """Number of times that a partition's sequences were restarted."""

    def assign_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Use the answer to InitProducerId for batches that have no sequence yet."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def forget_producer_id(self) -> None:
        """Require another producer id. Partitions adopt it once all their sent batches are resolved."""
        self.producer_id = -1
        self.producer_epoch = -1

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        if queue.in_flight > 0 and queue.in_flight_node != leader_id:
            # Answers of two brokers arrive in any order, and the new leader might receive the second batch first.
            return True
        if batch.base_sequence != _NO_SEQUENCE:
            # It was sent before: the broker would refuse it unless it is the first in the queue.
            return queue.batches[0] is not batch or batch.stranded
        if self.producer_id < 0 or queue.gap or queue.unresolved:
            return True
        if queue.producer_id != self.producer_id and queue.next_sequence and _has_sent(queue):
            return True
        # A partition without any state for this producer accepts any first sequence. Two requests in flight to a leader
        # whose state is uncertain would let the second in when the first is refused.
        return queue.in_flight > 0 and queue.proven_node != leader_id

    def is_new_to(self, queue: PartitionQueue) -> bool:
        """Return True if the partition's sequences belong to another identity."""
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
            # While an earlier batch is in doubt, no more may follow: the broker recognises only the latest five.
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
            # Stranded batches in flight will be refused; batches before the gap may still be appended.
            if queue.in_flight > 0 or (_has_sent(queue) and not queue.batches[0].stranded):
                return False
        elif not queue.unresolved or _has_sent(queue):
            return False
        elif queue.acked_sequence == queue.next_sequence:
            # A later batch was appended, so the batch in doubt was, too.
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
                # Apache Kafka brokers track an epoch per partition, some other brokers one per producer.
                self.producer_epoch = max(self.producer_epoch, queue.producer_epoch)
            return
        if queue.producer_id == self.producer_id:
            self.forget_producer_id()
        queue.producer_id = -1


def _has_sent(queue: PartitionQueue) -> bool:
    """Return True if a sent batch is unresolved. Sent batches come first, so the first batch decides."""
    return bool(queue.batches) and queue.batches[0].base_sequence != _NO_SEQUENCE
