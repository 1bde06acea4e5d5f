"""The producer's data: topics, the queues of their partitions, batches, records, and flushes that wait for batches.

The fields are grouped by the code that writes them. This module also does the work of each record, which is to append
it to its partition's open batch. The accumulator opens and closes batches, chooses sticky partitions, and waits for
memory. If a compiler is available, this code is compiled through ``batches.pxd``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from ..._records.encoder import BatchBuilder
from ..._records.murmur2 import murmur2
from ...errors import KafkaError
from ...types import Header
from ..leadership.patience import MoveClock, Patience
from ..metadata.types import NO_EPOCH, NO_LEADER, NO_TOPIC_ID, ClusterSnapshot
from .buffer_memory import BufferMemory
from .delivery import Delivery, new_delivery
from .outcome import BatchOutcome

NO_SEQUENCE = -1


class Record:
    """A record, before it is added to a batch. Its arguments have been checked and serialized."""

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
        """The partition that was passed to ``send``, or -1 if the key or the partitioner determines it."""
        self.timestamp_ms = timestamp_ms
        self.headers = headers


class ProducerBatch:
    """Records of one partition that are sent together.

    A batch exists from its first record until the response to its last attempt.
    """

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
        # set when the batch is created
        self.queue = queue
        self.builder = builder
        self.outcome = outcome
        self.ordinal = ordinal
        """Increases with each batch. The pieces of a split batch have the same ordinal. Used by ``flush``."""
        self.created_at = created_at
        """Time at which ``delivery_timeout_ms`` began, in monotonic seconds."""
        # set by the accumulator and by `TopicBuffer.append`
        self.size_bytes = 0
        """Number of bytes of ``buffer_memory`` that the batch occupies."""
        self.shares = 1
        """Number of times that the batch was given ``batch_size`` bytes."""
        self.sealed = False
        """True if the batch accepts no more records."""
        self.named = False
        """The value of `PartitionQueue.named` for this batch. Set when the batch is sealed."""
        self.in_flight = False
        """True while the response to the batch is pending."""
        # set by the schedule
        self.send_at = created_at
        """Time at which the batch is sent even if it is open and not full."""
        # set by the accumulator and the responses, according to the rules of `_core.leadership`
        self.attempts = 0
        """Number of times that the batch has been sent."""
        self.patience = Patience()
        """Decides when the batch may be sent again."""
        # set by the responses
        self.in_doubt = False
        """True if an attempt without a known outcome may have been appended."""
        self.piece = False
        """True if the batch is a piece of a larger batch. Brokers would not detect its records as duplicates."""
        self.last_error: KafkaError | None = None
        # set by the sequencing
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        """The first sequence number.

        Once the batch has been sent, it changes only if the batch is certainly not in the log.
        """
        self.stranded = False
        """True if an earlier batch was certainly not appended, so this batch cannot have been appended either."""

    def seal(self) -> None:
        """Let the batch accept no more records."""
        self.sealed = True
        queue = self.queue
        if queue.open is self:
            self.named = queue.named
            queue.open = None


class PartitionQueue:
    """The batches of one partition whose outcome is unknown, in the order of their records.

    Invariants: ``batches`` is in the order of the records and of their sequence numbers, and only the last batch may be
    open. A queue lives as long as the producer, because it keeps the sequence number that the broker expects.
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
        # set when the queue is created
        self.topic = topic
        self.partition = partition
        # set by the accumulator when batches are opened and sent, and by the responses when they are done
        self.batches: list[ProducerBatch] = []
        """Usually one or two batches. A list, because a deque would take ten times the memory, and there may be
        thousands of queues.
        """
        self.depth = 0
        """Length of the queue in multiples of ``batch_size``: the sum of the ``shares`` of all batches."""
        self.open: ProducerBatch | None = None
        """The last batch, while it accepts records."""
        self.named = False
        """True if the application may have chosen this partition for a record in the open batch."""
        self.in_flight = 0
        """Number of batches whose response is pending, including batches that have been given up."""
        self.in_flight_node = NO_LEADER
        """The only node to which these batches were sent."""
        # set by the accumulator when metadata changes
        self.leader_id = NO_LEADER
        """The leader according to the metadata. It is kept up to date while there are batches."""
        self.leader_epoch = NO_EPOCH
        self.generation = -1
        """Generation of the metadata from which the leader was taken."""
        # set by the schedule
        self.ready_node = NO_LEADER
        """The node in whose ready set the queue is, or -1."""
        self.wake_at = 0.0
        """Time at which the schedule will examine the queue again, or 0 if no timer is set."""
        self.expiry_scheduled = False
        # set by the sequencing
        self.producer_id = -1
        """The producer id to which ``next_sequence`` belongs. It is -1 until the first batch is sent."""
        self.producer_epoch = -1
        self.next_sequence = 0
        self.acked_sequence = 0
        """The sequence number after the highest acknowledged one."""
        self.gap = False
        """True if a batch was certainly not appended.

        Later batches get new sequence numbers once the outcomes of all earlier batches are known.
        """
        self.unresolved = False
        """True if a batch was given up that may have been appended."""
        self.proven_node = NO_LEADER
        """The leader whose last response was a success, which shows that it knows the sequence numbers.

        Other leaders get one batch at a time.
        """
        # set by the responses
        self.move_clock = MoveClock()
        # set by the sequencing of a transactional producer
        self.transaction = 0
        """Number of the latest transaction that is known to include the partition."""

    def renew_leader(self, snapshot: ClusterSnapshot) -> bool:
        """Copy the leader and the leader epoch from the metadata. Return True if they have changed."""
        self.generation = snapshot.generation
        leader_id, leader_epoch = snapshot.leader(self.topic.name, self.partition)
        if leader_id == self.leader_id and leader_epoch == self.leader_epoch:
            return False
        self.leader_id, self.leader_epoch = leader_id, leader_epoch
        return True

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.topic.name}-{self.partition}: {len(self.batches)} batches, {self.in_flight} out>"


