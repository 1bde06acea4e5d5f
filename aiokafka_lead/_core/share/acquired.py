"""The acquired records of one partition in one response, and the application's decisions about them.

The state of each record is one byte of `Acquired.marks`, so that a run of records can change its state in one
operation. The table shows the states, and the events that change them. An event without an entry leaves a mark
unchanged.

  mark              decide        sent           answered          tried again    refused, or lost
  ----------------  ------------  -------------  ----------------  -------------  ----------------
  OPEN              kind or GAP                                                   LOST
  kind, GAP                       kind | SENT                                     LOST
  kind | SENT                                    SETTLED           kind           LOST
  RENEW             kind          RENEW | SENT                                    LOST
  RENEW | SENT      kind          .              OPEN              RENEW          LOST
  SETTLED, LOST     (nothing)

``kind`` is ACCEPT, RELEASE or REJECT. This code runs for each record. If a compiler is available, it is compiled
through ``acquired.pxd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from uuid import UUID

from ..._values import NamedTuple
from ...errors import KafkaError
from ...errors.base import own_copy
from ...types import AcknowledgeType, TopicPartition

OPEN = 0
"""Acquired, without a decision."""
GAP = 5
"""Acquired offset without a record for the application: a compacted record or a control record.

Type 0 of the protocol.
"""
SENT = 8
SETTLED = 16
"""The broker has accepted the acknowledgement."""
LOST = 17
"""The lock was lost, or the broker refused the acknowledgement."""

RENEW = int(AcknowledgeType.RENEW)
DECISIONS = (int(AcknowledgeType.ACCEPT), int(AcknowledgeType.RELEASE), int(AcknowledgeType.REJECT), GAP)
UNSENT = (*DECISIONS, RENEW)


def _table(**changes: Sequence[tuple[int, int]]) -> dict[str, bytes]:
    tables = {}
    for name, pairs in changes.items():
        table = bytearray(range(256))
        for before, after in pairs:
            table[before] = after
        tables[name] = bytes(table)
    return tables


TABLES = _table(
    sent=[(mark, mark | SENT) for mark in UNSENT],
    answered=[*((mark | SENT, SETTLED) for mark in DECISIONS), (RENEW | SENT, OPEN)],
    again=[(mark | SENT, mark) for mark in UNSENT],
    refused=[(mark | SENT, LOST) for mark in UNSENT],
    lost=[(mark, LOST) for mark in (OPEN, *UNSENT, *(mark | SENT for mark in UNSENT))],
)
"""The table of each event, for ``bytes.translate``."""

_UNSENT_RUN = re.compile(b"[" + bytes(UNSENT) + b"]+")
_HELD_RUN = re.compile(b"[" + bytes((OPEN, *UNSENT)) + b"]+")
_OPEN_RUN = re.compile(b"\x00+")
_OPEN = OPEN
_RENEW = RENEW
_RENEW_SENT = RENEW | SENT


class AcquiredRange(NamedTuple):
    """The offsets from ``first`` to ``last``, inclusive, that the broker has locked with one delivery count."""

    first: int
    last: int
    delivery_count: int


class Span(NamedTuple):
    """Indices of consecutive marks, from ``start`` up to but not including ``end``."""

    start: int
    end: int


class AckBatch(NamedTuple):
    """The acknowledgements of consecutive offsets in the protocol's format.

    There is one type per offset, or one type for all offsets.
    """

    first: int
    last: int
    types: list[int]


class Acquired:
    """Tracks the acquired records of one partition in one response, until each is settled or lost."""

    __slots__ = (
        "bases",
        "dirty",
        "error",
        "expires_at",
        "gone_at",
        "marks",
        "ranges",
        "renewed",
        "topic_id",
        "tp",
    )

    def __init__(
        self,
        tp: TopicPartition,
        topic_id: UUID,
        ranges: list[AcquiredRange],
        *,
        expires_at: float,
        gone_at: float,
    ) -> None:
        self.tp = tp
        self.topic_id = topic_id
        self.ranges = ranges
        """The acquired ranges in offset order."""
        self.bases: list[int] = []
        """The index of each range's first mark."""
        count = 0
        for entry in ranges:
            self.bases.append(count)
            count += entry.last - entry.first + 1
        self.marks = bytearray(count)
        self.expires_at = expires_at
        """Time until which the locks are certain to exist.

        It is based on the time of the request, because the broker locked the records later.
        """
        self.gone_at = gone_at
        """Time from which the locks are certain to have ended, unless they are renewed.

        It is based on the time of the response.
        """
        self.renewed: dict[int, tuple[float, float]] = {}
        """``expires_at`` and ``gone_at`` of the records with a renewed lock, by index."""
        self.dirty = False
        """True while `Exchange` lists this object as having acknowledgements to send."""
        self.error: KafkaError | None = None
        """The latest error that caused the loss of records, or None."""

    def __len__(self) -> int:
        return len(self.marks)

    # --- offsets ---

    def index_of(self, offset: int) -> int | None:
        """Return the index of an offset's mark, or None if the offset was not acquired."""
        for base, entry in zip(self.bases, self.ranges, strict=True):
            if entry.first <= offset <= entry.last:
                return base + offset - entry.first
        return None

    def count_to(self, offset: int) -> int:
        """Return the number of acquired offsets that are not above ``offset``."""
        return sum(max(0, min(entry.last, offset) - entry.first + 1) for entry in self.ranges)

    def offset_of(self, index: int) -> int:
        """Return the offset of the mark with this index."""
        at = len(self.bases) - 1
        while self.bases[at] > index:
            at -= 1
        return self.ranges[at].first + index - self.bases[at]

    def lock_expires_at(self, index: int) -> float:
        """Return the time until which the record's lock is certain to exist, or 0 if the record is settled or lost."""
        if self.marks[index] >= SETTLED:
            return 0.0
        renewed = self.renewed.get(index)
        return self.expires_at if renewed is None else renewed[0]

    # --- decisions ---

    def may_decide(self, index: int) -> bool:
        """Return True if the record has no decision, or only the decision to renew its lock."""
        mark = self.marks[index]
        return mark in (_OPEN, _RENEW, _RENEW_SENT)

    def decide(self, index: int, kind: int) -> bool:
        """Decide about a record: accept, release or reject it, or renew its lock.

        If there is already a decision or the lock is lost, this has no effect and returns False.
        """
        mark = self.marks[index]
        if mark == _OPEN or (kind != _RENEW and mark in (_RENEW, _RENEW_SENT)):
            self.marks[index] = kind
            return True
        return mark in (_RENEW, _RENEW_SENT)

    def is_open(self, index: int) -> bool:
        """Return True if the record has no decision and its lock is not lost."""
        return self.marks[index] == _OPEN

    def decide_all(self, kind: int) -> bool:
        """Make this decision about all records that have none. Return True if there were any."""
        return self._over(_OPEN_RUN, 0, len(self.marks), kind)

    def decide_span(self, span: Span, kind: int) -> bool:
        """Make this decision about the records of the span that have none. Return True if there were any."""
        if span.end - span.start == 1:
            is_open = self.marks[span.start] == OPEN
            if is_open:
                self.marks[span.start] = kind
            return is_open
        return self._over(_OPEN_RUN, *span, kind)

    def _over(self, pattern: re.Pattern[bytes], start: int, end: int, kind: int) -> bool:
        found = [match.span() for match in pattern.finditer(self.marks, start, end)]
        for first, last in found:
            self.marks[first:last] = bytes((kind,)) * (last - first)
        return bool(found)

    # --- sending ---

    def unsent(self, limit: int, *, renewals: bool) -> list[tuple[Span, AckBatch]]:
        """Return the acknowledgements to send, in offset order, for at most ``limit`` offsets.

        ``renewals`` determines whether renewals are included.
        """
        found: list[tuple[Span, AckBatch]] = []
        for match in _UNSENT_RUN.finditer(self.marks):
            for span in self._contiguous(*match.span(), renewals=renewals):
                if limit <= 0:
                    return found
                start, end = span.start, min(span.end, span.start + limit)
                limit -= end - start
                marks = self.marks[start:end]
                first = self.offset_of(start)
                types = [0 if mark == GAP else mark for mark in marks]
                if marks.count(marks[0]) == len(marks):
                    del types[1:]
                found.append((Span(start, end), AckBatch(first, first + end - start - 1, types)))
        return found

    def _contiguous(self, start: int, end: int, *, renewals: bool) -> Iterator[Span]:
        """Split a run of marks at gaps between ranges, and at renewals unless they are included."""
        cuts = [base for base in self.bases if start < base < end] + [end]
        for cut in cuts:
            if renewals:
                yield Span(start, cut)
            else:
                at = start
                for piece in bytes(self.marks[start:cut]).split(bytes((RENEW,))):
                    if piece:
                        yield Span(at, at + len(piece))
                    at += len(piece) + 1
            start = cut

    @property
    def has_unsent(self) -> bool:
        """True if there are acknowledgements to send."""
        return _UNSENT_RUN.search(self.marks) is not None

    def has(self, kind: int) -> bool:
        """Return True if any record has this mark."""
        return kind in self.marks

    def sent(self, span: Span) -> None:
        """Mark this span's acknowledgements as sent."""
        self._change(span, "sent")

    def answered(self, span: Span, expires_at: float, gone_at: float) -> None:
        """Mark the acknowledgements of this span as accepted by the broker.

        The times apply to renewed locks.
        """
        start, end = span
        at = self.marks.find(RENEW | SENT, start, end)
        while at >= 0:
            self.renewed[at] = (expires_at, gone_at)
            at = self.marks.find(RENEW | SENT, at + 1, end)
        self._change(span, "answered")

    def send_again(self, span: Span) -> None:
        """Mark the acknowledgements of this span as unsent, because the broker may accept them later."""
        self._change(span, "again")

    def refused(self, span: Span, error: KafkaError) -> None:
        """Mark the records of this span as lost, because the broker has refused their acknowledgements."""
        self.error = error
        self._change(span, "refused")

    def lose(self, error: KafkaError) -> bool:
        """Mark all records as lost. Return True if any of them was not lost or settled before."""
        before = bytes(self.marks)
        self.marks[:] = before.translate(TABLES["lost"])
        if before != self.marks:
            self.error = error
            return True
        return False

    def lose_to(self, newer: Acquired, error: KafkaError) -> bool:
        """Mark the records that a newer response has acquired again as lost.

        Return True if any of them had a decision.
        """
        decided = False
        for base, held in zip(self.bases, self.ranges, strict=True):
            for entry in newer.ranges:
                first, last = max(held.first, entry.first), min(held.last, entry.last)
                for index in range(base + first - held.first, base + last - held.first + 1):
                    if self.marks[index] < SETTLED:
                        decided |= self._lose_at(index, error)
        return decided

    def lose_expired(self, now: float, error: KafkaError) -> bool:
        """Mark the records whose locks have expired as lost. Return True if any of them had a decision."""
        decided = False
        for match in list(_HELD_RUN.finditer(self.marks)):
            for index in range(*match.span()):
                if now >= self.renewed.get(index, (0.0, 0.0))[1]:
                    decided |= self._lose_at(index, error)
        return decided

    def _lose_at(self, index: int, error: KafkaError) -> bool:
        """Mark the record at ``index`` as lost. Return True if it had a decision."""
        decided = self.marks[index] != OPEN
        self.marks[index] = LOST
        self.error = error
        return decided

    def _change(self, span: Span, event: str) -> None:
        start, end = span
        self.marks[start:end] = self.marks[start:end].translate(TABLES[event])

    # --- outcomes ---

    @property
    def over(self) -> bool:
        """True if each record is settled or lost."""
        return not self.marks.strip(_ENDED)

    @property
    def unsettled(self) -> bool:
        """True if any record has a decision that the broker has neither accepted nor refused yet."""
        return bool(self.marks.translate(None, _NOT_PENDING))

    def pending(self) -> list[int]:
        """Return the indices of the records with a decision that the broker has neither accepted nor refused yet."""
        return [index for index, mark in enumerate(self.marks) if mark not in _NOT_PENDING]

    @property
    def lost(self) -> int:
        """Number of lost records."""
        return self.marks.count(LOST)

    def is_settled(self, index: int) -> bool:
        """Return True if the outcome of the record's acknowledgement is known. A renewed lock counts as an outcome."""
        return self.marks[index] in (OPEN, SETTLED, LOST)

    def failure(self, index: int) -> KafkaError | None:
        """Return the error that caused the loss of the record, or None if it is not lost."""
        if self.marks[index] != LOST or self.error is None:
            return None
        return own_copy(self.error)

    def __repr__(self) -> str:
        return f"<Acquired {self.tp} offsets {self.ranges[0].first}..{self.ranges[-1].last}>"


_ENDED = bytes((SETTLED, LOST))
_NOT_PENDING = bytes((OPEN, SETTLED, LOST))
