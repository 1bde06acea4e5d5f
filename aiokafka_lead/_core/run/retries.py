"""Records that are handled again after their handler has raised: their delays, and their part of the handlers."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from ..._records import ConsumerRecord
from ..backoff import Backoff

Record = ConsumerRecord[Any, Any]

TURNS = 10
"""With a single handler, the number of records within which both kinds get their shares."""


class _Partition(Protocol):
    """Partition with records in hand; see `PartitionWork`."""

    @property
    def attempts(self) -> dict[int, int]:
        """Number of times that handlers have raised for each record in hand, by offset."""
        ...


P = TypeVar("P", bound=_Partition)


class Retries(Generic[P]):
    """Counts each record's attempts, and keeps it until its backoff has passed.

    A waiting record stays in hand, so that no commit passes it, and blocks its lane: its key with order "key", its
    partition with "partition". It uses no handler meanwhile.
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: list[tuple[float, int, P, Record]] = []
        """Heap of waiting records by due time."""
        self._sequence = count()

    def attempt(self, partition: P, record: Record, *, counts: bool) -> int:
        """Count a handler's failure if ``counts``; return the record's number of attempts."""
        attempts = partition.attempts[record.offset] = partition.attempts.get(record.offset, 0) + counts
        return attempts

    def wait(self, partition: P, record: Record, now: float, delay_s: float | None) -> None:
        """Have the record handled again after this delay, or after its backoff if it is None."""
        if delay_s is None:
            delay_s = self._backoff.delay_s(partition.attempts[record.offset])
        heapq.heappush(self._waiting, (now + delay_s, next(self._sequence), partition, record))

    def next_due(self) -> float | None:
        """Return the due time of the first waiting record."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: float) -> list[tuple[P, Record]]:
        """Remove the records whose backoff has passed, and return them."""
        found: list[tuple[P, Record]] = []
        while self._waiting and self._waiting[0][0] <= now:
            _, _, partition, record = heapq.heappop(self._waiting)
            found.append((partition, record))
        return found


class Shares:
    """Decides whether the next record is a fresh record or a record waiting aside, while both kinds wait.

    Each kind has its part of the handlers, at least one. A kind without waiting records leaves its handlers to the
    other kind, and gets them back one by one as they finish. A single handler takes both kinds in turn.
    """

    def __init__(self, concurrency: int, share: float) -> None:
        """Begin with idle handlers; ``share`` is the part of them for records that wait aside, from 0 to 1."""
        self._single = concurrency == 1
        parts = TURNS if self._single else concurrency
        self._most = max(1, min(round(parts * share), parts - 1))
        self._running = 0
        self._turn = 0

    def aside_is_next(self) -> bool:
        """Return True if a record that waits aside is next; called for each record while both kinds wait."""
        if not self._single:
            return self._running < self._most
        self._turn = (self._turn + 1) % TURNS
        return self._turn < self._most

    def began(self) -> None:
        """Note that a record that has waited aside is being handled."""
        self._running += 1

    def ended(self) -> None:
        """Note that the handler of a record that had waited aside has ended."""
        self._running -= 1
