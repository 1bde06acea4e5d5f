"""Records in delivery to a share group's members, and their state that is kept across leaders.

Java: ``RecordState``, ``InFlightState`` and ``InFlightBatch``; ``ShareCoordinatorShard``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from .clock import TimerHandle
from .consumer_members import Slot

NOBODY = ""
"""Member id of a record that is not acquired."""


class RecordState(IntEnum):
    """State of a record that was read for a share group."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self in (RecordState.ACKNOWLEDGED, RecordState.ARCHIVED)


class Acknowledge(IntEnum):
    """A member's acknowledgement of acquired records. The values are the protocol's numbers."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


AFTER: dict[Acknowledge, RecordState] = {
    Acknowledge.GAP: RecordState.ARCHIVED,
    Acknowledge.ACCEPT: RecordState.ACKNOWLEDGED,
    Acknowledge.RELEASE: RecordState.AVAILABLE,
    Acknowledge.REJECT: RecordState.ARCHIVED,
    Acknowledge.RENEW: RecordState.ACQUIRED,
}
"""State of an acquired record after each acknowledgement."""


class Acquired(NamedTuple):
    """Consecutive records that a member has acquired, with the number of their delivery."""

    first: int
    last: int
    delivery_count: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


class Delivery:
    """The delivery state of one record, or of all records of a batch."""

    __slots__ = ("count", "expires_at", "lock", "member_id", "state")

    def __init__(self, state: RecordState, count: int, member_id: str = NOBODY) -> None:
        self.state = state
        # Number of deliveries.
        self.count = count
        self.member_id = member_id
        # The end of the lock and its timer, while the record is acquired.
        self.expires_at = float("inf")
        self.lock: TimerHandle | None = None

    def acquire(self, member_id: str) -> None:
        self.state, self.member_id = RecordState.ACQUIRED, member_id
        self.count += 1

    def settle(self, state: RecordState, limit: int) -> None:
        """Set the state after an acquisition. After ``limit`` deliveries, the record is not delivered again."""
        used_up = state is RecordState.AVAILABLE and self.count >= limit
        self.state = RecordState.ARCHIVED if used_up else state
        self.member_id = NOBODY

    def unlock(self) -> None:
        if self.lock is not None:
            self.lock.cancel()
            self.lock = None

    def copy(self) -> Delivery:
        """Return a copy without the timer of a lock."""
        return Delivery(self.state, self.count, self.member_id)


class InFlightBatch:
    """Records from ``first`` to ``last`` that are delivered together, until their states differ.

    Invariant: either ``whole`` is set, or ``each`` has one entry for each record.
    """

    __slots__ = ("each", "first", "last", "whole")

    def __init__(self, first: int, last: int, whole: Delivery) -> None:
        self.first = first
        self.last = last
        self.whole: Delivery | None = whole
        self.each: list[Delivery] = []

    def __len__(self) -> int:
        return self.last - self.first + 1

    def lies_within(self, first: int, last: int) -> bool:
        return first <= self.first and self.last <= last

    def split(self) -> list[Delivery]:
        """Give each record a separate state. The caller sets the locks."""
        if self.whole is not None:
            whole, self.whole = self.whole, None
            self.each = [whole.copy() for _ in range(len(self))]
            for delivery in self.each:
                delivery.expires_at = whole.expires_at
            whole.unlock()
        return self.each

    def records(self, first: int, last: int) -> Iterator[tuple[int, Delivery]]:
        """Yield each offset from ``first`` to ``last`` within the batch, with its record's state."""
        for offset in range(max(first, self.first), min(last, self.last) + 1):
            yield offset, self.each[offset - self.first] if self.whole is None else self.whole

    def runs(self) -> Iterator[tuple[int, int, Delivery]]:
        """Yield first and last offset of records that share a `Delivery`."""
        if self.whole is not None:
            yield self.first, self.last, self.whole
        else:
            for offset, delivery in enumerate(self.each, self.first):
                yield offset, offset, delivery


