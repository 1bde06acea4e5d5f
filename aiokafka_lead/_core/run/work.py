"""The records in hand of one run: which one to handle next, how many to take, and which positions to commit.

A record is *in hand* from the time at which it is taken from the consumer until it is done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterator
from typing import TYPE_CHECKING, Any

from ..._records.record import ConsumerRecord
from ...config.run import Order
from ...types import TopicPartition
from ..consumer.partition_state import PartitionState
from ..consumer.position import Position
from ..consumer.positions import Positions
from .options import RunConfig
from .order import Lanes, lanes_for
from .progress import Progress
from .retries import Shares

if TYPE_CHECKING:
    Record = ConsumerRecord[Any, Any]

TAKE_AT_ONCE = 2048
"""Maximum number of records to take at once.

It is large enough to make taking cheap, and small enough for large records.
"""

RUN = 8
"""Number of records of a partition to handle in one turn."""


class PartitionWork:
    """The records in hand of one assigned partition. Only `Work` modifies it."""

    __slots__ = (
        "attempts",
        "closed",
        "committed",
        "cut",
        "handled",
        "is_retry",
        "lanes",
        "progress",
        "queued",
        "queued_aside",
        "resume_at",
        "shut",
        "state",
    )

    def __init__(self, state: PartitionState, start: Position, order: Order, is_retry: bool) -> None:
        self.is_retry = is_retry
        """True if the partition belongs to a retry topic. All its records are then retries."""
        self.state = state
        """The assignment to which the records belong."""
        self.lanes: Lanes = lanes_for(order)
        self.progress = Progress(start, self.lanes)
        self.committed = start
        """The position that the group is known to have committed."""
        self.attempts: dict[int, int] = {}
        """For each record in hand, by offset, the number of times that its handler has raised an exception."""
        self.handled = 0
        """Number of the partition's records that are being handled."""
        self.queued = False
        """True while the partition is in `Work.turns`."""
        self.queued_aside = False
        """True while the partition is in `Work.aside`."""
        self.closed = False
        """True once no more records are taken. Records in hand may still be handled."""
        self.shut = False
        """True once no more of the partition's records are handled."""
        self.cut = False
        """True if a record that was taken will not be handled."""
        self.resume_at = -1
        """Number of records in hand at which taking continues after it has stopped, otherwise -1."""


class HandlerSlot:
    """A handler's place for one record. Only `Work` modifies it."""

    __slots__ = ("aside", "began_at", "partition", "record")

    def __init__(self) -> None:
        self.aside = False
        """True if the record is a retry, or belongs to a key that has used more than its share of time."""
        self.began_at = -1.0
        """Time at which the record was passed to the handler, or -1 while it is the last record taken."""
        self.partition: PartitionWork | None = None
        """The partition of the record, or None if there is no record."""
        self.record: Record | None = None
        """The current record, or the previous one if there is none."""

    @property
    def busy(self) -> bool:
        """True while the slot contains a record."""
        return self.partition is not None


