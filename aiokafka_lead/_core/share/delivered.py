"""What the application has got and not acknowledged, and what became of its acknowledgements.

Hot: this module is compiled through ``delivered.pxd`` where a compiler is, and runs as it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...errors import KafkaError
from ...types import AcknowledgeType, TopicPartition
from .acquired import Acquired, Span
from .exchange import Exchange
from .record import ShareRecord

__all__ = ["Delivered"]

Record = ShareRecord[Any, Any]

ACCEPT = int(AcknowledgeType.ACCEPT)
RELEASE = int(AcknowledgeType.RELEASE)
_ACCEPT = ACCEPT


class _Handed(NamedTuple):
    """Successive records of one answer, as the application got them."""

    exchange: Exchange
    acquired: Acquired
    span: Span
    kind: int
    """What they count as when the application comes back, unless it has decided otherwise."""


class Delivered:
    """One consumer's. ``implicit``: what was handed out counts as accepted when the application comes back."""

    def __init__(self, *, implicit: bool) -> None:
        self.implicit = implicit
        self._handed: list[_Handed] = []
        self._given: Record | None = None
        """Handed out after those, by itself."""
        self._outcomes: dict[TopicPartition, KafkaError | None] = {}

    def handed_out(self, records: Sequence[Record]) -> None:
        """The application gets these, which are of one answer and in offset order."""
        if self.implicit:
            self._handed.append(_handed(records, ACCEPT))

    def unreadable(self, record: Record) -> None:
        """The application gets an error in place of this one, which is for others unless it decides otherwise."""
        self._handed.append(_handed((record,), RELEASE))

    def go_on(self, record: Record) -> bool:
        """The application comes back, and gets this one; whether `come_back` is to be called first, and this again."""
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
        """The application is done with what it has got."""
        self._keep_given()
        if not self._handed:
            return
        handed, self._handed = self._handed, []
        for exchange, acquired, span, kind in handed:
            if acquired.decide_span(span, kind):
                exchange.decided(acquired, now)

    def give_back(self, now: float) -> None:
        """The application gets nothing more done: what it has got is for others."""
        self._keep_given()
        self._handed = [handed._replace(kind=RELEASE) for handed in self._handed]
        self.come_back(now)

    def _keep_given(self) -> None:
        if self._given is not None:
            self._handed.append(_handed((self._given,), ACCEPT))
            self._given = None

    def settled(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Acknowledgements of a partition have an outcome."""
        if error is not None or tp not in self._outcomes:
            self._outcomes[tp] = error

    def outcomes(self) -> dict[TopicPartition, KafkaError | None]:
        """Of all acknowledgements settled since this was last asked: an error of each partition, or None."""
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes


def _handed(records: Sequence[Record], kind: int) -> _Handed:
    first, last = records[0], records[-1]
    return _Handed(first._exchange, first._acquired, Span(first._index, last._index + 1), kind)
