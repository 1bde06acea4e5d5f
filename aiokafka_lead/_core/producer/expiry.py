"""Which batches have run out of ``delivery_timeout_ms``."""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from .batches import PartitionQueue, ProducerBatch

__all__ = ["Expiry"]


class Expiry:
    """Keeps one timer for each partition that has batches: their order is that of their deadlines."""

    __slots__ = ("_count", "_heap", "timeout_s")

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._heap: list[tuple[float, int, PartitionQueue]] = []
        self._count = 0

    def watch(self, queue: PartitionQueue, created_at: float) -> None:
        """The partition has a batch of that age. Costs nothing when it is watched already."""
        if not queue.expiry_scheduled:
            queue.expiry_scheduled = True
            self._push(queue, created_at + self.timeout_s)

    def next_at(self) -> float | None:
        """When `due` may have something, at the earliest."""
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[ProducerBatch]:
        """Batches whose time is over, one by one. The caller settles the outcome of each before it goes on."""
        while self._heap and self._heap[0][0] <= now:
            _, _, queue = heapq.heappop(self._heap)
            deadline = None
            for batch in list(queue.batches):
                if batch.outcome.done:
                    continue
                if batch.created_at + self.timeout_s > now:
                    deadline = batch.created_at + self.timeout_s
                    break
                yield batch
            if deadline is None:
                queue.expiry_scheduled = False
            else:
                self._push(queue, deadline)

    def _push(self, queue: PartitionQueue, at: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (at, self._count, queue))
