"""Times at which records are handled again after their handler has raised."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from ..._records import ConsumerRecord
from ..backoff import Backoff
from .work import PartitionWork

Record = ConsumerRecord[Any, Any]


class Retries:
    """Counts each record's attempts, and keeps it until its backoff has passed.

    A waiting record stays in hand, so that no commit passes it, and holds up its lane: its key with order "key", its
    partition with "partition". It takes up no handler meanwhile.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: list[tuple[float, int, PartitionWork, Record]] = []
        """Heap of waiting records by due time."""
        self._sequence = count()

    def attempt(self, partition: PartitionWork, record: Record, *, counts: bool) -> int:
        """Count a handler's failure if ``counts``; return the record's number of attempts."""
        attempts = partition.attempts[record.offset] = partition.attempts.get(record.offset, 0) + counts
        return attempts

    def wait(self, partition: PartitionWork, record: Record, now: float, delay_s: float | None) -> None:
        """Have the record handled again after this delay, or after its backoff if it is None."""
        if delay_s is None:
            delay_s = self._backoff.delay_s(partition.attempts[record.offset])
        heapq.heappush(self._waiting, (now + delay_s, next(self._sequence), partition, record))

    def next_due(self) -> float | None:
        """Return the due time of the first waiting record."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: float) -> list[tuple[PartitionWork, Record]]:
        """Remove the records whose backoff has passed, and return them."""
        found: list[tuple[PartitionWork, Record]] = []
        while self._waiting and self._waiting[0][0] <= now:
            _, _, partition, record = heapq.heappop(self._waiting)
            found.append((partition, record))
        return found
