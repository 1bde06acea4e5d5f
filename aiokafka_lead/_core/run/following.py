"""Order by key across retry topics: while a record waits in one, later records of its key follow it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from ..._records import ConsumerRecord
from ..._values import NamedTuple
from ...types import TopicPartition
from ..consumer.partition_state import PartitionState
from ..consumer.position import Position
from .later import RetryTopics

Record = ConsumerRecord[Any, Any]
Undo = Callable[[], object]


class Scan:
    """A read of a whole retry partition, to find its records before any of them is handled."""

    __slots__ = ("end", "start")

    def __init__(self) -> None:
        self.start: Position | None = None
        """The position to which the partition returns afterwards, or None until it is known."""
        self.end: int | None = None
        """The offset at which the scan ends, or None until it is known."""

    def ends_at(self, end: int) -> None:
        """Set the end of the partition, which was looked up after the scan was created."""
        self.end = end


class _Place(NamedTuple):
    """The retry topic and the offset of one copy of a record."""

    topic: str
    offset: int


class _Origin(NamedTuple):
    """The identity of a record across its copies, from its original partition."""

    offset: int
    timestamp_ms: int
    """Distinguishes the record from another at the same offset, if the topic was recreated."""


class _Waiting:
    """Tracks the records of one key that are waiting in retry topics."""

    __slots__ = ("_copies", "_heap")

    def __init__(self) -> None:
        self._heap: list[_Origin] = []
        """Heap of the records' origins. It may include records that are no longer waiting."""
        self._copies: dict[_Origin, dict[_Place, None]] = {}
        """The places of each record's copies, the latest last.

        There may be several copies after a member has crashed.
        """

    def add(self, origin: _Origin, place: _Place) -> None:
        copies = self._copies.get(origin)
        if copies is None:
            self._copies[origin] = {place: None}
            heapq.heappush(self._heap, origin)
        else:
            copies[place] = None

    def remove(self, origin: _Origin, place: _Place) -> bool:
        """Remove one copy of a record. Return True if no record of the key is left."""
        copies = self._copies.get(origin)
        if copies is not None:
            copies.pop(place, None)
            if not copies:
                del self._copies[origin]
        return not self._copies

    def has(self, origin: _Origin, place: _Place) -> bool:
        """Return True if this copy of the record is waiting."""
        return place in self._copies.get(origin, ())

    def latest(self, origin: _Origin) -> _Place | None:
        """Return the place of the record's latest known copy."""
        return next(reversed(self._copies.get(origin, {})), None)

    def first(self) -> _Origin:
        """Return the earliest record that is waiting. There must be one."""
        while self._heap[0] not in self._copies:
            heapq.heappop(self._heap)
        return self._heap[0]


class _Family:
    """A partition, and the same partition of each of its retry topics."""

    __slots__ = ("scans", "state", "taken_to", "waiting")

    def __init__(self, state: PartitionState, names: Sequence[str]) -> None:
        self.state = state
        self.scans = {TopicPartition(name, state.tp.partition): Scan() for name in names}
        """The scans that are not complete. Until they are, no partition of the family is handled."""
        self.waiting: dict[bytes, _Waiting] = {}
        """The waiting records by key."""
        self.taken_to: dict[str, int] = dict.fromkeys(names, 0)
        """For each retry topic, the offset after the last record taken for handling."""

    def add(self, key: bytes, origin: _Origin, place: _Place) -> Undo:
        """Add a copy of a record, which waits at this place. Return a function that removes it."""
        waiting = self.waiting.get(key)
        if waiting is None:
            waiting = self.waiting[key] = _Waiting()
        waiting.add(origin, place)
        return partial(self.remove, key, origin, place)

    def remove(self, key: bytes, origin: _Origin, place: _Place) -> None:
        """Remove a copy of a record that no longer waits at this place."""
        waiting = self.waiting.get(key)
        if waiting is not None and waiting.remove(origin, place):
            del self.waiting[key]


