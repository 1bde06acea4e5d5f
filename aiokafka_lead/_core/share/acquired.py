"""Records of one partition that one answer has acquired, and the application's decision about each record.

A record's state is one byte of `Acquired.marks`, so that runs of records change their state together. This table has
the states and the events that change them; an event without an entry leaves a mark unchanged.

    mark              decide        sent           answered          tried again    refused, or lost
    ----------------  ------------  -------------  ----------------  -------------  ----------------
    OPEN              kind or GAP                                                   LOST
    kind, GAP                       kind | SENT                                     LOST
    kind | SENT                                    SETTLED           kind           LOST
    RENEW             kind          RENEW | SENT                                    LOST
    RENEW | SENT      kind          .              OPEN              RENEW          LOST
    SETTLED, LOST     (nothing)

``kind`` is ACCEPT, RELEASE or REJECT.

Hot: compiled through ``acquired.pxd`` if a compiler is available, else plain Python.
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
"""Offset without a record for the application: removed by compaction, or a control record. The protocol's type 0."""
SENT = 8
SETTLED = 16
"""The broker has accepted the acknowledgement."""
LOST = 17
"""The lock is gone, or the broker refused the acknowledgement."""

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
"""Each event's table for ``bytes.translate``."""

_UNSENT_RUN = re.compile(b"[" + bytes(UNSENT) + b"]+")
_HELD_RUN = re.compile(b"[" + bytes((OPEN, *UNSENT)) + b"]+")
_OPEN_RUN = re.compile(b"\x00+")
_OPEN = OPEN
_RENEW = RENEW
_RENEW_SENT = RENEW | SENT


class AcquiredRange(NamedTuple):
    """Offsets that were acquired together."""

    first: int
    last: int
    delivery_count: int


class Span(NamedTuple):
    """Indices of consecutive marks; the end is exclusive."""

    start: int
    end: int


class AckBatch(NamedTuple):
    """Acknowledgements of consecutive offsets in the protocol's format: a type for each offset, or one type for all."""

    first: int
    last: int
    types: list[int]


