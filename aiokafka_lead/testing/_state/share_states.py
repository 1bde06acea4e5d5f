"""The share coordinator's state of share partitions, kept across leaders (Java: ``ShareCoordinatorShard``)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from .consumer_members import Slot
from .share_deliveries import RecordState

NO_OFFSET = -1
"""Start offset of a share partition without a saved state. The reset policy of its group then applies."""


class SavedDelivery(NamedTuple):
    """State of records that are not acquired. Acquisitions are not saved."""

    first: int
    last: int
    state: RecordState
    delivery_count: int


class ShareState:
    """The saved state of a share partition."""

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
    """States by group, topic and partition. A partition is added on its first assignment to a member of the group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[Slot, ShareState]] = {}

    def of(self, group_id: str) -> Mapping[Slot, ShareState]:
        return self._groups.get(group_id, {})

    def get(self, group_id: str, slot: Slot) -> ShareState | None:
        return self._groups.get(group_id, {}).get(slot)

    def add(self, group_id: str, slots: Iterable[Slot]) -> None:
        """Add partitions without a state."""
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
