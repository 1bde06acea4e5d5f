"""Decoded records that are handed out next.

Hot: compiled through ``at_hand.pxd`` if a compiler is available, else plain Python.
"""

from __future__ import annotations

from typing import Any

from ..._cpython import clock
from .record import ShareRecord

Record = ShareRecord[Any, Any]


class AtHand:
    """Decoded records of one answer, in offset order; taken from the front."""

    __slots__ = ("_at", "_records", "quick_until")

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._at = 0
        self.quick_until = 0.0
        """Time (``time.monotonic()``) until which an iteration may take the next record without further checks."""

    def put(self, records: list[Record]) -> None:
        """Set the next records, after all former records were taken."""
        self._records = records
        self._at = 0
        self.quick_until = 0.0

    def __len__(self) -> int:
        return len(self._records) - self._at

    @property
    def first(self) -> Record:
        """The next record; do not use if there is none."""
        return self._records[self._at]

    def take(self, limit: int) -> list[Record]:
        """Remove the next records, and return them."""
        at = self._at
        end = min(at + limit, len(self._records))
        taken = self._records if at == 0 and end == len(self._records) else self._records[at:end]
        if end < len(self._records):
            self._at = end
        else:
            self.put([])
        return taken

    def is_quick(self) -> bool:
        """Return True if the next record may be taken by `take_one`."""
        if self._at >= len(self._records):
            return False
        record = self._records[self._at]
        return record._acquired.is_open(record._index) and clock.monotonic_s() < self.quick_until

    def take_one(self) -> Record | None:
        """Remove the next record, and return it; None if there is none."""
        if self._at >= len(self._records):
            return None
        record = self._records[self._at]
        self._at += 1
        return record