class Following:
    """Tracks the records in retry topics. A record is handled only if no earlier record of its key waits there.

    A single member has all the information, because it owns the partition and its retry partitions, and no other member
    writes to them. A member that takes over a partition first reads the retry partitions to their ends.

    If a member crashes before a commit, a record may be written twice. If both copies are found in time, the record is
    handled once. Otherwise, it is handled twice, and only the first time in order. If a transaction is aborted, its
    changes to this object are undone.
    """

    def __init__(self, topics: RetryTopics) -> None:
        self._topics = topics
        self._families: dict[TopicPartition, _Family] = {}
        """The family of each partition in it."""

    # --- assignment --------------------------------------------------------------------------------------------------

    def assigned(self, states: Iterable[PartitionState]) -> dict[TopicPartition, Scan]:
        """Update the assignment to these partitions. Return the new scans, whose ends must be looked up."""
        found: dict[TopicPartition, Scan] = {}
        families: dict[TopicPartition, _Family] = {}
        for state in states:
            names = self._topics.names.get(state.tp.topic)
            if names is None:
                continue
            family = self._families.get(state.tp)
            if family is None or family.state is not state:
                family = _Family(state, names)
                found.update(family.scans)
            for name in (state.tp.topic, *names):
                families[TopicPartition(name, state.tp.partition)] = family
        self._families = families
        return found

    def starts_at(self, tp: TopicPartition, position: Position) -> None:
        """Set the position at which the scan of a retry partition begins, unless the scan has already begun."""
        if (scan := self._scan(tp)) is not None and scan.start is None:
            scan.start = position

    def reads(self, tp: TopicPartition) -> bool:
        """Return True if records of this partition are being read for a scan."""
        scan = self._scan(tp)
        return scan is not None and scan.start is not None

    def scanned(self, tp: TopicPartition, position: Position | None) -> Position | None:
        """Return the position from which to handle a retry partition, if its scan ends at ``position``.

        This is the position at which the scan began. Returns None if no scan is in progress or it has not reached the
        end.
        """
        scan = self._scan(tp)
        if scan is None or scan.start is None or scan.end is None or position is None or position.offset < scan.end:
            return None
        del self._families[tp].scans[tp]
        return scan.start

    def is_open(self, tp: TopicPartition) -> bool:
        """Return True if records of this partition may be handled now."""
        if self._topics.original(tp.topic) not in self._topics.names:
            return True
        family = self._families.get(tp)
        return family is not None and not family.scans

    def scans(self) -> Iterator[TopicPartition]:
        """Yield the retry partitions whose scans are not complete."""
        return (tp for tp, family in list(self._families.items()) if tp in family.scans)

    def starts(self) -> dict[TopicPartition, Position]:
        """Return the positions to which partitions must return if their scans do not end."""
        scans = [(tp, family.scans.get(tp)) for tp, family in self._families.items()]
        return {tp: scan.start for tp, scan in scans if scan is not None and scan.start is not None}

    # --- records -----------------------------------------------------------------------------------------------------

    def found(self, records: Iterable[Record]) -> None:
        """Add records that a scan has read from retry topics. They are now waiting."""
        for record in records:
            self._note(record, _Place(record.topic, record.offset))

    def taken(self, records: Sequence[Record]) -> None:
        """Process a partition's records that are about to be handled. In a retry topic, they are now waiting."""
        last = records[-1]
        family = self._family_of(last)
        if family is not None and last.topic in family.taken_to:
            self.found(records)
            family.taken_to[last.topic] = last.offset + 1

    def written(self, record: Record, topic: str, offset: int) -> Undo | None:
        """Add a record that was written to a retry topic, at this offset.

        Returns a function that undoes this if the transaction is aborted. Returns None if there is nothing to undo, for
        example because the record has already been read from the retry topic.
        """
        family = self._family_of(record)
        if family is None or offset < family.taken_to[topic]:
            return None
        return self._note(record, _Place(topic, offset))

    def finished(self, record: Record) -> Undo | None:
        """Remove a record that is done or waits elsewhere.

        Returns a function that undoes this, or None if the record was not waiting.
        """
        family, key, waiting = self._family_of(record), record.key, self._waiting(record)
        if waiting is None or family is None or key is None:
            return None
        origin, place = self._origin(record), _Place(record.topic, record.offset)
        if not waiting.has(origin, place):
            return None
        family.remove(key, origin, place)
        return partial(family.add, key, origin, place)

    def concerns(self, record: Record) -> bool:
        """Return True if this record, or another record of its key, is waiting."""
        return self._waiting(record) is not None

    def is_copy(self, record: Record) -> bool:
        """Return True if this copy does not have to be handled, because another copy of the same record is waiting.

        Of several copies, only the copy that was written last is handled.
        """
        waiting = self._waiting(record)
        latest = None if waiting is None else waiting.latest(self._origin(record))
        return latest is not None and latest != _Place(record.topic, record.offset)

    def ahead_of(self, record: Record) -> str | None:
        """Return the retry topic in which the first earlier record of the same key waits, or None."""
        while (waiting := self._waiting(record)) is not None:
            first = waiting.first()
            latest = waiting.latest(first)
            if latest is None or first >= self._origin(record):
                return None
            if latest.topic != record.topic or latest.offset > record.offset:
                return latest.topic
            # The records of a key leave their retry topic in order, so this record was deleted, or a seek has skipped
            # it. Otherwise, the records that follow it would wait for it forever.
            family = self._family_of(record)
            assert family is not None
            assert record.key is not None
            family.remove(record.key, first, latest)
        return None

    def _note(self, record: Record, place: _Place) -> Undo | None:
        family = self._family_of(record)
        if family is None or record.key is None:
            return None
        return family.add(record.key, self._origin(record), place)

    def _origin(self, record: Record) -> _Origin:
        return _Origin(self._topics.offset(record), self._topics.timestamp_ms(record))

    def _waiting(self, record: Record) -> _Waiting | None:
        family = self._family_of(record)
        return None if family is None or record.key is None else family.waiting.get(record.key)

    def _scan(self, tp: TopicPartition) -> Scan | None:
        family = self._families.get(tp)
        return None if family is None else family.scans.get(tp)

    def _family_of(self, record: Record) -> _Family | None:
        return self._families.get((record.topic, record.partition))  # type: ignore[call-overload,no-any-return]
