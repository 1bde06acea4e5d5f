"""Records that are handled again after an exception: their delays, and their share of the handlers."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

from ..._records import ConsumerRecord
from ..backoff import Backoff

Record = ConsumerRecord[Any, Any]

TURNS = 10
"""With a single handler, number of records among which both kinds of records get their shares."""


class _Partition(Protocol):
    """A partition with records in hand (see `PartitionWork`)."""

    @property
    def attempts(self) -> dict[int, int]:
        """Number of times that the handler has raised, for each record in hand, by offset."""
        ...


P = TypeVar("P", bound=_Partition)


class Retries(Generic[P]):
    """Counts each record's attempts, and keeps the record until its backoff has ended.

    A waiting record stays in hand, so no commit passes it. It occupies no handler. It blocks its lane, which is its key
    with the order "key", and its partition with the order "partition".
    """

    def __init__(self, backoff: Backoff) -> None:
        self._backoff = backoff
        self._waiting: list[tuple[float, int, P, Record]] = []
        """Heap of the waiting records by the time at which they are due."""
        self._sequence = count()

    def attempt(self, partition: P, record: Record, *, counts: bool) -> int:
        """Return the number of failed attempts at the record. With ``counts``, this failure is added first."""
        attempts = partition.attempts[record.offset] = partition.attempts.get(record.offset, 0) + counts
        return attempts

    def wait(self, partition: P, record: Record, now: float, delay_s: float | None) -> None:
        """Handle the record again after this delay, or after its backoff if the delay is None."""
        if delay_s is None:
            delay_s = self._backoff.delay_s(partition.attempts[record.offset])
        heapq.heappush(self._waiting, (now + delay_s, next(self._sequence), partition, record))

    def next_due(self) -> float | None:
        """Return the time at which the first waiting record is due, or None."""
        return self._waiting[0][0] if self._waiting else None

    def due(self, now: float) -> list[tuple[P, Record]]:
        """Remove and return the records whose delay has ended."""
        found: list[tuple[P, Record]] = []
        while self._waiting and self._waiting[0][0] <= now:
            _, _, partition, record = heapq.heappop(self._waiting)
            found.append((partition, record))
        return found


class Shares:
    """Decides if the next record is a new one or one that waits aside: a retry, or a record of a slow key.

    While both kinds are waiting, each has its share of the handlers, at least one. A kind without waiting records
    leaves its handlers to the other kind, and gets them back one by one as they finish. A single handler alternates
    between both kinds.
    """

    def __init__(self, concurrency: int, share: float) -> None:
        """Start with idle handlers. ``share``, from 0 to 1, is the fraction of them for records that wait aside."""
        self._single = concurrency == 1
        parts = TURNS if self._single else concurrency
        self._most = max(1, min(round(parts * share), parts - 1))
        self._running = 0
        self._turn = 0

    def aside_is_next(self) -> bool:
        """Return True if a record that waits aside is next. Called for each record while both kinds are waiting."""
        if not self._single:
            return self._running < self._most
        self._turn = (self._turn + 1) % TURNS
        return self._turn < self._most

    def began(self) -> None:
        """Count a handler that has begun with a record that waited aside."""
        self._running += 1

    def ended(self) -> None:
        """Count the end of a handler that has begun with a record that waited aside."""
        self._running -= 1