class TopicBuffer:
    """Holds the queues of one topic, and its current sticky partition for records without a key."""

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
        # set when the buffer is created
        self.name = name
        self._memory = memory
        self._ignore_keys = ignore_keys
        # set by `renew`, from the metadata
        self.topic_id = NO_TOPIC_ID
        self.has_id = False
        """True if the cluster has reported ``topic_id``. Old brokers do not."""
        self.count = 0
        """Number of partitions according to the metadata, or 0."""
        self.queues: list[PartitionQueue | None] = []
        """The queues by partition number. An entry is None until it is used. There may be more than ``count`` entries;
        see `missing`.
        """
        # set by the accumulator and the responses
        self.pending: dict[PartitionQueue, None] = {}
        """The queues that contain batches."""
        self.batch_limit = batch_limit
        """Maximum size in bytes to which a batch may grow while it cannot be sent."""
        # set by the choice of the sticky partition, and by each record appended to it
        self.available: list[int] | None = None
        """The partitions from which to choose. It is None until a partition is chosen.

        With a custom partitioner, these are the partitions that have a leader. Otherwise, they are those whose leader
        is in the preferred rack.
        """
        self.sticky: PartitionQueue | None = None
        """The partition for records without a key. It is None if the accumulator must choose the next one (KIP-480)."""
        self.sticky_bytes = 0
        """Number of bytes appended to the sticky partition since it was chosen."""
        self.sticky_since = 0.0
        """Time at which the sticky partition was chosen."""
        self.deepest = 0
        """Length of the longest queue when the queues were last examined."""
        self.choices_until_survey = 0
        """Number of choices of a sticky partition until the queues are examined again."""

    def queue(self, partition: int) -> PartitionQueue:
        """Return the queue of a partition. It is created on first use."""
        queue = self.queues[partition]
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(self, partition)
        return queue

    def renew(self, count: int, topic_id: UUID) -> None:
        """Apply the number of partitions and the topic id from the metadata. A new id resets the queues."""
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
        """Return the queues with batches for partitions that no longer exist, because the topic was recreated."""
        return [queue for queue in self.pending if queue.partition >= self.count > 0]

    def _start_incarnation(self) -> None:
        """Reset the state of a recreated topic. Its leader epochs and sequence numbers start again."""
        for queue in self.queues:
            if queue is not None:
                queue.proven_node = NO_LEADER
                for batch in queue.batches:
                    batch.patience.forget_epoch()

    def partition_for_key(self, key: bytes) -> int:
        """Return the partition for a key, which is the same as with Java's producer."""
        return (murmur2(key) & 0x7FFFFFFF) % self.count

    def select(self, partition: int, key: bytes | None) -> PartitionQueue | None:
        """Return the queue for a record, or None if a sticky partition must be chosen or a queue must be created."""
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
        """Append a record to the open batch of its partition.

        If ``partition`` is -1, this is the key's partition or the sticky partition. Returns None if the accumulator
        must append the record because a batch must be opened or memory is short.
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
        """Append ``values[start:]`` without keys until the open batch is full. Return the number of values appended.

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


class FlushTicket:
    """A flush that waits for all batches up to ``ordinal``."""

    __slots__ = ("on_done", "ordinal")

    def __init__(self, ordinal: int, on_done: Callable[[], None]) -> None:
        self.ordinal = ordinal
        self.on_done = on_done


class Flushes:
    """Counts pending batches by ordinal.

    The ordinal increases with each batch that is opened. The pieces of a split batch have the same ordinal.
    """

    def __init__(self) -> None:
        self._pending: dict[int, int] = {}
        """Number of pending batches by ordinal, in ascending order."""
        self._tickets: list[FlushTicket] = []
        """The waiting flushes, in ascending order of their ordinals."""

    def begin(self, ordinal: int, on_done: Callable[[], None]) -> FlushTicket:
        """Start a flush of all batches up to this ordinal, which is the latest.

        ``on_done`` is called when it is complete.
        """
        ticket = FlushTicket(ordinal, on_done)
        self._tickets.append(ticket)
        return ticket

    def end(self, ticket: FlushTicket) -> None:
        """End a flush that is complete or that its caller has abandoned."""
        if ticket in self._tickets:
            self._tickets.remove(ticket)

    def started(self, ordinal: int, batches: int) -> None:
        """Count additional pending batches with this ordinal."""
        self._pending[ordinal] = self._pending.get(ordinal, 0) + batches

    def finished(self, ordinal: int, latest: int) -> None:
        """Count a batch whose outcome is now known. Complete the flushes that waited only for it.

        ``latest`` is the last ordinal that was assigned.
        """
        left = self._pending[ordinal] - 1
        if left:
            self._pending[ordinal] = left
            return
        del self._pending[ordinal]
        if self._tickets:
            oldest = next(iter(self._pending), latest + 1)
            while self._tickets and self._tickets[0].ordinal < oldest:
                self._tickets.pop(0).on_done()
