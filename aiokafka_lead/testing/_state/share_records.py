"""The records of a partition in delivery to a share group's members (Java: ``SharePartition``)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from .clock import Clock
from .configs import ShareSettings
from .share_deliveries import NO_OFFSET, NOBODY, Delivery, InFlightBatch, RecordState, SavedDelivery, ShareState
from .topics import Partition


class InFlightRecords:
    """Holds the records of a share partition that are in delivery, from the start offset on.

    ``settings`` returns the current settings of the group. ``saved`` survives a change of leader. ``watchers`` are
    called when a fetch that found no records may now find some.

    Invariant: ``batches`` are in order and without overlaps, and extend to ``end_offset``, the last offset read. If
    there are none, ``end_offset`` is the next offset to read.
    """

    def __init__(
        self,
        partition: Partition,
        clock: Clock,
        saved: ShareState,
        settings: Callable[[], ShareSettings],
        start_offset: Callable[[], int],
    ) -> None:
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.saved = saved
        self.settings = settings
        self._clock = clock
        # True if another broker leads or the state has been replaced. This state is then invalid.
        self.fenced = False
        self.batches: list[InFlightBatch] = []
        self.watchers: dict[Callable[[], None], None] = {}
        # True if a record before the end may be available.
        self.may_have_available = False
        self.start_offset = start_offset() if saved.start_offset == NO_OFFSET else saved.start_offset
        self.end_offset = self.start_offset
        saved.leader_epoch = max(saved.leader_epoch, self.leader_epoch)
        self._load(saved.saved())

    def _load(self, deliveries: Iterable[SavedDelivery]) -> None:
        """Continue from the state of the previous leader.

        Records that are missing in it were acquired at the time, or had never been read.
        """
        following = self.start_offset
        for saved in deliveries:
            if saved.first > following:
                between = InFlightBatch(following, saved.first - 1, Delivery(RecordState.AVAILABLE, 0))
                self.batches.append(between)
            self.batches.append(InFlightBatch(saved.first, saved.last, Delivery(saved.state, saved.delivery_count)))
            following = saved.last + 1
        if self.batches:
            self.end_offset = self.batches[-1].last
            self.may_have_available = True
            self._advance()

    # --- reading -----------------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        """Start of the next read: the first available record, or the end."""
        if not self.batches or self.start_offset > self.batches[-1].last:
            self.may_have_available = False
            return self.end_offset
        if self.may_have_available:
            for batch in self.batches:
                for first, last, delivery in batch.runs():
                    if delivery.state is RecordState.AVAILABLE and last >= self.start_offset:
                        return max(first, self.start_offset)
            self.may_have_available = False
        return self.end_offset + 1

    @property
    def in_flight(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def can_acquire(self) -> bool:
        """True if a member may get records: new records within the limit, or released records."""
        return self.next_offset != self.end_offset + 1 or self.in_flight < self.settings().partition_max_record_locks

    def locked(self, delivery: Delivery, first: int, last: int) -> None:
        """Start the timers of locks on these records, or restart them."""
        delivery.unlock()
        delivery.expires_at = self._clock.now() + self.settings().record_lock_duration_ms / 1000
        self._watch(delivery, first, last)

    def _watch(self, delivery: Delivery, first: int, last: int) -> None:
        delivery.lock = self._clock.call_at(delivery.expires_at, lambda: self._expired(delivery, first, last))

    def split(self, batch: InFlightBatch) -> None:
        """Give each record of a batch a separate state and lock."""
        if batch.whole is not None:
            locked = batch.whole.lock is not None
            for offset, delivery in enumerate(batch.split(), batch.first):
                if locked:
                    self._watch(delivery, offset, offset)

    def reset_to_log_start(self) -> None:
        """Adopt the log's new start. Available records before it have been deleted, so they count as finished."""
        log_start = self.partition.log.start_offset
        if log_start <= self.start_offset:
            return
        if self.archive(self.start_offset, log_start - 1, RecordState.AVAILABLE):
            self.may_have_available = True
        self.start_offset = log_start
        self.end_offset = max(self.end_offset, log_start)
        if not self.batches:
            self.end_offset = log_start

    def archive(self, first: int, last: int, present: RecordState) -> bool:
        """Archive the records within bounds whose state is ``present``. Return True if there are any."""
        any_archived = False
        for batch in self._overlapping(first, last):
            if batch.whole is not None and batch.whole.state is not present:
                continue
            if batch.whole is None or not batch.lies_within(first, last):
                self.split(batch)
            for _, delivery in batch.records(first, last):
                if delivery.state is present:
                    delivery.unlock()
                    delivery.state, delivery.member_id = RecordState.ARCHIVED, NOBODY
                    any_archived = True
        return any_archived

    def _overlapping(self, first: int, last: int) -> list[InFlightBatch]:
        """Return the batches with records from ``first`` to ``last``, in order."""
        begin = max(0, bisect_right(self.batches, first, key=lambda batch: batch.first) - 1)
        return [batch for batch in self.batches[begin:] if batch.first <= last and batch.last >= first]

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before an offset."""
        at = bisect_right(self.batches, offset, key=lambda batch: batch.first)
        return self.batches[at - 1] if at else None

    def release(self, member_id: str) -> None:
        """Release all records of a member whose session has ended."""
        self._give_back(
            (first, last, delivery)
            for batch in self.batches
            for first, last, delivery in batch.runs()
            if delivery.state is RecordState.ACQUIRED and delivery.member_id == member_id
        )

    def expire_locks(self) -> None:
        """End every lock now, so the records become available again."""
        self._give_back(
            (first, last, delivery)
            for batch in self.batches
            for first, last, delivery in batch.runs()
            if delivery.state is RecordState.ACQUIRED
        )

    def _expired(self, delivery: Delivery, first: int, last: int) -> None:
        delivery.lock = None
        self._give_back([(first, last, delivery)])

    def _give_back(self, runs: Iterable[tuple[int, int, Delivery]]) -> None:
        """Release unacknowledged records, unless a later leader has read the state.

        Records before the start are finished.
        """
        if self.saved.leader_epoch > self.leader_epoch:
            self.fence()
        if self.fenced:
            return
        limit = self.settings().delivery_count_limit
        changed = []
        for first, last, delivery in list(runs):
            state = RecordState.ARCHIVED if last < self.start_offset else RecordState.AVAILABLE
            delivery.settle(state, limit)
            changed.append((first, last, delivery))
        self.settled(changed)

    def settled(self, changed: list[tuple[int, int, Delivery]]) -> None:
        """Save changed states, move the start past finished records, and wake fetches."""
        if not changed:
            return
        for _, _, delivery in changed:
            delivery.unlock()
            if delivery.state is RecordState.AVAILABLE:
                self.may_have_available = True
        # Like a real broker, save the start as it was before this change.
        self.saved.write(
            self.start_offset,
            sum(
                last - max(first, self.start_offset) + 1
                for batch in self.batches
                for first, last, delivery in batch.runs()
                if delivery.state.is_final and last >= self.start_offset
            ),
            [SavedDelivery(first, last, delivery.state, delivery.count) for first, last, delivery in changed],
        )
        self._advance()
        for watcher in list(self.watchers):
            watcher()

    def _advance(self) -> None:
        """Move the start past finished records, and forget these."""
        while self.batches:
            batch = self.batches[0]
            done = batch.first
            for _, last, delivery in batch.runs():
                if not delivery.state.is_final and last >= self.start_offset:
                    break
                delivery.unlock()
                done = last + 1
            self.start_offset = max(self.start_offset, done)
            if done <= batch.last:
                return
            del self.batches[0]
            if not self.batches:
                self.end_offset = self.start_offset = max(self.start_offset, batch.last + 1)

    def fence(self) -> None:
        """Make this state invalid after a change of leader or of the saved state. Cancel its locks."""
        self.fenced = True
        for batch in self.batches:
            for _, _, delivery in batch.runs():
                delivery.unlock()
