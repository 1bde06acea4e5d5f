"""Records that the application has got and not acknowledged, and the outcomes of its acknowledgements.

Hot: compiled through ``delivered.pxd`` if a compiler is available, else plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class _Handed(NamedTuple):
    """Consecutive records of one answer that were handed out together."""

    exchange: Exchange
    acquired: Acquired
    span: Span
    kind: int
    """Default decision at the application's next read."""


class Delivered:
    """Records of one consumer. With ``implicit``, they count as accepted when the application reads again."""

    def __init__(self, *, implicit: bool) -> None:
        self.implicit = implicit
        self._handed: list[_Handed] = []
        self._given: Record | None = None
        """Latest record, if it was handed out by itself."""
        self._outcomes: dict[TopicPartition, KafkaError | None] = {}

    def handed_out(self, records: Sequence[Record]) -> None:
        """Note records of one answer, in offset order, that the application gets."""
        if self.implicit:
            self._handed.append(_handed(records, ACCEPT))

    def unreadable(self, record: Record) -> None:
        """Note a record whose error is raised to the application; it is released unless the application decides."""
        self._handed.append(_handed((record,), RELEASE))

    def go_on(self, record: Record) -> bool:
        """Hand out this record alone; return True if `come_back`, and then this method again, must be called first."""
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
        """Apply the default decision to the records handed out before, because the application is done with them."""
        self._keep_given()
        if not self._handed:
            return
        handed, self._handed = self._handed, []
        for exchange, acquired, span, kind in handed:
            if acquired.decide_span(span, kind):
                exchange.decided(acquired, now)

    def give_back(self, now: float) -> None:
        """Release the undecided records that the application has got."""
        self._keep_given()
        self._handed = [handed._replace(kind=RELEASE) for handed in self._handed]
        self.come_back(now)

    def _keep_given(self) -> None:
        if self._given is not None:
            self._handed.append(_handed((self._given,), ACCEPT))
            self._given = None

    def settled(self, tp: TopicPartition, error: KafkaError | None) -> None:
        """Note the outcome of a partition's acknowledgements."""
        if error is not None or tp not in self._outcomes:
            self._outcomes[tp] = error

    def outcomes(self) -> dict[TopicPartition, KafkaError | None]:
        """Return the outcomes since the last call: an error or None for each partition."""
        outcomes, self._outcomes = self._outcomes, {}
        return outcomes


def _handed(records: Sequence[Record], kind: int) -> _Handed:
    first, last = records[0], records[-1]
    return _Handed(first._exchange, first._acquired, Span(first._index, last._index + 1), kind)
