"""Decoded records that will be handed out next.

This code runs for each record. If a compiler is available, it is compiled through ``at_hand.pxd``.
"""

from __future__ import annotations

from typing import Any

from ..._cpython import clock
from .record import ShareRecord

Record = ShareRecord[Any, Any]


class AtHand:
    """Decoded records of one response, in offset order. They are taken from the front."""

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
        """The next record. Must not be used if there is none."""
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
        """Return True if the next record may be taken with `take_one`."""
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
