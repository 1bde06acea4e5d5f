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

    def __init__(self, retries: int, backoff: Backoff) -> None:
        self._retries = retries
        self._backoff = backoff
        self._waiting: list[tuple[float, int, PartitionWork, Record]] = []
        """A heap: when each record is due."""
        self._sequence = count()

    def failed(self, partition: PartitionWork, record: Record, now: float) -> bool:
        """The handler has raised; whether the record is to be handled again, for which it now waits."""
        attempts = partition.attempts[record.offset] = partition.attempts.get(record.offset, 0) + 1
        if attempts > self._retries:
            return False
        self._wait(partition, record, now + self._backoff.delay_s(attempts))
        return True

    def postponed(self, partition: PartitionWork, record: Record, due_at: float) -> None:
        """The record is to be handled again, and this was no attempt."""
        partition.attempts.setdefault(record.offset, 0)
        self._wait(partition, record, due_at)

    def _wait(self, partition: PartitionWork, record: Record, due_at: float) -> None:
        heapq.heappush(self._waiting, (due_at, next(self._sequence), partition, record))

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
