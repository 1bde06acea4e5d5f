"""When records whose handler has raised are handled again."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from ..._records import ConsumerRecord
from ..backoff import Backoff
from .work import PartitionWork

__all__ = ["Retries"]

Record = ConsumerRecord[Any, Any]


class Retries:
    """Counts each record's attempts, and keeps it until its backoff is over.

    A record that waits stays in hand, so that no commit passes it, and holds up its lane: with order "key" that is its
    key, with "partition" its partition. No handler's place is taken meanwhile.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: list[tuple[float, int, PartitionWork, Record]] = []
        """A heap: when each record is due."""
        self._sequence = count()

    def attempt(self, partition: PartitionWork, record: Record, *, counts: bool) -> int:
        """The handler has raised, which counts or not; return how often it has."""
        attempts = partition.attempts[record.offset] = partition.attempts.get(record.offset, 0) + counts
        return attempts

    def wait(self, partition: PartitionWork, record: Record, now: float, delay_s: float | None) -> None:
        """The record is to be handled again after this time, or after its backoff."""
        if delay_s is None:
            delay_s = self._backoff.delay_s(partition.attempts[record.offset])
        heapq.heappush(self._waiting, (now + delay_s, next(self._sequence), partition, record))

    def next_due(self) -> float | None:
        """When the first waiting record is due."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: float) -> list[tuple[PartitionWork, Record]]:
        """The records whose backoff is over, which thereby wait no longer."""
        found: list[tuple[PartitionWork, Record]] = []
        while self._waiting and self._waiting[0][0] <= now:
            _, _, partition, record = heapq.heappop(self._waiting)
            found.append((partition, record))
        return found
