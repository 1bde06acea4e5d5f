"""Collecting records into batches, and selecting the batches for each request.

The accumulator owns the topics' buffers and their memory. Like all code in this package, it does no I/O and reads no
clock. Callers pass ``now`` in monotonic seconds. `drain` returns the `ProducerBatch` objects to send, and
`BatchAnswers` applies the brokers' responses to them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..._records.compression import compresses_slowly
from ..._records.encoder import BatchBuilder, estimated_size
from ..._records.layout import HEADER_SIZE
from ...config import ProducerConfig
from ...errors import ConfigError, KafkaError, MessageTooLargeError
from ...errors.shown import shown_cause
from ..chance import random
from ..leadership.patience import RetryPolicy
from ..metadata.types import ClusterSnapshot
from .batches import Flushes, FlushTicket, PartitionQueue, ProducerBatch, Record, TopicBuffer
from .buffer_memory import BufferMemory, MemoryClaim
from .counters import ProducerCounters
from .delivery import Delivery, DeliveryBatch, new_delivery
from .idempotence import IdempotentSequencing, PlainSequencing, Sequencing
from .outcome import BatchOutcome, Park
from .partitioner import NodeAvailability, StickyChooser, call_partitioner
from .schedule import Schedule
from .transactional import TransactionalSequencing

GROWS_FOR_S = 1.0
"""Age in seconds from which a batch no longer grows beyond ``batch_size``.

All records of a batch share one delivery timeout, which begins with the first record.
"""

TURN_BYTES = 2 << 20
"""Number of bytes to send before other producers get a turn: a few milliseconds of work."""

COMPRESSED_TURN_BYTES = 1 << 20
"""The same limit for batches that must be compressed."""

SLOW_TURN_BYTES = 256 << 10
"""The same limit for slow compression in threads. Smaller turns keep more threads busy."""

CROWD_BYTES = 256 * 1024
"""Number of bytes to accept before the sender gets a turn: one or two milliseconds of work.

