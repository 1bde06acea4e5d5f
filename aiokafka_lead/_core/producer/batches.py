"""What the producer holds: topics, their partitions' queues, and batches of records in these; and a record before that.

The fields of each are in the order of what writes them. What happens for each record is here, too: from a record to a
place in its partition's open batch. Opening and closing batches, choosing the next sticky partition and waiting for
memory are the accumulator's. Hot: this module is compiled through ``batches.pxd`` where a compiler is.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from ..._records.encoder import BatchBuilder
from ..._records.murmur2 import murmur2
from ...errors import KafkaError
from ...types import Header
from ..leadership.moves import MoveClock
from ..leadership.patience import Patience
from ..metadata.types import NO_EPOCH, NO_LEADER, NO_TOPIC_ID
from .buffer_memory import BufferMemory
from .delivery import Delivery, new_delivery
from .outcome import BatchOutcome

__all__ = ["NO_SEQUENCE", "PartitionQueue", "ProducerBatch", "Record", "TopicBuffer"]

NO_SEQUENCE = -1


class Record:
    """A record on its way to a batch, its arguments checked and serialized, in the order of ``send``."""

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
        """-1 leaves the choice to the key or the partitioner."""
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
        """Grows with each batch; the parts of a split batch share theirs. For ``flush``."""
        self.created_at = created_at
        """When delivery_timeout_ms began."""
        # by the accumulator, and by what appends records to an open batch
        self.size_bytes = 0
        """What the batch holds of ``buffer_memory``."""
        self.shares = 1
        """How many times a batch size it was given."""
        self.sealed = False
        """Whether it takes no more records."""
        self.named = False
        """Once it is sealed: see `PartitionQueue.named`."""
        self.in_flight = False
        """Whether an answer is awaited."""
        # by the schedule
        self.send_at = created_at
        """When an open batch is sent though it is not full."""
        # by the accumulator and the answers, as leadership says
        self.attempts = 0
        """How often it was sent."""
        self.patience = Patience()
        """When it may be sent again."""
        # by the answers
        self.in_doubt = False
        """Whether some attempt may have been appended without our knowing."""
        self.piece = False
        """Whether it was split off a larger batch, which the broker would not recognise in it."""
        self.last_error: KafkaError | None = None
        # by the sequencing
        self.producer_id = -1
        self.producer_epoch = -1
        self.base_sequence = NO_SEQUENCE
        """Fixed once it was sent: only a batch that is certainly not in the log is ever given another one."""
        self.stranded = False
        """Whether it was sent behind a batch that was certainly not appended: then it was not either."""


class PartitionQueue:
    """The batches of one partition that are not resolved yet, in the order of their records.

    Invariants: ``batches`` is in the order of the records and, as far as they have one, of their sequences; only the
    last one may be open. A queue lives as long as the producer, for what it knows of sequences the broker remembers.
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
        # by the accumulator when batches come and go out, by the answers when they are done
        self.batches: list[ProducerBatch] = []
        """Mostly one or two: a deque takes ten times the memory, and there may be thousands of partitions."""
        self.depth = 0
        """How many times a batch size wait for their acknowledgement here: the shares of all batches."""
        self.open: ProducerBatch | None = None
        """The last batch, while it takes records."""
        self.named = False
        """Whether the application itself may have named this partition, for a record in the open batch."""
        self.in_flight = 0
        """How many of the batches await an answer, also such as were given up meanwhile."""
        self.in_flight_node = NO_LEADER
        """The node that they were sent to; one at a time."""
        # by the accumulator when metadata changes
        self.leader_id = NO_LEADER
        """The leader that metadata names; kept up to date while there are batches."""
        self.leader_epoch = NO_EPOCH
        self.generation = -1
        """The metadata that named it."""
        # by the schedule
        self.ready_node = NO_LEADER
        """The node whose ready set the queue is in, or -1."""
        self.wake_at = 0.0
        """When the schedule looks at the queue next; 0 when it does not."""
        self.expiry_scheduled = False
        # by the sequencing
        self.producer_id = -1
        """The producer id of ``next_sequence``; -1 until the first batch is sent."""
        self.producer_epoch = -1
        self.next_sequence = 0
        self.acked_sequence = 0
        """The sequence that follows the highest one acknowledged."""
        self.gap = False
        """A batch was certainly not appended: those behind start over once all before them are resolved."""
        self.unresolved = False
        """A batch was given up of which nobody knows whether it was appended."""
        self.proven_node = NO_LEADER
        """The leader whose last answer was a success: it surely knows our sequences. Others get one batch at a time."""
        # by the answers
        self.move_clock = MoveClock()
        # by the sequencing of a transactional producer
        self.transaction = 0
        """The number of the latest transaction that the partition is known to be part of."""

    def __repr__(self) -> str:
        return f"<PartitionQueue {self.topic.name}-{self.partition}: {len(self.batches)} batches, {self.in_flight} out>"


class TopicBuffer:
    """The queues of one topic, and where its records without a key go for now."""

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
        """Whether the cluster has given ``topic_id``: old brokers do not."""
        self.count = 0
        """How many partitions the topic has, as metadata says; 0 while it is not known."""
        self.queues: list[PartitionQueue | None] = []
        """By number; None until used. May be longer than ``count``: see `missing`."""
        # by the accumulator and the answers
        self.pending: dict[PartitionQueue, None] = {}
        """The queues that have batches."""
        self.batch_limit = batch_limit
        """Bytes that a batch may grow to while it cannot be sent."""
        # by the choice of the sticky partition, and by each record that goes there
        self.available: list[int] | None = None
        """Partitions that have a leader, for the application's own partitioner; None until it asks."""
        self.sticky: PartitionQueue | None = None
        """Where records without a key go; None lets the accumulator choose (KIP-480)."""
        self.sticky_bytes = 0
        """How much it got since it was chosen."""
        self.sticky_since = 0.0
        """When it was chosen."""
        self.deepest = 0
        """The length of the longest queue when that was last looked up."""
        self.choices_until_survey = 0
        """Choices of a sticky partition until it is looked up again."""

    def queue(self, partition: int) -> PartitionQueue:
        """The partition's queue, made at its first use."""
        queue = self.queues[partition]
        if queue is None:
            queue = self.queues[partition] = PartitionQueue(self, partition)
        return queue

    def renew(self, count: int, topic_id: UUID) -> None:
        """Take over what metadata says now."""
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
        """The queues that have batches, of partitions that are no more: the topic was made again, smaller."""
        return [queue for queue in self.pending if queue.partition >= self.count > 0]

    def _start_incarnation(self) -> None:
        """The topic was made anew: its leader epochs begin again, and its brokers know no sequences."""
        for queue in self.queues:
            if queue is not None:
                queue.proven_node = NO_LEADER
                for batch in queue.batches:
                    batch.patience.forget_epoch()

    def partition_for_key(self, key: bytes) -> int:
        """Where Java's producer puts the key, too."""
        return (murmur2(key) & 0x7FFFFFFF) % self.count

    def select(self, partition: int, key: bytes | None) -> PartitionQueue | None:
        """The queue of a record, if that is known without choosing a sticky partition or making a queue."""
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
        """Put a record into the open batch of its partition, chosen by key or at will where it is -1.

        None when there is more to it: the accumulator must open a batch, or memory runs short.
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
        """Put those of ``values[start:]`` that fit into the open batch; how many. They have neither key nor headers.

        0 when there is more to it.
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