class Work:
    """Tracks the records in hand of a run, over all partitions. The partitions take turns.

    The total weight of the records in hand is at most about ``max_in_hand``. A record weighs 1, plus 1 for each
    ``max_in_hand_bytes / max_in_hand`` bytes, so that both options are respected. Each partition has a share of this
    limit, for its records in hand and for the offsets from its first unfinished record on. A partition that is stuck,
    or has records that wait for a retry, therefore does not block other partitions.

    Retries, and records of keys that have used more than their share of time, wait in a separate queue. While both
    queues contain records, each has a share of the handlers (see `Shares`).

    A handler that never waits is done before the next record is taken. Until then, the last record taken is kept as
    ``_fresh``, with almost no bookkeeping. Every method except `take` and `finished` settles it first.

    As a container, a `Work` contains the partitions from which records may be taken now.
    """

    def __init__(
        self,
        config: RunConfig,
        positions: Positions,
        on_room: Callable[[], None],
        on_calm: Callable[[], None],
        clock: Callable[[], float],
        order_of: Callable[[str], Order] | None = None,
        retry_topics: Container[str] = (),
    ) -> None:
        """Start without records.

        ``order_of`` returns the order of a topic's records. If it is None, the run's order applies to all topics.
        """
        self._retry_topics = retry_topics
        self._clock = clock
        self._shares = Shares(config.concurrency, config.retry_share)
        self._order: Order = config.order
        self._order_of = order_of
        self._limit = config.max_in_hand
        self._least_half = max(1, min(config.max_in_hand // 2, 2 * config.concurrency))
        self._half = 0
        """Half of a partition's share.

        Partitions of retry topics have few records, and do not reduce the shares of others.
        """
        self._counted: object = None
        """The assignment for which ``_half`` was computed."""
        self._unit_bytes = max(1, config.max_in_hand_bytes // config.max_in_hand)
        self._positions = positions
        self._on_room = on_room
        """Called when more records can be taken."""
        self._on_calm = on_calm
        """Called when the last handler of a closed partition has ended."""
        self._wanted_room = -1
        """The weight in hand at which a waiting task is notified, or -1 if no task is waiting."""
        self._mean_weight = 8.0
        """Mean weight of the records taken last. It starts high, so that few records are taken at first."""
        self.in_hand = 0
        """Weight of all unfinished records."""
        self.turns: deque[PartitionWork] = deque()
        """Partitions that have records to handle."""
        self.aside: deque[PartitionWork] = deque()
        """Partitions that have retries or records of slow keys to handle."""
        self._left = RUN
        """Number of records that the first partition in ``turns`` may still handle in its turn."""
        self._fresh: Record | None = None
        """The record taken last, or None if it has been settled."""
        self._fresh_in: PartitionWork | None = None
        """The partition of ``_fresh``."""
        self._fresh_slot: HandlerSlot | None = None
        """The slot of ``_fresh``."""
        self._partitions: dict[TopicPartition, PartitionWork] = {}

    def __iter__(self) -> Iterator[PartitionWork]:
        return iter(self._partitions.values())

    def slot(self) -> HandlerSlot:
        """Return an empty slot, for an additional worker."""
        return HandlerSlot()

    def get(self, tp: TopicPartition) -> PartitionWork | None:
        """Return the partition's records in hand, or None if there are none."""
        return self._partitions.get(tp)

    # --- taking records ----------------------------------------------------------------------------------------------

    def __contains__(self, tp: object) -> bool:
        """Return True if records of the partition may be taken now: it is open and its share has room."""
        partition = self._partitions.get(tp)  # type: ignore[call-overload]
        if partition is None:
            return True
        if partition.closed:
            return not self._positions.owns(partition.state)  # True if it has been assigned again
        self._settle()
        if self._has_share(partition):
            return True
        partition.resume_at = partition.lanes.count() * 3 // 4
        return False

    def _has_share(self, partition: PartitionWork) -> bool:
        progress, half = partition.progress, self._half_share()
        return partition.lanes.count() < half and progress.end.offset - progress.done_to().offset < half

    def _half_share(self) -> int:
        by_topic = self._positions.by_topic
        if by_topic is not self._counted:  # the list is replaced at each change
            self._counted = by_topic
            own = sum(len(states) for topic, states in by_topic.items() if topic not in self._retry_topics)
            self._half = max(self._least_half, self._limit // max(1, 2 * own))
        return self._half

    def room(self) -> int:
        """Return the number of records that may be taken now.

        It is at most half of a partition's share, because all of them may belong to one partition. It is at least 1
        while no record is in hand. Otherwise, the run would stop at a record that weighs more than the limit.
        """
        room = min(TAKE_AT_ONCE, self._half_share(), int((self._limit - self.in_hand) / self._mean_weight))
        return room if self.in_hand else max(1, room)

    def wait_for_room(self) -> None:
        """Call ``on_room`` once, as soon as a quarter of the weight in hand has been finished."""
        self._wanted_room = self.in_hand * 3 // 4

    def wait_for_all(self) -> bool:
        """Call ``on_room`` once no record is in hand. Return True if none is in hand now."""
        self._settle()
        self._wanted_room = 0
        return not self.in_hand

    def add(self, state: PartitionState, records: list[Record], end: Position) -> None:
        """Add the partition's next records to those in hand. The partition continues at ``end``."""
        self._settle()
        partition = self._partition_for(state, records[0])
        weights = self._weights(records)
        partition.progress.began(records, end)
        partition.lanes.add(records, weights)
        weight = len(records) if weights is None else sum(weights)
        self.in_hand += weight
        self._mean_weight = weight / len(records)
        self._queue(partition)

    def _partition_for(self, state: PartitionState, first: Record) -> PartitionWork:
        tp = state.tp
        partition = self._partitions.get(tp)
        if partition is None or partition.state is not state or first.offset < partition.progress.end.offset:
            # The partition has been assigned again, or moved back by a seek.
            if partition is not None:
                self.drop(partition)
            order = self._order if self._order_of is None else self._order_of(tp.topic)
            start = Position(first.offset)
            partition = self._partitions[tp] = PartitionWork(state, start, order, tp.topic in self._retry_topics)
        return partition

    def _weights(self, records: list[Record]) -> list[int] | None:
        """Return the weight of each record, or None if each weighs 1."""
        unit = self._unit_bytes
        for record in records:
            if len(record.key or b"") + len(record.value or b"") >= unit:
                return [1 + (len(each.key or b"") + len(each.value or b"")) // unit for each in records]
        return None

    # --- handling records --------------------------------------------------------------------------------------------

    def take(self, slot: HandlerSlot) -> Record | None:
        """Put the next record to handle into ``slot``. Return it, or None if there is none."""
        turns = self.turns
        if self._fresh is not None:
            self._settle()
            if turns and turns[0] is self._fresh_in:
                self._end_turn(turns[0])  # Handlers take time, so limit each partition to its share of them.
        if self.aside and (not turns or self._shares.aside_is_next()) and self._take_aside(slot):
            return slot.record
        while turns:
            partition = turns[0]
            lanes = partition.lanes
            record: Record | None
            if lanes.ready:
                record = lanes.ready.popleft()
                partition.handled += 1
                slot.began_at = self._clock()
            else:
                record = self._fresh = lanes.next()
                if record is None:
                    self._end_turn(partition)
                    continue
                self._fresh_in = partition
                self._fresh_slot = slot
            self._left -= 1
            if not self._left or not lanes.parallel or not (lanes.line or lanes.ready):
                self._end_turn(partition)
            slot.partition = partition
            slot.record = record
            return record
        return slot.record if self._take_aside(slot) else None

    def _take_aside(self, slot: HandlerSlot) -> bool:
        """Put a retry, or a record of a slow key, into the slot. Return False if there is none."""
        while self.aside:
            partition = self.aside[0]
            lanes = partition.lanes
            record: Record | None = None
            if lanes.aside:
                record = lanes.aside.popleft()
            elif partition.is_retry:
                record = lanes.next_held()
            self.aside.popleft()
            partition.queued_aside = False
            self._queue(partition)
            if record is None:
                continue
            partition.handled += 1
            slot.partition = partition
            slot.record = record
            slot.aside = True
            slot.began_at = self._clock()
            self._shares.began()
            return True
        return False

    def _end_turn(self, partition: PartitionWork) -> None:
        """End this partition's turn.

        If it has another record that can be handled now, it gets another turn after the other partitions.
        """
        self._left = RUN
        self.turns.popleft()
        if partition.lanes.parallel and partition.lanes.available():
            self.turns.append(partition)
        else:
            partition.queued = False
        if partition.lanes.aside:
            self._queue(partition)

    def _settle(self) -> None:
        """Hold the record taken last, because its handler is waiting and other work happens first."""
        record, partition = self._fresh, self._fresh_in
        if record is not None and partition is not None:
            self._fresh = None
            partition.lanes.hold(record)
            partition.handled += 1
            if self._fresh_slot is not None:
                self._fresh_slot.began_at = self._clock()

    def finished(self, slot: HandlerSlot) -> None:
        """Finish the record in this slot, and free the slot."""
        partition, record = slot.partition, slot.record
        assert partition is not None
        assert record is not None
        if slot.began_at >= 0:
            self._stop_clock(slot)
        slot.partition = None
        if partition.attempts:
            partition.attempts.pop(record.offset, None)
        was_first = partition.resume_at >= 0 and record.offset <= partition.lanes.first()
        if record is self._fresh:
            self._fresh = None
            self.in_hand -= partition.lanes.passed(record)
        else:
            partition.handled -= 1
            self.in_hand -= partition.lanes.finished(record)
        if not partition.queued or partition.lanes.aside:
            self._queue(partition)
        if partition.closed:
            self._came_back(partition)
        if self._wanted_room >= self.in_hand:
            self._wanted_room = -1
            self._on_room()
        elif partition.resume_at >= 0 and (was_first or partition.resume_at >= partition.lanes.count()):
            self._may_resume(partition)

    def _may_resume(self, partition: PartitionWork) -> None:
        if self._has_share(partition):
            partition.resume_at = -1
            self._on_room()
        elif partition.resume_at >= partition.lanes.count():
            partition.resume_at = 0  # it is too far ahead of its first unfinished record, and waits for that

    def passed_on(self, slot: HandlerSlot) -> None:
        """End the handler in this slot. The slot keeps its record, because the record is not done."""
        self._settle()
        if slot.began_at >= 0:
            self._stop_clock(slot)

    def _stop_clock(self, slot: HandlerSlot) -> None:
        """Count the time that the slot's handler has taken. Another handler of its kind may now start."""
        now, partition, record = self._clock(), slot.partition, slot.record
        assert partition is not None
        assert record is not None
        self._ended(slot)
        partition.lanes.spent(record, now - slot.began_at, now)
        slot.began_at = -1.0

    def given_up(self, slot: HandlerSlot) -> None:
        """Take the record in this slot back from its handler, which has not finished it."""
        self._settle()
        partition = slot.partition
        assert partition is not None
        slot.partition = None
        self._ended(slot)
        slot.began_at = -1.0
        partition.handled -= 1
        if partition.closed:
            assert slot.record is not None
            # Later records will be delivered again, even if they have been handled.
            partition.lanes.bar(slot.record.offset)
            self._came_back(partition)

    def _ended(self, slot: HandlerSlot) -> None:
        if slot.aside:
            slot.aside = False
            self._shares.ended()

    def _came_back(self, partition: PartitionWork) -> None:
        if not partition.handled and not self.in_line(partition):
            self._on_calm()

    def in_line(self, partition: PartitionWork) -> bool:
        """Return True if a closed partition has a record that will be handled as soon as a handler is free."""
        return not partition.shut and bool(partition.lanes.available() or partition.lanes.aside)

    def again(self, partition: PartitionWork, record: Record) -> None:
        """Handle the record again, before other records of its lane. Do nothing if the partition is closed."""
        if not partition.closed:
            partition.lanes.aside.append(record)
            self._queue(partition)

    def _queue(self, partition: PartitionWork) -> None:
        """Add the partition to those that take turns, if it has records to handle."""
        if partition.shut:
            return
        if not partition.queued and not partition.is_retry and partition.lanes.available():
            partition.queued = True
            self.turns.append(partition)
        if not partition.queued_aside and self._waits_aside(partition):
            partition.queued_aside = True
            self.aside.append(partition)

    def _waits_aside(self, partition: PartitionWork) -> bool:
        lanes = partition.lanes
        return bool(lanes.aside) or (partition.is_retry and lanes.available())

    def _unqueue(self, partition: PartitionWork) -> None:
        """End the turns of a partition that is shut or has no records to handle."""
        if partition.queued and (partition.shut or not partition.lanes.available()):
            partition.queued = False
            self.turns.remove(partition)
        if partition.queued_aside and (partition.shut or not self._waits_aside(partition)):
            partition.queued_aside = False
            self.aside.remove(partition)

    # --- giving up partitions ----------------------------------------------------------------------------------------

    def wind_up(self, partition: PartitionWork) -> None:
        """Take no more records of the partition, and handle no record after those already started.

        A commit never passes an unfinished record, because all records after it are delivered again. It is therefore
        useful to handle the records before those already started, but not the records after one that failed.
        """
        self._settle()
        if partition.closed:
            return
        partition.closed = True
        end = partition.progress.end.offset
        weight, first = partition.lanes.cut(end)
        self.in_hand -= weight
        if first < end:
            partition.cut = True
            partition.progress.cut(first)
        if partition.attempts:
            partition.lanes.bar(min(partition.attempts))
        self._unqueue(partition)

    def close(self, partition: PartitionWork) -> None:
        """Start no more records of the partition. Handlers that are running may still finish theirs."""
        self._settle()
        partition.closed = partition.shut = True
        self._unqueue(partition)

    def done(self) -> Iterator[tuple[PartitionWork, Position]]:
        """Yield each partition, and the position up to which all its records are done."""
        self._settle()
        for partition in self._partitions.values():
            done_to = partition.progress.done_to()
            read_to = partition.state.position
            busy = partition.cut or partition.lanes.count()
            if not busy and read_to is not None and read_to.offset > done_to.offset:
                done_to = read_to  # There are no records in between, only markers such as ends of transactions.
            yield partition, done_to

    def drop(self, partition: PartitionWork) -> None:
        """Give up the unfinished records of the partition, and forget the partition."""
        self.close(partition)
        self.in_hand -= partition.progress.give_up()
        if self._partitions.get(partition.state.tp) is partition:
            del self._partitions[partition.state.tp]
