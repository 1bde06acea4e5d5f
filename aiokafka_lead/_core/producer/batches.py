"""The producer's data: topics, their partitions' queues, the batches in these, and records before they are in a batch.

Fields are grouped by the code that writes them. This module also does the work per record: it appends records to their
partition's open batch. The accumulator opens and closes batches, chooses sticky partitions and waits for memory.

Hot: compiled through ``batches.pxd`` if a compiler is available.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..._records.encoder import BatchBuilder
from ..._records.murmur2 import murmur2
from ...errors import KafkaError
from ...types import Header
from ..leadership.patience import MoveClock, Patience
from ..metadata.types import NO_EPOCH, NO_LEADER, NO_TOPIC_ID
from .buffer_memory import BufferMemory
from .delivery import Delivery, new_delivery
from .outcome import BatchOutcome

NO_SEQUENCE = -1


class Record:
    """A record before it is in a batch, its arguments checked and serialized, in the order of ``send``."""

    __slots__ = ("headers", "key", "partition", "timestamp_ms", "topic", "value")

    def __init__(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: Sequence[Header],
    ) -> None:
        self.topic = topic
        self.value = value
        self.key = key
        self.partition = partition
        """The partition given to ``send``; -1 if the key or the partitioner determines it."""
        self.timestamp_ms = timestamp_ms
        self.headers = headers


class ProducerBatch:
    """Records of one partition that are sent together, from the first append until the last answer."""

    __slots__ = (
        "attempts",
        "base_sequence",
        "builder",
        "created_at",
        "in_doubt",
        "in_flight",
        "last_error",
        "named",
        "ordinal",
        "outcome",
        "patience",
        "piece",
        "producer_epoch",
        "producer_id",
        "queue",
        "sealed",
        "send_at",
        "shares",
        "size_bytes",
        "stranded",
    )

    def __init__(
        self, queue: PartitionQueue, builder: BatchBuilder, outcome: BatchOutcome, ordinal: int, created_at: float
    ) -> None:
        # fixed when the batch is made
        self.queue = queue
        self.builder = builder
        self.outcome = outcome
        self.ordinal = ordinal
        """Increases with each batch; the parts of a split batch have the same. Used by ``flush``."""
        self.created_at = created_at
        """Start of ``delivery_timeout_ms``."""
        # by the accumulator, and by `TopicBuffer.append`
        self.size_bytes = 0
        """Bytes of ``buffer_memory`` that the batch holds."""
        self.shares = 1
        """Number of times that it got ``batch_size`` bytes."""
        self.sealed = False
        """True if it accepts no more records."""
        self.named = False
        """`PartitionQueue.named` for this batch; set when it is sealed."""
        self.in_flight = False
        """True while it awaits an answer."""
        # by the schedule
        self.send_at = created_at
        """Time at which an open batch is sent even if it is not full."""
        # by the accumulator and the answers, according to the rules of leadership
        self.attempts = 0
        """Number of times that it was sent."""
        self.patience = Patience()
        """Decides when it may be sent again."""
        # by the answers
        self.in_doubt = False
        """True if an attempt may have been appended although its answer is unknown."""
        self.piece = False
        """True if it was split off a larger batch; the broker would not recognise its records as duplicates."""
        self.last_error: KafkaError | None = None
        # by the sequencing
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        """Fixed once it was sent: only a batch that is certainly not in the log ever gets another sequence."""
        self.stranded = False
        """True if it was sent after a batch that was certainly not appended, so it was not appended either."""


class PartitionQueue:
    """The unresolved batches of one partition, in the order of their records.

    Invariants: ``batches`` is in the order of the records and of any assigned sequences; only the last batch may be
    open. A queue exists as long as the producer, because it tracks the sequences that the broker expects.
    """

    __slots__ = (
        "acked_sequence",
        "batches",
        "depth",
        "expiry_scheduled",
        "gap",
        "generation",
        "in_flight",
        "in_flight_node",
        "leader_epoch",
        "leader_id",
        "move_clock",
        "named",
        "next_sequence",
        "open",
        "partition",
        "producer_epoch",
        "producer_id",
        "proven_node",
        "ready_node",
        "topic",
        "transaction",
        "unresolved",
        "wake_at",
    )

    def __init__(self, topic: TopicBuffer, partition: int) -> None:
        # fixed when the queue is made
        self.topic = topic
        self.partition = partition
        # by the accumulator when batches are opened and sent, by the answers when they are done
        self.batches: list[ProducerBatch] = []
        """Usually one or two batches. A deque would take ten times the memory, for perhaps thousands of queues."""
        self.depth = 0
        """Unacknowledged multiples of ``batch_size``: the sum of all batches' shares."""
        self.open: ProducerBatch | None = None
        """The last batch, while it accepts records."""
        self.named = False
        """True if the application may have named this partition for a record in the open batch."""
        self.in_flight = 0
        """Number of batches that await an answer, including batches given up since."""
        self.in_flight_node = NO_LEADER
        """The only node that these batches were sent to."""
        # by the accumulator when metadata changes
        self.leader_id = NO_LEADER
        """The leader by metadata; kept up to date while there are batches."""
        self.leader_epoch = NO_EPOCH
        self.generation = -1
        """Generation of the metadata with this leader."""
        # by the schedule
        self.ready_node = NO_LEADER
        """The node whose ready set contains the queue, or -1."""
        self.wake_at = 0.0
        """Time at which the schedule examines the queue next; 0 if it has no timer."""
        self.expiry_scheduled = False
        # by the sequencing
        self.producer_id = -1
        """The producer id of ``next_sequence``; -1 until the first batch is sent."""
        self.producer_epoch = -1
        self.next_sequence = 0
        self.acked_sequence = 0
        """The sequence after the highest acknowledged sequence."""
        self.gap = False
        """True if a batch was certainly not appended: later batches restart once all earlier batches are resolved."""
        self.unresolved = False
        """True if a batch was given up that may or may not have been appended."""
        self.proven_node = NO_LEADER
        """The leader whose last answer was a success: it has the sequences. Another leader gets one batch at a time."""
        # by the answers
        self.move_clock = MoveClock()
        # by the sequencing of a transactional producer
        self.transaction = 0
        """Number of the latest transaction that surely includes the partition."""

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.topic.name}-{self.partition}: {len(self.batches)} batches, {self.in_flight} out>"


