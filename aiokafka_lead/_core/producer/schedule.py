"""Schedule of batches: when to send each partition's next batch, to which broker, and when it expires.

No method iterates over all partitions. A partition is examined after an event: a record, a response, a new leader or a
timer. It is then in the ready set of its leader, or waits for its next event.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator

from ..metadata.types import NO_LEADER
from .batches import PartitionQueue, ProducerBatch
from .buffer_memory import BufferMemory
from .idempotence import Sequencing

LINGERING_PARTITIONS = 32
"""A request with more partitions than this is sent without lingering."""

_NO_LEADER = NO_LEADER


class Schedule:
    """Keeps the sets of sendable partitions, and the timers of their batches.

    A timer ends a batch's linger time, its backoff after a failure, or its ``delivery_timeout_ms``.
    """

    def __init__(
        self,
        linger_s: float,
        delivery_timeout_s: float,
        memory: BufferMemory,
        sequencing: Sequencing,
        notify: Callable[[], None],
    ) -> None:
        self.ready: dict[int, OrderedDict[PartitionQueue, None]] = {}
        """The sendable partitions of each leader, longest-waiting first."""
        self.leaderless: dict[PartitionQueue, None] = {}
        """Partitions that have records but no known leader."""
        self.flushes = 0
        """Number of pending flushes. While any is pending, batches do not linger."""
        self.delivery_timeout_s = delivery_timeout_s
        self._linger_s = linger_s
        self._memory = memory
        self._sequencing = sequencing
        self._notify = notify
        """Called if there is work now, or earlier than `next_at` last returned."""
        self._lingering: deque[tuple[float, PartitionQueue]] = deque()
        """Send times of open batches, in order. The entries of closed batches are ignored."""
        self._timers: list[tuple[float, int, PartitionQueue]] = []
        """Heap of partitions to examine again. Entries whose time is not the queue's ``wake_at`` are ignored."""
        self._expiries: list[tuple[float, int, PartitionQueue]] = []
        """Heap of partitions with batches, by the earliest time at which the oldest batch may expire."""
        self._timer_count = 0
        """Counter that distinguishes timers with the same time."""

    def _hurried(self) -> bool:
        """Return True if open batches do not linger, because of a flush or because memory is short."""
        return self.flushes > 0 or bool(self._memory.waiting)

    def opened(self, batch: ProducerBatch, now: float) -> None:
        """Schedule the linger time and the expiry of a new batch."""
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
        """End the lingering of all batches, because a flush or a claim for memory is waiting."""
        lingering = self._lingering.copy()
        self._lingering.clear()
        for _, queue in lingering:
            if queue.open is not None:
                queue.open.send_at = now
                self.evaluate(queue, now)

    def poll(self, now: float) -> None:
        """Process the timers that are due, so that their partitions may become ready."""
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
        """Return the time at which `poll` or `expired` must be called unless an event occurs first, or None."""
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
        """Yield the batches that have expired. The caller settles the outcome of each before it takes the next."""
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
        """Move the partition into or out of its leader's ready set. Call this after any change to the partition."""
        node_id = self.sendable_to(queue, now)
        if node_id == queue.ready_node:
            return
        if queue.ready_node != _NO_LEADER:
            self._take_out(queue)
        if node_id != _NO_LEADER:
            self._put_in(queue, node_id)
            self._notify()

    def first_unsent(self, queue: PartitionQueue) -> ProducerBatch | None:
        """Return the first batch that is not in flight. Only this batch may be sent next."""
        if not queue.in_flight:
            return queue.batches[0] if queue.batches else None
        for batch in queue.batches:
            if not batch.in_flight:
                return batch
        return None

    def sendable_to(self, queue: PartitionQueue, now: float) -> int:
        """Return the broker to which the partition's next batch may be sent now, or -1."""
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
        """Return True if all of the broker's ready batches can still grow and none is due."""
        partitions = self.ready.get(node_id, ())
        if self._hurried() or len(partitions) > LINGERING_PARTITIONS:
            return False
        for queue in partitions:
            batch = self.first_unsent(queue)
            if batch is None or batch.sealed or batch.send_at <= now:
                return False
        return True

    def pop(self, node_id: int) -> PartitionQueue:
        """Remove and return the partition that has waited longest in the broker's ready set."""
        partitions = self.ready[node_id]
        queue, _ = partitions.popitem(last=False)
        queue.ready_node = _NO_LEADER
        if not partitions:
            del self.ready[node_id]
        return queue

    def put_back(self, queue: PartitionQueue, node_id: int) -> None:
        """Undo `pop`, so that the partition is first in the ready set again."""
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
