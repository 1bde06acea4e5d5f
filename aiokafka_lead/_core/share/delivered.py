"""Records that are handed out next, records that are not acknowledged yet, and the outcomes of acknowledgements.

This code runs for each record. If a compiler is available, it is compiled through ``delivered.pxd``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..._cpython import clock
from ..._values import NamedTuple
from ...errors import KafkaError
from ...types import AcknowledgeType, TopicPartition
from .acquired import Acquired, Span
from .exchange import Exchange
from .record import ShareRecord

Record = ShareRecord[Any, Any]

ACCEPT = int(AcknowledgeType.ACCEPT)
RELEASE = int(AcknowledgeType.RELEASE)
_ACCEPT = ACCEPT


class AtHand:
    """Queues the decoded records of one response, in offset order. They are taken from the front."""

    __slots__ = ("_at", "_records", "quick_until")

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._at = 0
        self.quick_until = 0.0
        """Time (``time.monotonic()``) until which an iteration may take records without further checks."""

    def put(self, records: list[Record]) -> None:
        """Set the next records. All earlier records must have been taken."""
        self._records = records
        self._at = 0
        self.quick_until = 0.0

    def __len__(self) -> int:
        return len(self._records) - self._at

    @property
    def first(self) -> Record:
        """The next record to take. Must not be used if there is none."""
        return self._records[self._at]

    def take(self, limit: int) -> list[Record]:
        """Remove and return up to ``limit`` records."""
        at = self._at
        end = min(at + limit, len(self._records))
        taken = self._records if at == 0 and end == len(self._records) else self._records[at:end]
        if end < len(self._records):
            self._at = end
        else:
            self.put([])
        return taken

    def is_quick(self) -> bool:
        """Return True if the next record may be taken with `take_one`, without a check of its lock.

        `ShareBuffer.go_on` permits this for a limited time.
        """
        if self._at >= len(self._records):
            return False
        record = self._records[self._at]
        return record._acquired.is_open(record._index) and clock.monotonic_s() < self.quick_until

    def take_one(self) -> Record | None:
        """Remove and return the next record, or return None if there is none."""
        if self._at >= len(self._records):
            return None
        record = self._records[self._at]
        self._at += 1
        return record


class _Handed(NamedTuple):
    """Consecutive records that were handed out together, and their default decision."""

    exchange: Exchange
    acquired: Acquired
    span: Span
    kind: int
    """The decision to make about them when the application reads again."""


class Delivered:
    """Tracks the records that one consumer has handed out and the application has not acknowledged.

    With ``implicit`` acknowledgement, they are accepted when the application reads again.
    """

    def __init__(self, *, implicit: bool) -> None:
        self.implicit = implicit
        self._handed: list[_Handed] = []
        self._given: Record | None = None
        """The latest record if it was handed out alone."""
        self._outcomes: dict[TopicPartition, KafkaError | None] = {}

    def handed_out(self, records: Sequence[Record]) -> None:
        """Add records that the application has received. They are from one response and in offset order."""
        if self.implicit:
            self._handed.append(_handed(records, ACCEPT))

    def unreadable(self, record: Record) -> None:
        """Add a record because of which a read raises an error.

        The record is released at the next read, unless the application acknowledges it first.
        """
        self._handed.append(_handed((record,), RELEASE))

    def go_on(self, record: Record) -> bool:
        """Add a record that an iteration is handing out, and make the default decision about the previous one.

        Returns True if records that were handed out in another way have no decision. The caller must then call
        `come_back` and afterwards this method again.
        """
        given = self._given
        if given is None:
            if self._handed:
                return True
        elif given._acquired.is_open(given._index):
            if not given._acquired.dirty:
                return True
            given._acquired.decide(given._index, _ACCEPT)
        if self.implicit:
            self._given = record
        return False

    def come_back(self, now: float) -> None:
        """Make the default decision about all records handed out so far, because the application is done with them."""
        self._keep_given()
        if not self._handed:
            return
        handed, self._handed = self._handed, []
        for exchange, acquired, span, kind in handed:
            if acquired.decide_span(span, kind):
                exchange.decided(acquired, now)

    def give_back(self, now: float) -> None:
        """Release the records that the application has received without deciding about them."""
        self._keep_given()
        self._handed = [handed._replace(kind=RELEASE) for handed in self._handed]
        self.come_back(now)

    def _keep_given(self) -> None:
        if self._given is not None:
            self._handed.append(_handed((self._given,), ACCEPT))
            self._given = None

    def settled(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Store the outcome of a partition's acknowledgements. An error replaces an earlier success."""
        if error is not None or tp not in self._outcomes:
            self._outcomes[tp] = error

    def outcomes(self) -> dict[TopicPartition, KafkaError | None]:
        """Return the outcome for each partition since the last call, as an error or None for success."""
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes


def _handed(records: Sequence[Record], kind: int) -> _Handed:
    first, last = records[0], records[-1]
    return _Handed(first._exchange, first._acquired, Span(first._index, last._index + 1), kind)