With more, a request would contain more partitions.
"""

CROWD_BATCHES = 64
"""Number of batches to open before the sender gets a turn. Opening a batch takes time even if it gets few records."""

REQUEST_BATCHES = 1000
"""Maximum number of batches in a request. Encoding the request and decoding its response block the event loop."""

_HEADER_SIZE = HEADER_SIZE


class Accumulator:
    """Collects the records of one producer in batches, and decides when each batch is sent."""

    def __init__(
        self, config: ProducerConfig, park: Park, notify: Callable[[], None], rng: Callable[[], float] = random
    ) -> None:
        """``park`` suspends a task until an outcome is known. ``notify`` is called when there is something to send."""
        self.counters = ProducerCounters()
        self.snapshot = ClusterSnapshot()
        """The newest metadata."""
        self.topics: dict[str, TopicBuffer] = {}
        """Every topic to which records have been sent. The queues keep the sequence numbers that the brokers expect."""
        self.transactional = TransactionalSequencing() if config.transactional_id is not None else None
        """Producer id and partitions of the open transaction, or None if the producer is not transactional."""
        self.identity: IdempotentSequencing | None = self.transactional
        """Producer id and sequence numbers, or None if the producer is not idempotent."""
        if self.identity is None and config.enable_idempotence:
            self.identity = IdempotentSequencing()
        self.sequencing: Sequencing = self.identity or PlainSequencing(config.max_in_flight_requests_per_connection)
        self.batch_size = max(1, min(config.batch_size, config.max_request_size))
        self.memory = BufferMemory(config.buffer_memory, self.batch_size)
        self.schedule = Schedule(
            config.linger_ms / 1000, config.delivery_timeout_ms / 1000, self.memory, self.sequencing, notify
        )
        self.nodes = NodeAvailability(config.partitioner_availability_timeout_ms / 1000)
        self.retry = RetryPolicy(config.retry_backoff_ms, config.retry_backoff_max_ms, rng)
        self.park = park
        self.unseen_bytes = 0
        """Size in bytes of the batches that have become full since the sender's last turn."""
        self.opened = 0
        """Number of batches opened since the sender's last turn."""
        self.turn_bytes = 0
        """Number of bytes that `drain` may still return in this turn."""
        self.pending = 0
        """Number of batches whose outcome is unknown."""
        self.compresses_slowly = compresses_slowly(config.compression_type, config.compression_level)
        """True if batches should be compressed outside the event loop."""
        rack = config.client_rack if config.partitioner_rack_aware else None
        adaptive = config.partitioner_adaptive_partitioning_enable
        self._chooser = StickyChooser(adaptive, self.nodes, rng, rack, self.batch_size, config.linger_ms / 1000)
        self._ignore_keys = config.partitioner_ignore_keys
        self._blank = BatchBuilder(
            batch_size=self.batch_size, compression=config.compression_type, compression_level=config.compression_level
        )
        """The template for all builders. It is never filled."""
        self._bytes_per_turn = TURN_BYTES if config.compression_type == "none" else COMPRESSED_TURN_BYTES
        if self.compresses_slowly:
            self._bytes_per_turn = SLOW_TURN_BYTES
        self._max_request_size = config.max_request_size
        self._largest = min(config.max_request_size, config.buffer_memory)
        self._batch_limit = min(config.batch_size_max, config.max_request_size)
        self._partitioner = config.partitioner
        self._cluster_id: str | None = None
        self._ordinal = 0
        self._flushes = Flushes()

    def start_turn(self, now: float) -> None:
        """Start a turn of the sender: process the timers that are due, and begin a new count of accepted data."""
        self.unseen_bytes = self.opened = 0
        self.turn_bytes = self._bytes_per_turn
        self.schedule.poll(now)

    def crowded(self) -> bool:
        """Return True if the sender and other tasks should run before more records are accepted.

        Without this, a task that never waits would fill the memory before the first batch is sent.
        """
        return self.unseen_bytes >= CROWD_BYTES or self.opened >= CROWD_BATCHES

    # --- accepting records --------------------------------------------------------------------------------------------

    def topic(self, name: str) -> TopicBuffer | None:
        """Return the buffer of a topic, creating it on first use. Return None if the topic is not in the metadata."""
        buffer = self.topics.get(name)
        if buffer is None:
            if not self.snapshot.partition_count(name):
                return None
            buffer = self.topics[name] = TopicBuffer(name, self.memory, self._ignore_keys, self._batch_limit)
            buffer.renew(self.snapshot.partition_count(name), self.snapshot.topic_id(name))
        return buffer if buffer.count else None

    def record_size(self, record: Record) -> int:
        """Return the maximum size in bytes of a batch that contains only this record.

        Raises `MessageTooLargeError` if that exceeds ``max_request_size`` or ``buffer_memory``.
        """
        size = estimated_size(record.key, record.value, record.headers) + _HEADER_SIZE
        if size > self._largest:
            raise self._too_large("record", size)
        return size

    def _too_large(self, what: str, size: int) -> MessageTooLargeError:
        option, limit = "max_request_size", self._max_request_size
        if size <= limit:
            option, limit = "buffer_memory", self.memory.limit
        error = MessageTooLargeError(f"the {what} of {size} bytes exceeds {option} ({limit})")
        if self.transactional is None or not self.transactional.lenient:
            self.given_up(error)
        return error

    def append(self, topic: TopicBuffer, record: Record, now: float) -> Delivery | None:
        """Append a record to a batch, opening one if necessary. Return None if memory is short.

        In that case, call `append_granted` once the number of bytes returned by `record_size` has been granted. Raises
        `MessageTooLargeError`, or `ConfigError` if the topic does not have the partition.
        """
        size = self.record_size(record)
        # Even a small record must not overtake calls that are waiting for memory.
        if self.memory.waiting or self.memory.used + size > self.memory.limit:
            return None
        return self._put(topic, record, size, self.next_ordinal(), now)

    def append_granted(self, topic: TopicBuffer, record: Record, ordinal: int, now: float) -> Delivery:
        """Append a record for which memory has been granted. The caller releases the grant afterwards.

        ``ordinal`` is the ordinal of any batch that is opened.
        """
        return self._put(topic, record, self.record_size(record), ordinal, now)

    def place(self, topic: TopicBuffer, record: Record, ordinal: int, now: float) -> tuple[BatchOutcome, int]:
        """Append a record whose `send` has already returned. Return its outcome and index.

        If the record cannot be appended, for example because the application's partitioner raises an exception, returns
        a failed outcome for this record alone.
        """
        try:
            return self.append_granted(topic, record, ordinal, now).place
        except KafkaError as error:
            failure = error
        except Exception as cause:
            failure = ConfigError(f"partitioner failed for a record of {topic.name!r}: {shown_cause(cause)}")
            failure.__cause__ = cause
        outcome = BatchOutcome(topic.name, record.partition, self.park)
        outcome.fail(failure)
        self.counters.records_failed += 1
        self.given_up(failure)
        return outcome, 0

    def _put(self, topic: TopicBuffer, record: Record, size: int, ordinal: int, now: float) -> Delivery:
        """Put a record into a batch of its partition, for which memory is available. Open a batch if necessary."""
        partition = record.partition
        if partition < 0 and self._partitioner is not None:
            partition = call_partitioner(self._partitioner, record.key, topic, self.snapshot)
        while True:  # Each iteration closes or extends a full batch, until a batch accepts the record.
            queue = self._queue_for(topic, record.key, partition, now)
            batch = queue.open
            if batch is None:
                builder = self._blank.sibling(self.batch_size)
                index = builder.append(record.timestamp_ms, record.key, record.value, record.headers)
                batch = self._open(queue, builder, ordinal, now)
                break
            index = batch.builder.append(record.timestamp_ms, record.key, record.value, record.headers)
            if index >= 0:
                break
            self._fill(batch, size, now)
        if record.partition >= 0:
            queue.named = True
        added = batch.builder.size_bytes - batch.size_bytes
        batch.size_bytes += added
        self.memory.used += added
        if queue is topic.sticky:
            topic.sticky_bytes += added
        return new_delivery(batch.outcome, index, record.timestamp_ms)

    def append_values(
        self,
        topic: TopicBuffer,
        values: Sequence[bytes | None],
        start: int,
        partition: int,
        timestamp_ms: int,
        into: DeliveryBatch,
        now: float,
    ) -> int:
        """Append ``values[start:]`` to batches, without keys and headers. Return the number of values appended.

        Stops early if memory is short, if it is the sender's turn, or if a value is too large.
        """
        at, count = start, len(values)
        while at < count:
            queue = topic.select(partition, None)
            if queue is not None and queue.open is not None:
                batch = queue.open
                first = batch.builder.record_count
                added = topic.append_values(values, at, partition, timestamp_ms)
                if added:
                    into.add(batch.outcome, first, added, timestamp_ms)
                    at += added
                    continue
            if self.crowded():
                break
            try:
                delivery = self.append(topic, Record(topic.name, values[at], None, partition, timestamp_ms, ()), now)
            except MessageTooLargeError:
                break  # the caller appends this value alone, which raises its error
            if delivery is None:
                break
            into.add_delivery(delivery)
            at += 1
        return at - start

    def new_builder(self, batch_size: int) -> BatchBuilder:
        """Return an empty batch of this size, which the caller fills and passes to `append_built`."""
        return self._blank.sibling(batch_size)

    def append_built(
        self, topic: TopicBuffer, partition: int, builder: BatchBuilder, now: float
    ) -> BatchOutcome | None:
        """Append a batch filled by the caller, as the last batch of its partition. Return None if memory is short.

        In that case, call `append_built_granted` once the batch's size in bytes has been granted. The batch must not be
        empty.
        """
        size = builder.size_bytes
        if size > self._largest:
            raise self._too_large("batch", size)
        if self.memory.waiting or self.memory.used + size > self.memory.limit:
            return None
        return self.append_built_granted(topic, partition, builder, now)

    def append_built_granted(
        self, topic: TopicBuffer, partition: int, builder: BatchBuilder, now: float
    ) -> BatchOutcome:
        """Append a batch filled by the caller, for which memory has been granted.

        The caller releases the grant afterwards.
        """
        queue = topic.queue(partition)
        if queue.open is not None:
            queue.open.seal()
        batch = self._open(queue, builder, self.next_ordinal(), now)
        queue.named = True
        batch.seal()
        batch.size_bytes = builder.size_bytes
        self.memory.used += batch.size_bytes
        self.unseen_bytes += batch.size_bytes
        self.schedule.evaluate(queue, now)
        return batch.outcome

    def claim(self, size: int, on_grant: Callable[[], None], now: float) -> MemoryClaim:
        """Queue for ``size`` bytes of memory. If they are not free, stop lingering, so that batches release memory."""
        self.counters.buffer_waits += 1
        claim = self.memory.claim(size, on_grant)
        if not claim.granted:
            self.schedule.hurry(now)
        return claim

    def _queue_for(self, topic: TopicBuffer, key: bytes | None, partition: int, now: float) -> PartitionQueue:
        """Return the queue of the partition for a record.

        This is the given partition, the key's partition, or the sticky partition.
        """
        if partition < 0 and (key is None or self._ignore_keys):
            sticky = topic.sticky
            if sticky is None or (sticky.open is None and self._chooser.had_share(topic, topic.sticky_bytes, now)):
                sticky = topic.sticky = topic.queue(self._chooser.choose(topic, self.snapshot, now))
                topic.sticky_bytes = 0
                topic.sticky_since = now
            return sticky
        if key is not None and partition < 0:
            partition = topic.partition_for_key(key)
        if partition >= topic.count:
            raise ConfigError(f"partition must be from 0 to {topic.count - 1} in topic {topic.name!r}, not {partition}")
        return topic.queue(partition)

    def next_ordinal(self) -> int:
        """Return the number for the next batch. A flush waits for all batches up to a number."""
        self._ordinal += 1
        return self._ordinal

    def _open(self, queue: PartitionQueue, builder: BatchBuilder, ordinal: int, now: float) -> ProducerBatch:
        topic = queue.topic
        batch = ProducerBatch(queue, builder, BatchOutcome(topic.name, queue.partition, self.park), ordinal, now)
        self.opened += 1
        self.started(ordinal)
        if queue.generation != self.snapshot.generation:
            queue.renew_leader(self.snapshot)
        queue.batches.append(batch)
        queue.open = batch
        queue.named = False
        queue.depth += 1
        topic.pending[queue] = None
        self.schedule.opened(batch, now)
        if self.transactional is not None:
            self.transactional.opened(queue)
        return batch

    def _fill(self, batch: ProducerBatch, size: int, now: float) -> None:
        """Close the batch or give it more room, because the next record, of this size, does not fit.

        The batch may now be sent. While it waits to be sent, it may grow up to the topic's limit.
        """
        queue = batch.queue
        topic = queue.topic
        if topic.sticky is queue and self._chooser.had_share(topic, topic.sticky_bytes + self.batch_size // 2, now):
            topic.sticky = None  # even if a smaller record would still have fit
        self.unseen_bytes += self.batch_size
        room = min(self.batch_size, topic.batch_limit - batch.size_bytes)
        if size > room or now - batch.created_at > GROWS_FOR_S:
            batch.seal()
        else:
            batch.builder.extend(room, topic.batch_limit)
            batch.shares += 1
            queue.depth += 1
        self.schedule.evaluate(queue, now)

    # --- sending batches ----------------------------------------------------------------------------------------------

    def drain(self, node_id: int, now: float, busy: bool = False) -> list[ProducerBatch]:
        """Return the batches for the next Produce request to a broker, and mark them as sent.

        There is at most one batch per partition. If the broker is ``busy`` with an earlier request and all batches may
        linger, the result is empty, similar to Nagle's algorithm for TCP (RFC 896). A broker processes one request of a
        connection at a time, and a large request costs less than several small ones.
        """
        drained: list[ProducerBatch] = []
        size = 0
        schedule = self.schedule
        if busy and schedule.may_linger(node_id, now):
            return drained
        limit = min(self._max_request_size, self.turn_bytes)
        # Not `while`: a partition may be ready again after its batch, but a request has one batch per partition.
        for _ in range(min(len(schedule.ready.get(node_id, ())), REQUEST_BATCHES)):
            queue = schedule.pop(node_id)
            if schedule.sendable_to(queue, now) != node_id:
                schedule.evaluate(queue, now)
                continue
            batch = schedule.first_unsent(queue)
            assert batch is not None
            size += batch.size_bytes
            if drained and size > limit:  # a batch that exceeds the limit is sent alone
                schedule.put_back(queue, node_id)
                break
            self.turn_bytes -= batch.size_bytes
            self._send(batch, node_id, now)
            drained.append(batch)
        if drained:
            self.nodes.taking(node_id)
            self.counters.requests += 1
            if self.transactional is not None:
                self.transactional.requested(node_id, drained, now)
        return drained

    def _send(self, batch: ProducerBatch, node_id: int, now: float) -> None:
        queue = batch.queue
        counters = self.counters
        batch.seal()
        counters.sending(batch.attempts, batch.builder.record_count, now - batch.created_at)
        self.sequencing.sending(batch)
        if batch.patience.sent(now, queue.leader_epoch):
            counters.free_retries += 1
        batch.attempts += 1
        batch.in_flight = True
        queue.in_flight += 1
        queue.in_flight_node = node_id
        self.schedule.evaluate(queue, now)

    # --- metadata, producer id, flush ---------------------------------------------------------------------------------

    def on_snapshot(
        self, snapshot: ClusterSnapshot, now: float, partitions: Iterable[tuple[str, int]] | None = None
    ) -> None:
        """Apply new metadata to the partitions with records whose leader or leader epoch has changed.

        ``partitions`` contains all partitions that differ, or is None if unknown.
        """
        self.snapshot = snapshot
        if snapshot.cluster_id is not None and snapshot.cluster_id != self._cluster_id:
            if self._cluster_id is not None and self.identity is not None:
                self.identity.forget_producer_id()  # it was not assigned by the new cluster
            self._cluster_id = snapshot.cluster_id
        if partitions is None:
            for name, topic in self.topics.items():
                topic.renew(snapshot.partition_count(name), snapshot.topic_id(name))
                for queue in topic.pending:
                    if queue.renew_leader(snapshot):
                        self.schedule.evaluate(queue, now)
            return
        for name, number in partitions:
            buffer = self.topics.get(name)
            if buffer is not None:
                buffer.available = None
                changed = buffer.queues[number] if 0 <= number < buffer.count else None
                if changed is not None and changed.batches and changed.renew_leader(snapshot):
                    self.schedule.evaluate(changed, now)

    def on_producer_id(self, producer_id: int, producer_epoch: int, now: float) -> None:
        """Use the producer id and epoch of an InitProducerId response, and reschedule all pending batches."""
        assert self.identity is not None
        self.identity.assign_producer_id(producer_id, producer_epoch)
        for topic in self.topics.values():
            for queue in topic.pending:
                self.schedule.evaluate(queue, now)

    def start_flush(self, on_done: Callable[[], None], now: float) -> FlushTicket | None:
        """Send all pending batches without lingering. Return None if there are none.

        Otherwise, `end_flush` must be called for the result.
        """
        if not self.pending:
            return None
        ticket = self._flushes.begin(self._ordinal, on_done)
        self.schedule.flushes += 1
        self.schedule.hurry(now)
        return ticket

    def end_flush(self, ticket: FlushTicket) -> None:
        """End a flush that is complete or that its caller has abandoned."""
        self.schedule.flushes -= 1
        self._flushes.end(ticket)

    def started(self, ordinal: int, batches: int = 1) -> None:
        """Count additional pending batches with this ordinal: a new batch, or more pieces of a split batch."""
        self.pending += batches
        self._flushes.started(ordinal, batches)

    def finish(self, ordinal: int) -> None:
        """Count a batch that is now acknowledged or has failed, which may complete flushes."""
        self.pending -= 1
        self._flushes.finished(ordinal, self._ordinal)

    @property
    def unanswered(self) -> bool:
        """True if the response to a sent batch is pending, even if the batch has been given up."""
        return any(queue.in_flight for topic in self.topics.values() for queue in topic.pending)

    def records_left(self) -> int:
        """Return the number of records in batches whose outcome is unknown.

        Iterates over all partitions that have a batch.
        """
        queues = (queue for topic in self.topics.values() for queue in topic.pending)
        return sum(batch.builder.record_count for queue in queues for batch in queue.batches)

    def given_up(self, error: KafkaError) -> None:
        """Fail the open transaction, which cannot be committed because some of its records were given up."""
        if self.transactional is not None:
            self.transactional.on_failure(error)
