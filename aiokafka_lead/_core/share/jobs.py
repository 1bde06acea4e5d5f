"""What a run has in hand: records that wait for a handler, are handled, or wait to be released after a failure.

Compiled through ``jobs.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from ...types import AcknowledgeType
from ..backoff import Backoff
from .at_hand import AtHand
from .record import ShareRecord

__all__ = ["JobSlot", "Jobs"]

Record = ShareRecord[Any, Any]
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT

KEPT_BACK_AT_MOST = 500
"""Records that are kept back after a failure: beyond that the one that waited longest is released before its time."""


class JobSlot:
    """Has the one record at a time that a handler works on. Written to by `Jobs` alone."""

    __slots__ = ("record",)

    def __init__(self) -> None:
        self.record: Record | None = None

    @property
    def busy(self) -> bool:
        """Whether there is one now."""
        return self.record is not None


class Jobs:
    """All of one run. No record waits for another: each goes to the next handler that is free."""

    def __init__(
        self,
        concurrency: int,
        backoff: Backoff,
        decide: Callable[[Record, AcknowledgeType], None],
        at_hand: AtHand,
    ) -> None:
        """``at_hand`` has what a handler that is free may go on with when nothing was taken for it."""
        self._at_hand = at_hand
        self._concurrency = concurrency
        self._backoff = backoff
        self._decide = decide
        """Called with what becomes of a record that was in hand."""
        self.turns: deque[Record] = deque()
        """Taken, and nobody works on them yet."""
        self._slots: set[JobSlot] = set()
        """Those at work."""
        self._kept_back: list[tuple[float, int, Record]] = []
        """A heap: when each record is to be released."""
        self._postponed: list[tuple[float, int, Record]] = []
        """The same of when each is to be handed out again."""
        self._sequence = count()

    # --- handing out ---

    def slot(self) -> JobSlot:
        """A slot for another worker."""
        return JobSlot()

    def room(self) -> int:
        """How many more records there are handlers for."""
        return self._concurrency - len(self._slots) - len(self.turns) - len(self._postponed)

    def take(self, slot: JobSlot) -> Record | None:
        """The next record to handle, which the slot now has; None if there is none."""
        record = None
        while self.turns and record is None:
            first = self.turns.popleft()
            if first._is_open():
                record = first
        if record is None and self._at_hand.is_quick():
            record = self._at_hand.take_one()
        if record is not None:
            slot.record = record
            self._slots.add(slot)
        return record

    @property
    def working(self) -> int:
        """How many handlers are at work."""
        return len(self._slots)

    def finished(self, slot: JobSlot) -> None:
        """The handler of the slot's record has returned: the record is accepted."""
        self._decide(self._let_go(slot), ACCEPT)

    def given_up(self, slot: JobSlot) -> None:
        """The slot's record is with its handler no more, and not done: it is released."""
        self._decide(self._let_go(slot), RELEASE)

    def rejected(self, slot: JobSlot) -> None:
        """The slot's record is never to be delivered again."""
        self._decide(self._let_go(slot), REJECT)

    def _let_go(self, slot: JobSlot) -> Record:
        record = slot.record
        assert record is not None
        slot.record = None
        self._slots.remove(slot)
        return record

    # --- failures ---

    def keep_back(self, slot: JobSlot, now: float) -> None:
        """Release the slot's record when its backoff is over: brokers would deliver it again at once."""
        record = self._let_go(slot)
        due_at = now + self._backoff.delay_s(record.delivery_count)
        heapq.heappush(self._kept_back, (due_at, next(self._sequence), record))

    def postpone(self, slot: JobSlot, due_at: float) -> None:
        """Hand the slot's record out again then: it stays in hand, as each delivery counts."""
        heapq.heappush(self._postponed, (due_at, next(self._sequence), self._let_go(slot)))

    def next_due(self) -> float | None:
        """When the first record is to be released, or handed out again."""
        return min((heap[0][0] for heap in (self._kept_back, self._postponed) if heap), default=None)

    def let_go_due(self, now: float) -> None:
        """Release, or have in line again, the records whose time has come."""
        while self._postponed and self._postponed[0][0] <= now:
            self.turns.append(heapq.heappop(self._postponed)[2])
        while self._kept_back and (self._kept_back[0][0] <= now or len(self._kept_back) > KEPT_BACK_AT_MOST):
            self._decide(heapq.heappop(self._kept_back)[2], RELEASE)

    # --- locks ---

    def running_out(self, now: float, within_s: float) -> list[Record]:
        """The records in hand whose locks end within this time, and hold yet."""
        waiting = self._kept_back + self._postponed
        held = [*(slot.record for slot in self._slots), *(record for _, _, record in waiting)]
        return [
            record
            for record in held
            if record is not None and record._is_open() and record.lock_expires_at - now < within_s
        ]

    # --- the end ---

    def release_waiting(self) -> None:
        """Release the records that nobody works on."""
        found = [*self.turns, *(record for _, _, record in self._kept_back + self._postponed)]
        self.turns.clear()
        self._kept_back.clear()
        self._postponed.clear()
        for record in found:
            self._decide(record, RELEASE)
