"""Which partition may be sent to which broker, when, and until when: the accumulator's view of time.

Nothing here walks over the partitions that exist. A partition is looked at when something happened to it (a record, an
answer, its leader, a timer), and is then in the ready set of its leader, or waits for one of these.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from ..metadata.types import NO_LEADER
from .batches import PartitionQueue, ProducerBatch
from .buffer_memory import BufferMemory
from .idempotence import Sequencing

__all__ = ["Schedule"]

LINGERING_PARTITIONS = 32
"""A request that carries more of them is worth to be sent in any case."""

_NO_LEADER = NO_LEADER


class Schedule:
    """Ready sets by broker, and the timers of batches that linger, back off, and run out of ``delivery_timeout_ms``."""

    def __init__(
        self,
        linger_s: float,
        delivery_timeout_s: float,
        memory: BufferMemory,
        sequencing: Sequencing,
        notify: Callable[[], None],
    ) -> None:
        self.ready: dict[int, OrderedDict[PartitionQueue, None]] = {}
        """By leader, the partitions that have something to send now; who waits longest comes first."""
        self.leaderless: dict[PartitionQueue, None] = {}
        """Partitions with records and without a known leader."""
        self.flushes = 0
        """How many flushes are waiting: nothing lingers then."""
        self.delivery_timeout_s = delivery_timeout_s
        self._linger_s = linger_s
        self._memory = memory
        self._sequencing = sequencing
        self._notify = notify
        """Called when there is something to do now, or earlier than `next_at` said."""
        self._lingering: deque[tuple[float, PartitionQueue]] = deque()
        """When open batches go out, in that order; an entry whose batch was closed before is void."""
        self._timers: list[tuple[float, int, PartitionQueue]] = []
        """A heap of partitions to look at again; an entry whose time is not the queue's ``wake_at`` is void."""
        self._expiries: list[tuple[float, int, PartitionQueue]] = []
        """A heap of partitions that have batches, by when the oldest batch runs out of time, at the earliest."""
        self._timer_count = 0
        """Tells timers of one instant apart."""

    def _hurried(self) -> bool:
        """Whether open batches go out without waiting for more records: on a flush, and when memory is short."""
        return self.flushes > 0 or bool(self._memory.waiting)

    def opened(self, batch: ProducerBatch, now: float) -> None:
        """A new batch takes records."""
        if not batch.queue.expiry_scheduled:
            self._expire_at(batch.queue, batch.created_at + self.delivery_timeout_s)
        if self._linger_s <= 0 or self._hurried():
            batch.send_at = now
            self.evaluate(batch.queue, now)
            return
        batch.send_at = now + self._linger_s
        if not self._lingering:
            self._notify()
        self._lingering.append((batch.send_at, batch.queue))

    def hurry(self, now: float) -> None:
        """Somebody waits for records to go out: nothing lingers any more."""
        lingering = self._lingering.copy()
        self._lingering.clear()
        for _, queue in lingering:
            if queue.open is not None:
                queue.open.send_at = now
                self.evaluate(queue, now)

    def poll(self, now: float) -> None:
        """Look at what is due."""
        lingering = self._lingering
        while lingering and lingering[0][0] <= now:
            _, queue = lingering.popleft()
            if queue.open is not None and queue.open.send_at <= now:
                self.evaluate(queue, now)
        timers = self._timers
        while timers and timers[0][0] <= now:
            at, _, queue = heapq.heappop(timers)
            if queue.wake_at == at:
                queue.wake_at = 0.0
                self.evaluate(queue, now)

    def next_at(self) -> float | None:
        """When `poll` or `expired` has something to do next, at the earliest, if nothing happens before."""
        timers = self._timers
        while timers and timers[0][2].wake_at != timers[0][0]:
            heapq.heappop(timers)
        due = timers[0][0] if timers else None
        if self._lingering and (due is None or self._lingering[0][0] < due):
            due = self._lingering[0][0]
        if self._expiries and (due is None or self._expiries[0][0] < due):
            due = self._expiries[0][0]
        return due

    def expired(self, now: float) -> Iterator[ProducerBatch]:
        """Batches whose time is over, one by one. The caller settles the outcome of each before it goes on."""
        while self._expiries and self._expiries[0][0] <= now:
            _, _, queue = heapq.heappop(self._expiries)
            queue.expiry_scheduled = False
            for batch in list(queue.batches):
                if batch.outcome.done:
                    continue
                expires_at = batch.created_at + self.delivery_timeout_s
                if expires_at > now:
                    self._expire_at(queue, expires_at)
                    break
                yield batch

    def evaluate(self, queue: PartitionQueue, now: float) -> None:
        """Put the partition where it belongs, after anything happened to it."""
        node_id = self.sendable_to(queue, now)
        if node_id == queue.ready_node:
            return
        if queue.ready_node != _NO_LEADER:
            self._take_out(queue)
        if node_id != _NO_LEADER:
            self._put_in(queue, node_id)
            self._notify()

    def first_unsent(self, queue: PartitionQueue) -> ProducerBatch | None:
        """The first batch that awaits no answer: the only one that may be sent next."""
        if not queue.in_flight:
            return queue.batches[0] if queue.batches else None
        for batch in queue.batches:
            if not batch.in_flight:
                return batch
        return None

    def sendable_to(self, queue: PartitionQueue, now: float) -> int:
        """The broker that the partition's next batch may go to now, or -1."""
        batch = self.first_unsent(queue)
        if batch is None:
            self.leaderless.pop(queue, None)
            return _NO_LEADER
        leader_id = queue.leader_id
        if leader_id < 0:
            if queue not in self.leaderless:
                self.leaderless[queue] = None
                self._notify()
            return _NO_LEADER
        if self.leaderless:
            self.leaderless.pop(queue, None)
        if self._sequencing.blocks(queue, batch, leader_id):
            return _NO_LEADER
        retry_at = batch.patience.waits_until(now, queue.leader_epoch)
        if retry_at:
            self._wake_at(queue, retry_at)
            return _NO_LEADER
        if batch.shares == 1 and not batch.sealed and batch.send_at > now and not self._hurried():
            return _NO_LEADER
        turn_at = self._sequencing.waits_until(queue)
        if turn_at > now:
            self._wake_at(queue, turn_at)
            return _NO_LEADER
        return leader_id

    def may_linger(self, node_id: int, now: float) -> bool:
        """Whether all that is ready for the broker is full batches whose time is not over, and that take more yet."""
        partitions = self.ready.get(node_id, ())
        if self._hurried() or len(partitions) > LINGERING_PARTITIONS:
            return False
        for queue in partitions:
            batch = self.first_unsent(queue)
            if batch is None or batch.sealed or batch.send_at <= now:
                return False
        return True

    def pop(self, node_id: int) -> PartitionQueue:
        """Take the partition that was ready first out of the broker's ready set."""
        partitions = self.ready[node_id]
        queue, _ = partitions.popitem(last=False)
        queue.ready_node = _NO_LEADER
        if not partitions:
            del self.ready[node_id]
        return queue

    def put_back(self, queue: PartitionQueue, node_id: int) -> None:
        """Undo `pop`: the partition comes first next time."""
        self._put_in(queue, node_id)
        self.ready[node_id].move_to_end(queue, last=False)

    def _put_in(self, queue: PartitionQueue, node_id: int) -> None:
        queue.ready_node = node_id
        queue.wake_at = 0.0
        partitions = self.ready.get(node_id)
        if partitions is None:
            partitions = self.ready[node_id] = OrderedDict()
        partitions[queue] = None

    def _take_out(self, queue: PartitionQueue) -> None:
        partitions = self.ready[queue.ready_node]
        del partitions[queue]
        if not partitions:
            del self.ready[queue.ready_node]
        queue.ready_node = _NO_LEADER

    def _wake_at(self, queue: PartitionQueue, at: float) -> None:
        if queue.wake_at == at:
            return
        queue.wake_at = at
        self._timer_count += 1
        heapq.heappush(self._timers, (at, self._timer_count, queue))
        if self._timers[0][2] is queue:
            self._notify()

    def _expire_at(self, queue: PartitionQueue, at: float) -> None:
        queue.expiry_scheduled = True
        self._timer_count += 1
        heapq.heappush(self._expiries, (at, self._timer_count, queue))
