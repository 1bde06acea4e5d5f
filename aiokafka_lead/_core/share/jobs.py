"""The records in hand of one `ShareConsumer.run`.

Each record waits for a handler, is being handled, or waits after a failure. This code runs for each record. If a
compiler is available, it is compiled through ``jobs.pxd``.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any

from ...types import AcknowledgeType
from ..backoff import Backoff
from .delivered import AtHand
from .record import ShareRecord

Record = ShareRecord[Any, Any]
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT

KEPT_BACK_AT_MOST = 500
"""Maximum number of failed records that wait to be released.

If there are more, the record that is due first is released early.
"""


class JobSlot:
    """A handler's place for one record. Only `Jobs` modifies it."""

    __slots__ = ("record",)

    def __init__(self) -> None:
        self.record: Record | None = None

    @property
    def busy(self) -> bool:
        """True while the slot contains a record."""
        return self.record is not None


class Jobs:
    """Tracks the records in hand of one run. Their order is irrelevant, so each goes to the next free handler."""

    def __init__(
        self,
        concurrency: int,
        backoff: Backoff,
        decide: Callable[[Record, AcknowledgeType], None],
        at_hand: AtHand,
    ) -> None:
        """Start without records. ``at_hand`` provides records for free handlers if no taken record is waiting."""
        self._at_hand = at_hand
        self._concurrency = concurrency
        self._backoff = backoff
        self._decide = decide
        """Called with the decision about a record that was in hand."""
        self.turns: deque[Record] = deque()
        """Taken records that wait for a handler."""
        self.aside: tuple[()] = ()
        """Always empty, because no record waits for another one."""
        self._slots: set[JobSlot] = set()
        """The slots that hold a record."""
        self._kept_back: list[tuple[float, int, Record]] = []
        """Heap of records to release, with their due times."""
        self._postponed: list[tuple[float, int, Record]] = []
        """Heap of records to hand out again, with their due times."""
        self._sequence = count()

    # --- handing out ---

    def slot(self) -> JobSlot:
        """Return an empty slot, for an additional worker."""
        return JobSlot()

    def room(self) -> int:
        """Return the number of records that free handlers could take."""
        return self._concurrency - len(self._slots) - len(self.turns) - len(self._postponed)

    def take(self, slot: JobSlot) -> Record | None:
        """Put the next record that is still locked into the slot. Return it, or None if there is none."""
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
        """Number of running handlers."""
        return len(self._slots)

    def finished(self, slot: JobSlot) -> None:
        """Accept the slot's record, because its handler has returned."""
        self._decide(self._let_go(slot), ACCEPT)

    def given_up(self, slot: JobSlot) -> None:
        """Release the slot's record, because its handler did not finish it."""
        self._decide(self._let_go(slot), RELEASE)

    def rejected(self, slot: JobSlot) -> None:
        """Reject the slot's record, so that it is never delivered again."""
        self._decide(self._let_go(slot), REJECT)

    def _let_go(self, slot: JobSlot) -> Record:
        record = slot.record
        assert record is not None
        slot.record = None
        self._slots.remove(slot)
        return record

    # --- failures ---

    def keep_back(self, slot: JobSlot, now: float) -> None:
        """Keep the slot's record locked during a backoff, and then release it.

        If it were released now, the broker would deliver it again at once.
        """
        record = self._let_go(slot)
        due_at = now + self._backoff.delay_s(record.delivery_count)
        heapq.heappush(self._kept_back, (due_at, next(self._sequence), record))

    def postpone(self, slot: JobSlot, due_at: float) -> None:
        """Keep the slot's record locked, and hand it out again at this time.

        The record is not released, because each delivery counts towards the group's delivery limit.
        """
        heapq.heappush(self._postponed, (due_at, next(self._sequence), self._let_go(slot)))

    def next_due(self) -> float | None:
        """Return the time at which the first record must be released or handed out again, or None."""
        return min((heap[0][0] for heap in (self._kept_back, self._postponed) if heap), default=None)

    def let_go_due(self, now: float) -> None:
        """Release the records that are due to be released, and queue those that are due to be handed out again."""
        while self._postponed and self._postponed[0][0] <= now:
            self.turns.append(heapq.heappop(self._postponed)[2])
        while self._kept_back and (self._kept_back[0][0] <= now or len(self._kept_back) > KEPT_BACK_AT_MOST):
            self._decide(heapq.heappop(self._kept_back)[2], RELEASE)

    # --- locks ---

    def running_out(self, now: float, within_s: float) -> list[Record]:
        """Return the records in hand whose locks will expire within this time.

        Records with lost locks are not included.
        """
        waiting = self._kept_back + self._postponed
        held = [*(slot.record for slot in self._slots), *(record for _, _, record in waiting)]
        return [
            record
            for record in held
            if record is not None and record._is_open() and record.lock_expires_at - now < within_s
        ]

    # --- ending the run ---

    def release_waiting(self) -> None:
        """Release the records that no handler is processing."""
        found = [*self.turns, *(record for _, _, record in self._kept_back + self._postponed)]
        self.turns.clear()
        self._kept_back.clear()
        self._postponed.clear()
        for record in found:
            self._decide(record, RELEASE)
