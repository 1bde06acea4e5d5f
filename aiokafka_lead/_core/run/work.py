"""Records in hand of one run: selects the next to hand out, limits their number, and finds positions to commit."""

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
"""Maximum number of records taken at once: enough to make taking cheap, but few enough if they are large."""

RUN = 8
"""Number of a partition's records that are handed out in one turn."""


class PartitionWork:
    """Records in hand of one assigned partition. Modified only by `Work`."""

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
        """True if all its records are retries."""
        self.state = state
        """Assignment that the records belong to."""
        self.lanes: Lanes = lanes_for(order)
        self.progress = Progress(start, self.lanes)
        self.committed = start
        """The group's committed position, as far as known."""
        self.attempts: dict[int, int] = {}
        """Number of times that handlers have raised for each record in hand, by offset."""
        self.handled = 0
        """Number of its records that handlers are working on."""
        self.queued = False
        """True while it is in `Work.turns`."""
        self.queued_aside = False
        """True while it is in `Work.aside`."""
        self.closed = False
        """True once no more records are taken, and at most the records in hand are handed out."""
        self.shut = False
        """True once no more of its records are handed out."""
        self.cut = False
        """True if a record that was taken will not be handed out."""
        self.resume_at = -1
        """Number of its records in hand at which taking resumes; -1 while it has not stopped."""


class HandlerSlot:
    """Holds the record that a handler works on. Modified only by `Work`."""

    __slots__ = ("aside", "began_at", "partition", "record")

    def __init__(self) -> None:
        self.aside = False
        """True if the record is a retry, or belongs to a key that has taken more than its share."""
        self.began_at = -1.0
        """Time at which the record was handed out; -1 while it is the last record taken."""
        self.partition: PartitionWork | None = None
        """Partition of the record, or None without a record."""
        self.record: Record | None = None
        """Present or last record."""

    @property
    def busy(self) -> bool:
        """True while it holds a record."""
        return self.partition is not None


