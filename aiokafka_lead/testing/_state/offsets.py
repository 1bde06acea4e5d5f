"""Committed offsets, pending offsets of open transactions, and the coordinators of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from .topics import NO_LEADER

Key = tuple[str, int]
"""A topic and a partition."""


class Committed(NamedTuple):
    """An offset that a group has committed in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


NOT_COMMITTED = Committed(-1, -1, "")


class _OpenOffsets:
    """The offsets that a producer has added to its open transaction, not committed yet."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # For each group, the offsets with their numbers in the order of all commits.
        self.groups: dict[str, dict[Key, tuple[int, Committed]]] = {}


class Offsets:
    """Holds the committed offsets of all groups, by group, topic and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Key, Committed]] = {}
        # Numbers of the committed offsets. A transaction that ends late must not undo later commits.
        self._orders: dict[tuple[str, Key], int] = {}
        self._next_order = 0
        # By producer id, for open transactions.
        self._pending: dict[int, _OpenOffsets] = {}

    def groups(self) -> Iterable[str]:
        return self._committed.keys()

    def of(self, group_id: str) -> Mapping[Key, Committed]:
        return self._committed.get(group_id, {})

    def commit(self, group_id: str, offsets: Mapping[Key, Committed]) -> None:
        self._next_order += 1
        for key, position in offsets.items():
            self._set(group_id, key, position, self._next_order)

    def _set(self, group_id: str, key: Key, position: Committed, order: int) -> None:
        if order >= self._orders.get((group_id, key), 0):
            self._orders[group_id, key] = order
            self._committed.setdefault(group_id, {})[key] = position

    def commit_in_transaction(
        self, producer_id: int, epoch: int, group_id: str, offsets: Mapping[Key, Committed]
    ) -> None:
        self._next_order += 1
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = self._pending[producer_id] = _OpenOffsets(epoch)
        pending.groups.setdefault(group_id, {}).update(
            (key, (self._next_order, position)) for key, position in offsets.items()
        )

    def transaction_ended(self, producer_id: int, committed: bool) -> None:
        """Apply or drop the offsets of an ended transaction.

        Java: ``OffsetMetadataManager.replayEndTransactionMarker``.
        """
        pending = self._pending.pop(producer_id, None)
        if pending is None or not committed:
            return
        for group_id, offsets in pending.groups.items():
            for key, (order, position) in offsets.items():
                self._set(group_id, key, position, order)

    def is_open(self, producer_id: int, epoch: int, group_id: str) -> bool:
        """Return True if a producer's open transaction has offsets of the group."""
        pending = self._pending.get(producer_id)
        return pending is not None and pending.epoch == epoch and group_id in pending.groups

    def is_pending(self, group_id: str, key: Key) -> bool:
        """Return True if an open transaction may still change a committed offset (KIP-447)."""
        return any(key in pending.groups.get(group_id, ()) for pending in self._pending.values())

    def delete(self, group_id: str, keys: Iterable[Key]) -> None:
        offsets = self._committed.get(group_id, {})
        for key in keys:
            offsets.pop(key, None)
            self._orders.pop((group_id, key), None)
        if not offsets:
            self._committed.pop(group_id, None)

    def delete_group(self, group_id: str) -> None:
        self.delete(group_id, list(self.of(group_id)))
        for pending in self._pending.values():
            pending.groups.pop(group_id, None)

    def delete_topic(self, topic: str) -> None:
        """Delete the committed offsets of a topic."""
        for group_id in list(self._committed):
            self.delete(group_id, [key for key in self._committed[group_id] if key[0] == topic])


# --- coordinators of groups and transactional ids ---------------------------------------------------------------------
#
# As in a real cluster, a key belongs to one of 50 slots (the partitions of ``__consumer_offsets`` and
# ``__transaction_state``), and each slot to a broker until the broker fails.


SLOTS = 50

GROUP = 0
TRANSACTION = 1
"""Type of a coordinator's key: its number in FindCoordinator."""


class Coordinators:
    """Assigns groups and transactional ids to brokers, in slots as in Kafka's internal topics.

    ``registered`` returns the live brokers in order.
    """

    def __init__(self, registered: Callable[[], list[int]]) -> None:
        self._registered = registered
        self._brokers: dict[tuple[int, int], int] = {}
        # Number of times that each slot has changed its broker.
        self._epochs: dict[tuple[int, int], int] = {}

    def of(self, kind: int, key: str) -> int:
        """Return the coordinator of a group or a transactional id, or NO_LEADER if no broker is alive."""
        slot = kind, slot_of(key)
        alive = self._registered()
        broker = self._brokers.get(slot, NO_LEADER)
        if broker not in alive:
            broker = self._give(slot, alive[slot[1] % len(alive)] if alive else NO_LEADER)
        return broker

    def epoch(self, kind: int, key: str) -> int:
        """Return how many times the key's coordinator has changed."""
        self.of(kind, key)
        return self._epochs[kind, slot_of(key)]

    def _give(self, slot: tuple[int, int], broker: int) -> int:
        if self._brokers.get(slot) != broker:
            self._brokers[slot] = broker
            self._epochs[slot] = self._epochs.get(slot, -1) + 1
        return broker

    def move(self, kind: int, key: str, to: int | None) -> int:
        """Move the slot of a key to another broker, by default the next one. Return the broker."""
        alive = self._registered()
        if to is None:
            present = self.of(kind, key)
            to = alive[(alive.index(present) + 1) % len(alive)] if present in alive else NO_LEADER
        return self._give((kind, slot_of(key)), to)


def slot_of(key: str) -> int:
    """Return the slot of a key: Java's ``String.hashCode`` without its sign, modulo the number of slots."""
    units = key.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % SLOTS
