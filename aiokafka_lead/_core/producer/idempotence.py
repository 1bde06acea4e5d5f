"""Sequence numbers: why retries neither duplicate nor reorder (KIP-98, KIP-360).

A broker appends a batch only if its sequence follows the last one of the same producer id and epoch in that partition,
and knows the latest five again. So a batch that may have been appended must be sent again unchanged until the answer is
known, and in order. Only when a batch is certainly not in the log may the sequences behind it be given anew; that is
done under the next producer epoch, because a request thought lost may still reach the log, and is fenced off then.

The epoch is the partition's own here: brokers compare it within a partition only, and so one partition's trouble does
not make the others wait for theirs to drain (Java bumps the epoch of all). A transactional producer's share one, see
`TransactionalSequencing`.
"""

from __future__ import annotations

from ..metadata.types import NO_LEADER
from .batches import NO_SEQUENCE, PartitionQueue, ProducerBatch

__all__ = ["IdempotentSequencing", "PlainSequencing", "Sequencing", "is_later", "sequence_after"]

SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1

_NO_LEADER = NO_LEADER
_NO_SEQUENCE = NO_SEQUENCE


def sequence_after(sequence: int, count: int) -> int:
    """The sequence ``count`` records later; after 2147483647 comes 0 (``DefaultRecordBatch.incrementSequence``)."""
    return (sequence + count) & SEQUENCE_MAX


def is_later(sequence: int, than: int) -> bool:
    """Whether a sequence follows another one, on the circle."""
    return 0 < (sequence - than) & SEQUENCE_MAX <= SEQUENCE_MAX // 2


class Sequencing:
    """What may be sent next in a partition, and what an answer means for the batches behind: by itself, nothing."""

    __slots__ = ()

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        """Whether ``batch``, the first one that awaits no answer, must wait for the answers of others."""
        raise NotImplementedError

    def waits_until(self, queue: PartitionQueue) -> float:
        """When the partition may be sent to, where that is a matter of time alone; 0 or past for now."""
        return 0.0

    def sending(self, batch: ProducerBatch) -> None:
        """The batch goes out."""

    def acknowledged(self, batch: ProducerBatch, node_id: int) -> None:
        """The batch is in the log."""

    def refused(self, batch: ProducerBatch) -> None:
        """The batch will be sent again."""

    def surely_in_log(self, batch: ProducerBatch) -> bool:
        """Whether a batch behind it was appended, which takes that this one was."""
        return False

    def rejected(self, batch: ProducerBatch) -> None:
        """The batch was next in line, and its sequence did not follow what is in the log: so it is not in there."""

    def given_up(self, batch: ProducerBatch, in_doubt: bool) -> None:
        """The batch, still in its queue, will not be sent again; ``in_doubt`` when it may be in the log anyway."""

    def restart_if_due(self, queue: PartitionQueue) -> bool:
        """After every change: start the partition's sequences over if it is time to; whether that was done."""
        return False


class PlainSequencing(Sequencing):
    """Without idempotence: order is sure only with one request in flight, but a leader's move does not upset it.

    A batch goes to a new leader when the old one has answered all that it was sent: else the first batch that was
    refused would overtake, or be overtaken by, those behind it.
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
        """-1 while the producer needs one: before the first, when epochs are used up, in another cluster."""
        self.producer_epoch = -1
        self.restarts = 0
        """How often a partition's sequences started over."""

    def assign_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """The answer of InitProducerId."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def forget_producer_id(self) -> None:
        """Another producer id is needed. Partitions take it once all that they sent is resolved."""
        self.producer_id = -1
        self.producer_epoch = -1

    def blocks(self, queue: PartitionQueue, batch: ProducerBatch, leader_id: int) -> bool:
        if queue.in_flight > 0 and queue.in_flight_node != leader_id:
            # Answers of two brokers come in any order, and the new one might be asked first for what comes second.
            return True
        if batch.base_sequence != _NO_SEQUENCE:
            # Sent before: it is certain to be refused unless it is the next in line.
            return queue.batches[0] is not batch or batch.stranded
        if self.producer_id < 0 or queue.gap or queue.unresolved:
            return True
        if queue.producer_id != self.producer_id and queue.next_sequence and _has_sent(queue):
            return True
        # A partition without any state for this producer accepts whatever sequence comes first. Two requests on their
        # way to a leader whose state is not certain would let the second in when the first is refused.
        return queue.in_flight > 0 and queue.proven_node != leader_id

    def is_new_to(self, queue: PartitionQueue) -> bool:
        """Whether the partition's sequences are those of another identity."""
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
            # While an earlier one is in doubt no more may follow: the broker would forget it after five others.
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
            # Stranded ones on their way will be refused, those before the gap may be appended yet.
            if queue.in_flight > 0 or (_has_sent(queue) and not queue.batches[0].stranded):
                return False
        elif not queue.unresolved or _has_sent(queue):
            return False
        elif queue.acked_sequence == queue.next_sequence:
            # A batch behind was appended, hence the one in doubt was too.
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
                # Brokers know an epoch for each partition; some that are not Kafka, one for each producer.
                self.producer_epoch = max(self.producer_epoch, queue.producer_epoch)
            return
        if queue.producer_id == self.producer_id:
            self.forget_producer_id()
        queue.producer_id = -1


def _has_sent(queue: PartitionQueue) -> bool:
    """Whether some batch was sent and is not resolved. Those come first, so the first one tells."""
    return bool(queue.batches) and queue.batches[0].base_sequence != _NO_SEQUENCE