class TopicBuffer:
    """The queues of one topic, and the current sticky partition for records without a key."""

    __slots__ = (
        "_ignore_keys",
        "_memory",
        "available",
        "batch_limit",
        "choices_until_survey",
        "count",
        "deepest",
        "has_id",
        "name",
        "pending",
        "queues",
        "sticky",
        "sticky_bytes",
        "sticky_since",
        "topic_id",
    )

    def __init__(self, name: str, memory: BufferMemory, ignore_keys: bool, batch_limit: int = 0) -> None:
        # fixed when the buffer is made
        self.name = name
        self._memory = memory
        self._ignore_keys = ignore_keys
        # by `renew`, from metadata
        self.topic_id = NO_TOPIC_ID
        self.has_id = False
        """True if the cluster has provided ``topic_id``, which old brokers do not."""
        self.count = 0
        """Number of partitions by metadata; 0 while unknown."""
        self.queues: list[PartitionQueue | None] = []
        """The queues by number; None until used. May be longer than ``count``: see `missing`."""
        # by the accumulator and the answers
        self.pending: dict[PartitionQueue, None] = {}
        """The queues that have batches."""
        self.batch_limit = batch_limit
        """Bytes to which a batch may grow while it cannot be sent."""
        # by the choice of the sticky partition, and by each record appended to it
        self.available: list[int] | None = None
        """Partitions with a leader, for a custom partitioner, or else with a leader in the preferred rack; None until a
        partition is chosen."""
        self.sticky: PartitionQueue | None = None
        """The partition for records without a key; None if the accumulator must choose the next (KIP-480)."""
        self.sticky_bytes = 0
        """Bytes appended to the sticky partition since it was chosen."""
        self.sticky_since = 0.0
        """Time at which the sticky partition was chosen."""
        self.deepest = 0
        """Length of the longest queue at the last survey."""
        self.choices_until_survey = 0
        """Number of choices of a sticky partition until the next survey."""

    def queue(self, partition: int) -> PartitionQueue:
        """Return the partition's queue, created on first use."""
        queue = self.queues[partition]
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(self, partition)
        return queue

    def renew(self, count: int, topic_id: UUID) -> None:
        """Set the partition count and topic id from metadata."""
        self.available = None
        self.count = count
        if count and topic_id != self.topic_id:
            self.topic_id = topic_id
            self.has_id = topic_id != NO_TOPIC_ID
            self._start_incarnation()
        self.queues.extend([None] * (count - len(self.queues)))
        if self.sticky is not None and self.sticky.partition >= count:
            self.sticky = None

    def missing(self) -> list[PartitionQueue]:
        """Return the queues with batches for partitions that a recreated topic no longer has."""
        return [queue for queue in self.pending if queue.partition >= self.count > 0]

    def _start_incarnation(self) -> None:
        """Reset the state of a recreated topic: its leader epochs start over, and its brokers have no sequences."""
        for queue in self.queues:
            if queue is not None:
                queue.proven_node = NO_LEADER
                for batch in queue.batches:
                    batch.patience.forget_epoch()

    def partition_for_key(self, key: bytes) -> int:
        """Return the partition of a key, equal to the choice of Java's producer."""
        return (murmur2(key) & 0x7FFFFFFF) % self.count

    def select(self, partition: int, key: bytes | None) -> PartitionQueue | None:
        """Return the queue of a record, or None if that requires choosing a sticky partition or creating a queue."""
        if partition < 0:
            if key is None or self._ignore_keys:
                return self.sticky if self.count else None
            if not self.count:
                return None
            return self.queues[self.partition_for_key(key)]
        if partition >= self.count:
            return None
        queue = self.queues[partition]
        if queue is not None:
            queue.named = True
        return queue

    def append(
        self, value: bytes | None, key: bytes | None, partition: int, timestamp_ms: int, headers: Sequence[Header]
    ) -> Delivery | None:
        """Append a record to the open batch of its partition; if that is -1, to the key's or the sticky partition.

        Returns None if the accumulator must append it, because a batch has to be opened or memory is short.
        """
        memory = self._memory
        if memory.used > memory.open_until:
            return None
        queue = self.select(partition, key)
        if queue is None:
            return None
        batch = queue.open
        if batch is None:
            return None
        builder = batch.builder
        index = builder.append(timestamp_ms, key, value, headers)
        if index < 0:
            return None
        added = builder.size_bytes - batch.size_bytes
        batch.size_bytes += added
        memory.used += added
        if queue is self.sticky:
            self.sticky_bytes += added
        return new_delivery(batch.outcome, index, timestamp_ms)

    def append_values(self, values: Sequence[bytes | None], start: int, partition: int, timestamp_ms: int) -> int:
        """Append ``values[start:]``, without keys, until the open batch is full; return the number appended.

        Returns 0 if the accumulator must append them.
        """
        memory = self._memory
        if memory.used > memory.open_until:
            return 0
        queue = self.select(partition, None)
        if queue is None:
            return 0
        batch = queue.open
        if batch is None:
            return 0
        builder = batch.builder
        count = builder.append_values(timestamp_ms, values, start)
        added = builder.size_bytes - batch.size_bytes
        batch.size_bytes += added
        memory.used += added
        if queue is self.sticky:
            self.sticky_bytes += added
        return count
