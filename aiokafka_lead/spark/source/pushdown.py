"""Filters of a batch query that say which offsets to read. Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ...types import TopicPartition
from .ranges import OffsetRange

__all__ = ["Narrowing", "from_offsets"]

_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_INT64_MAX = 2**63 - 1


class Narrowing:
    """What the filters that were added leave to read."""

    def __init__(self) -> None:
        self._topics_and_partitions: list[Filter] = []
        self._first = 0
        self._until = _INT64_MAX
        self.not_before_ms: int | None = None
        """No record before this time is wanted, in milliseconds since the epoch."""

    def add(self, found: Filter) -> bool:
        """Take a filter into account; True if no row needs to be checked against it any more."""
        match found:
            case IsNotNull(("topic" | "partition" | "offset",)):
                return True
            case Not(EqualTo(("topic" | "partition",)) | In(("topic" | "partition",))) | In(("topic" | "partition",)):
                self._topics_and_partitions.append(found)
                return True
        if type(found) not in _COMPARED:
            return False
        (column, *inner), value = found.attribute, found.value  # type: ignore[attr-defined]
        if inner or value is None:
            return False
        match column, value:
            case (("topic" | "partition"), (str() | int())):
                self._topics_and_partitions.append(found)
                return True
            case "offset", int():
                self._add_offset(found, value)
                return True
            case "timestamp", datetime():
                self._add_time(found, value)
        # Records need not be in the order of their timestamps: later ones may be too early, too.
        return False

    def _add_offset(self, found: Filter, value: int) -> None:
        match found:
            case GreaterThan():
                self._first = max(self._first, value + 1)
            case GreaterThanOrEqual():
                self._first = max(self._first, value)
            case LessThan():
                self._until = min(self._until, value)
            case LessThanOrEqual():
                self._until = min(self._until, value + 1)
            case _:
                self._first, self._until = max(self._first, value), min(self._until, value + 1)

    def _add_time(self, found: Filter, value: datetime) -> None:
        lower = isinstance(found, (GreaterThan, GreaterThanOrEqual, EqualTo, EqualNullSafe))
        # Records without a time have -1 ms, and no place in the brokers' index of times.
        if lower and value.tzinfo is not None and value > _EPOCH:
            self.not_before_ms = max(self.not_before_ms or 0, (value - _EPOCH) // timedelta(milliseconds=1))

    def apply(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """The parts of the ranges that topic, partition and offset leave."""
        kept = (found for found in ranges if all(_passes(test, found) for test in self._topics_and_partitions))
        return [
            OffsetRange(found.topic, found.partition, first, until)
            for found in kept
            if (first := max(found.start, self._first)) < (until := min(found.until, self._until))
        ]


def from_offsets(ranges: Iterable[OffsetRange], first: Mapping[TopicPartition, int | None]) -> list[OffsetRange]:
    """The parts of the ranges from these offsets on; nothing where there is none."""
    return [
        OffsetRange(found.topic, found.partition, max(found.start, offset), found.until)
        for found in ranges
        if (offset := first[found.tp]) is not None and offset < found.until
    ]


def _passes(test: Filter, found: OffsetRange) -> bool:
    if isinstance(test, Not):
        return not _passes(test.child, found)
    assert isinstance(test, (In, EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual))
    actual = found.topic if test.attribute == ("topic",) else found.partition
    if isinstance(test, In):
        return actual in test.value
    return _COMPARED[type(test)](actual, test.value)