def joined(runs: list[Acquired]) -> list[Acquired]:
    """Return the runs with adjacent runs of the same delivery count joined."""
    found: list[Acquired] = []
    for run in runs:
        if found and run.first == found[-1].last + 1 and run.delivery_count == found[-1].delivery_count:
            found[-1] = found[-1]._replace(last=run.last)
        else:
            found.append(run)
    return found


def without(runs: list[Acquired], first: int, last: int) -> list[Acquired]:
    """Return the runs without the offsets from ``first`` to ``last``, splitting runs if necessary."""
    left: list[Acquired] = []
    for run in runs:
        if run.last < first or run.first > last:
            left.append(run)
            continue
        if run.first < first:
            left.append(run._replace(last=first - 1))
        if run.last > last:
            left.append(run._replace(first=last + 1))
    return left


NO_OFFSET = -1
"""Start offset of a share partition without a saved state. The reset policy of its group then applies."""


class SavedDelivery(NamedTuple):
    """The saved delivery state of consecutive records. Acquisitions are not saved."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class ShareState:
    """The state of a share partition that outlives its leader: the start offset and the deliveries."""

    __slots__ = ("completed", "deliveries", "leader_epoch", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        # The epoch of the last leader that has read the state. Earlier leaders may no longer write.
        self.leader_epoch = -1
        # Number of finished records from the start on.
        self.completed = 0
        # Saved state and number of deliveries, by offset.
        self.deliveries: dict[int, tuple[RecordState, int]] = {}

    def write(self, start_offset: int, completed: int, changes: Iterable[SavedDelivery]) -> None:
        self.start_offset, self.completed = start_offset, completed
        for change in changes:
            for offset in range(change.first, change.last + 1):
                self.deliveries[offset] = change.state, change.delivery_count
        for offset in [offset for offset in self.deliveries if offset < start_offset]:
            del self.deliveries[offset]

    def saved(self) -> list[SavedDelivery]:
        """Return the saved states from the start on, in order. Equal neighbours are joined."""
        found: list[SavedDelivery] = []
        for offset, (state, count) in sorted(self.deliveries.items()):
            if found and found[-1].last + 1 == offset and found[-1][2:] == (state, count):
                found[-1] = found[-1]._replace(last=offset)
            else:
                found.append(SavedDelivery(offset, offset, state, count))
        return found

    def lag(self, end_offset: int) -> int:
        """Return the number of records still to be delivered or acknowledged, or -1 if unknown."""
        return -1 if self.start_offset == NO_OFFSET else end_offset - self.start_offset - self.completed


class ShareStates:
    """Holds the saved states of all share partitions, by group and partition.

    A partition is added on its first assignment to a member of the group.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[Slot, ShareState]] = {}

    def of(self, group_id: str) -> Mapping[Slot, ShareState]:
        return self._groups.get(group_id, {})

    def get(self, group_id: str, slot: Slot) -> ShareState | None:
        return self._groups.get(group_id, {}).get(slot)

    def add(self, group_id: str, slots: Iterable[Slot]) -> None:
        """Add partitions that have no state yet. Known partitions are unchanged."""
        states = self._groups.setdefault(group_id, {})
        for slot in slots:
            states.setdefault(slot, ShareState(NO_OFFSET))

    def reset(self, group_id: str, slot: Slot, start_offset: int) -> None:
        """Forget earlier deliveries, and begin at an offset."""
        self._groups.setdefault(group_id, {})[slot] = ShareState(start_offset)

    def delete_topic(self, topic_id: UUID) -> None:
        """Delete a topic's partitions in every group."""
        for group_id in list(self._groups):
            self.delete(group_id, topic_id)

    def delete(self, group_id: str, topic_id: UUID) -> bool:
        """Forget the partitions of a topic. Return True if there were any."""
        states = self._groups.get(group_id, {})
        gone = [slot for slot in states if slot[0] == topic_id]
        for slot in gone:
            del states[slot]
        return bool(gone)

    def delete_group(self, group_id: str) -> None:
        self._groups.pop(group_id, None)