class Work:
    """Records in hand of a run, over all partitions, which take turns.

    Limits: all records together weigh at most about ``max_in_hand``. A record weighs 1, and 1 more for each
    ``max_in_hand_bytes / max_in_hand`` bytes, so both limits hold. Each partition has a share of this limit, both for
    the records in hand and for the offsets from its first unfinished record on. So a partition that is stuck, or with
    records that wait for a retry, does not block other partitions.

    Shares: retries, and records of keys that have taken more than their share of time, wait in separate queues. While
    both kinds wait, each has its part of the handlers (`Shares`).

    A handler that never waits is done before the next record is taken. Until then the last record taken is `_fresh`,
    and costs next to no bookkeeping. Every method but `take` and `finished` settles it first.

    As a container it holds the partitions from which records may be taken now.
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
        """Begin empty. ``order_of`` returns the order of a topic's records; None applies the run's order to all."""
        self._retry_topics = retry_topics
        self._clock = clock
        self._shares = Shares(config.concurrency, config.retry_share)
        self._order: Order = config.order
        self._order_of = order_of
        self._limit = config.max_in_hand
        self._least_half = max(1, min(config.max_in_hand // 2, 2 * config.concurrency))
        self._half = 0
        """Half of a partition's share. Partitions of retry topics have few records, and do not reduce other shares."""
        self._counted: object = None
        """Assignment for which ``_half`` was calculated."""
        self._unit_bytes = max(1, config.max_in_hand_bytes // config.max_in_hand)
        self._positions = positions
        self._on_room = on_room
        """Called when more records can be taken than before."""
        self._on_calm = on_calm
        """Called when the last handler of a closed partition's records has ended."""
        self._wanted_room = -1
        """Weight in hand at which a waiting task is notified; -1 if no task waits."""
        self._mean_weight = 8.0
        """Mean weight of the records taken last; the initial guess keeps the first taking small."""
        self.in_hand = 0
        """Weight of all unfinished records."""
        self.turns: deque[PartitionWork] = deque()
        """Partitions with records to take."""
        self.aside: deque[PartitionWork] = deque()
        """Partitions with retries, or records of slow keys, to take."""
        self._left = RUN
        """Number of records that the first partition in ``turns`` may still hand out in its turn."""
        self._fresh: Record | None = None
        """Record taken last, unless it was settled already."""
        self._fresh_in: PartitionWork | None = None
        """Partition of `_fresh`."""
        self._fresh_slot: HandlerSlot | None = None
        """Slot of `_fresh`."""
        self._partitions: dict[TopicPartition, PartitionWork] = {}

    def __iter__(self) -> Iterator[PartitionWork]:
        return iter(self._partitions.values())

    def slot(self) -> HandlerSlot:
        """Return a slot for another worker."""
        return HandlerSlot()

    def get(self, tp: TopicPartition) -> PartitionWork | None:
        """Return the partition's work, or None if none of its records was taken."""
        return self._partitions.get(tp)

    # --- taking ------------------------------------------------------------------------------------------------------

    def __contains__(self, tp: object) -> bool:
        """Return True if the partition's records may be taken."""
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
        if by_topic is not self._counted:  # replaced at each change
            self._counted = by_topic
            own = sum(len(states) for topic, states in by_topic.items() if topic not in self._retry_topics)
            self._half = max(self._least_half, self._limit // max(1, 2 * own))
        return self._half

    def room(self) -> int:
        """Return the number of records that may be taken now.

        It is half a partition's share at most, since all may belong to one partition. It is at least 1 while no record
        is in hand, whatever the record weighs: otherwise the run would stop.
        """
        room = min(TAKE_AT_ONCE, self._half_share(), int((self._limit - self.in_hand) / self._mean_weight))
        return room if self.in_hand else max(1, room)

    def wait_for_room(self) -> None:
        """Have ``on_room`` called once a quarter of the weight in hand is finished."""
        self._wanted_room = self.in_hand * 3 // 4

    def wait_for_all(self) -> bool:
        """Have ``on_room`` called once no record is in hand; return True if none is now."""
        self._settle()
        self._wanted_room = 0
        return not self.in_hand

    def add(self, state: PartitionState, records: list[Record], end: Position) -> None:
        """Put the partition's next records in hand; it continues at ``end``."""
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
            # Assigned again, or moved back by a seek.
            if partition is not None:
                self.drop(partition)
            order = self._order if self._order_of is None else self._order_of(tp.topic)
            start = Position(first.offset)
            partition = self._partitions[tp] = PartitionWork(state, start, order, tp.topic in self._retry_topics)
        return partition

    def _weights(self, records: list[Record]) -> list[int] | None:
        """Return the weight of each record, or None if every record weighs 1."""
        unit = self._unit_bytes
        for record in records:
            if len(record.key or b"") + len(record.value or b"") >= unit:
                return [1 + (len(each.key or b"") + len(each.value or b"")) // unit for each in records]
        return None

    # --- handing out -------------------------------------------------------------------------------------------------

    def take(self, slot: HandlerSlot) -> Record | None:
        """Return the next record to handle, which ``slot`` holds from now on, or None."""
        turns = self.turns
        if self._fresh is not None:
            self._settle()
            if turns and turns[0] is self._fresh_in:
                self._end_turn(turns[0])  # handlers take time, so each partition gets its share of handlers
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
        """Give the slot a retry, or a record of a slow key; return False if there is none."""
        while self.aside:
            partition = self.aside[0]
            lanes = partition.lanes
            record: Record | None = None
            if lanes.aside:
                record = lanes.aside.popleft()
            elif partition.is_retry:
                if lanes.ready:
                    record = lanes.ready.popleft()
                else:
                    record = lanes.next()
                    if record is not None:
                        lanes.hold(record)
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
        """End this partition's turn; it gets another turn if more records can be taken before any is finished."""
        self._left = RUN
        self.turns.popleft()
        if partition.lanes.parallel and partition.lanes.available():
            self.turns.append(partition)
        else:
            partition.queued = False
        if partition.lanes.aside:
            self._queue(partition)

    def _settle(self) -> None:
        """Hold the record taken last: its handler waits, since other work happens before it has ended."""
        record, partition = self._fresh, self._fresh_in
        if record is not None and partition is not None:
            self._fresh = None
            partition.lanes.hold(record)
            partition.handled += 1
            if self._fresh_slot is not None:
                self._fresh_slot.began_at = self._clock()

    def finished(self, slot: HandlerSlot) -> None:
        """Note that the record in this slot is done."""
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
            partition.resume_at = 0  # it is too far ahead of its first record, and waits for that record

    def passed_on(self, slot: HandlerSlot) -> None:
        """Note that the handler in this slot has ended, although its record is not done."""
        self._settle()
        if slot.began_at >= 0:
            self._stop_clock(slot)

    def _stop_clock(self, slot: HandlerSlot) -> None:
        """Count the time of the slot's handler, whose end allows another handler of its kind."""
        now, partition, record = self._clock(), slot.partition, slot.record
        assert partition is not None
        assert record is not None
        self._ended(slot)
        partition.lanes.spent(record, now - slot.began_at, now)
        slot.began_at = -1.0

    def given_up(self, slot: HandlerSlot) -> None:
        """Take back the record in this slot from its handler: it is not done."""
        self._settle()
        partition = slot.partition
        assert partition is not None
        slot.partition = None
        self._ended(slot)
        slot.began_at = -1.0
        partition.handled -= 1
        if partition.closed:
            assert slot.record is not None
            partition.lanes.bar(slot.record.offset)  # later records are delivered again, handled or not
            self._came_back(partition)

    def _ended(self, slot: HandlerSlot) -> None:
        if slot.aside:
            slot.aside = False
            self._shares.ended()

    def _came_back(self, partition: PartitionWork) -> None:
        if not partition.handled and not self.in_line(partition):
            self._on_calm()

    def in_line(self, partition: PartitionWork) -> bool:
        """Return True if a record of a closed partition will be handed out as soon as a handler is free."""
        return not partition.shut and bool(partition.lanes.available() or partition.lanes.aside)

    def again(self, partition: PartitionWork, record: Record) -> None:
        """Hand out the record again, before other records of its lane."""
        if not partition.closed:
            partition.lanes.aside.append(record)
            self._queue(partition)

    def _queue(self, partition: PartitionWork) -> None:
        """Have the partition take turns, if it has records to take."""
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
        """End the turns of a partition that is shut, or without records to take."""
        if partition.queued and (partition.shut or not partition.lanes.available()):
            partition.queued = False
            self.turns.remove(partition)
        if partition.queued_aside and (partition.shut or not self._waits_aside(partition)):
            partition.queued_aside = False
            self.aside.remove(partition)

    # --- giving up ---------------------------------------------------------------------------------------------------

    def wind_up(self, partition: PartitionWork) -> None:
        """Take no more records of the partition, and hand out only records before the records that were begun.

        A commit never passes an unfinished record: all records after it are delivered again. So it is useful to handle
        the records before these, but not the records after a failed record.
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
        """Hand out no more records of the partition. Handlers may still finish their records."""
        self._settle()
        partition.closed = True
        partition.shut = True
        self._unqueue(partition)

    def done(self) -> Iterator[tuple[PartitionWork, Position]]:
        """Yield each partition with the position before which all its records are done."""
        self._settle()
        for partition in self._partitions.values():
            done_to = partition.progress.done_to()
            read_to = partition.state.position
            if partition.cut or partition.lanes.count() or read_to is None:
                yield partition, done_to
                continue
            if read_to.offset > done_to.offset:
                done_to = read_to  # no records in between, only the ends of transactions and the like
            yield partition, done_to

    def drop(self, partition: PartitionWork) -> None:
        """Give up the unfinished records of the partition."""
        self.close(partition)
        self.in_hand -= partition.progress.give_up()
        if self._partitions.get(partition.state.tp) is partition:
            del self._partitions[partition.state.tp]