class Acquired:
    """Records of one partition acquired by one answer, kept until all of them are settled or lost."""

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
        """Acquired ranges in offset order."""
        self.bases: list[int] = []
        """Index of each range's first mark."""
        count = 0
        for entry in ranges:
            self.bases.append(count)
            count += entry.last - entry.first + 1
        self.marks = bytearray(count)
        self.expires_at = expires_at
        """Time until which the locks certainly hold: counted from the request, since the broker took them later."""
        self.gone_at = gone_at
        """Time from which the locks certainly do not hold, unless renewed: counted from the answer."""
        self.renewed: dict[int, tuple[float, float]] = {}
        """``expires_at`` and ``gone_at`` by index, of records with a renewed lock."""
        self.dirty = False
        """True while `Exchange` lists it as having acknowledgements to send."""
        self.error: KafkaError | None = None
        """Latest reason that records were lost."""

    def __len__(self) -> int:
        return len(self.marks)

    # --- offsets ---

    def index_of(self, offset: int) -> int | None:
        """Return the mark of an offset; None if it was not acquired."""
        for base, entry in zip(self.bases, self.ranges, strict=True):
            if entry.first <= offset <= entry.last:
                return base + offset - entry.first
        return None

    def count_to(self, offset: int) -> int:
        """Return the number of acquired offsets up to and including ``offset``."""
        return sum(max(0, min(entry.last, offset) - entry.first + 1) for entry in self.ranges)

    def offset_of(self, index: int) -> int:
        """Return the offset of a mark."""
        at = len(self.bases) - 1
        while self.bases[at] > index:
            at -= 1
        return self.ranges[at].first + index - self.bases[at]

    def lock_expires_at(self, index: int) -> float:
        """Return the time until which the record's lock certainly holds; 0 once it is settled or lost."""
        if self.marks[index] >= SETTLED:
            return 0.0
        renewed = self.renewed.get(index)
        return self.expires_at if renewed is None else renewed[0]

    # --- decisions ---

    def may_decide(self, index: int) -> bool:
        """Return True if the record is undecided, or the only decision is to renew its lock."""
        mark = self.marks[index]
        return mark in (_OPEN, _RENEW, _RENEW_SENT)

    def decide(self, index: int, kind: int) -> bool:
        """Acknowledge a record or have its lock renewed; return False if it was decided before, or is lost."""
        mark = self.marks[index]
        if mark == _OPEN or (kind != _RENEW and mark in (_RENEW, _RENEW_SENT)):
            self.marks[index] = kind
            return True
        return mark in (_RENEW, _RENEW_SENT)

    def is_open(self, index: int) -> bool:
        """Return True if the record is undecided, and its lock is not lost."""
        return self.marks[index] == _OPEN

    def decide_all(self, kind: int) -> bool:
        """Acknowledge all undecided records; return True if there were any."""
        return self._over(_OPEN_RUN, 0, len(self.marks), kind)

    def decide_span(self, span: Span, kind: int) -> bool:
        """Acknowledge the undecided records of this span; return True if there were any."""
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
        """Return the acknowledgements to send, in offset order, for up to ``limit`` offsets; renewals are optional."""
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
        """Split a run of marks at offsets missing between two ranges, and at renewals if these are left out."""
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
        """Return True if a record has this mark."""
        return kind in self.marks

    def sent(self, span: Span) -> None:
        """Mark this span's acknowledgements as sent."""
        self._change(span, "sent")

    def answered(self, span: Span, expires_at: float, gone_at: float) -> None:
        """Mark this span's acknowledgements as accepted by the broker; the times apply to locks renewed now."""
        start, end = span
        at = self.marks.find(RENEW | SENT, start, end)
        while at >= 0:
            self.renewed[at] = (expires_at, gone_at)
            at = self.marks.find(RENEW | SENT, at + 1, end)
        self._change(span, "answered")

    def send_again(self, span: Span) -> None:
        """Mark this span's acknowledgements as unsent: the broker has not accepted them, but may."""
        self._change(span, "again")

    def refused(self, span: Span, error: KafkaError) -> None:
        """Mark this span's records as lost: the broker refuses the acknowledgements."""
        self.error = error
        self._change(span, "refused")

    def lose(self, error: KafkaError) -> bool:
        """Lose all locks; return True if any was left."""
        before = bytes(self.marks)
        self.marks[:] = before.translate(TABLES["lost"])
        if before != self.marks:
            self.error = error
            return True
        return False

    def lose_to(self, newer: Acquired, error: KafkaError) -> bool:
        """Lose the records that a newer answer has acquired, too; return True if any of them had been decided."""
        decided = False
        for base, held in zip(self.bases, self.ranges, strict=True):
            for entry in newer.ranges:
                first, last = max(held.first, entry.first), min(held.last, entry.last)
                for index in range(base + first - held.first, base + last - held.first + 1):
                    if self.marks[index] < SETTLED:
                        decided |= self._lose_at(index, error)
        return decided

    def lose_expired(self, now: float, error: KafkaError) -> bool:
        """Lose the records that were not acknowledged in time; return True if any of them had been decided."""
        decided = False
        for match in list(_HELD_RUN.finditer(self.marks)):
            for index in range(*match.span()):
                if now >= self.renewed.get(index, (0.0, 0.0))[1]:
                    decided |= self._lose_at(index, error)
        return decided

    def _lose_at(self, index: int, error: KafkaError) -> bool:
        """Lose one record; return True if it had been decided."""
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
        """True if all records are settled or lost."""
        return not self.marks.strip(_ENDED)

    @property
    def unsettled(self) -> bool:
        """True if the outcome of any decision is unknown."""
        return bool(self.marks.translate(None, _NOT_PENDING))

    def pending(self) -> list[int]:
        """Return the records with a decision whose outcome is unknown."""
        return [index for index, mark in enumerate(self.marks) if mark not in _NOT_PENDING]

    @property
    def lost(self) -> int:
        """Number of lost records."""
        return self.marks.count(LOST)

    def is_settled(self, index: int) -> bool:
        """Return True if the outcome of the record's acknowledgement is known; a renewed lock counts."""
        return self.marks[index] in (OPEN, SETTLED, LOST)

    def failure(self, index: int) -> KafkaError | None:
        """Return the reason that the record was lost; None if it was not."""
        if self.marks[index] != LOST or self.error is None:
            return None
        return own_copy(self.error)

    def __repr__(self) -> str:
        return f"<Acquired {self.tp} offsets {self.ranges[0].first}..{self.ranges[-1].last}>"


_ENDED = bytes((SETTLED, LOST))
_NOT_PENDING = bytes((OPEN, SETTLED, LOST))
