"""Committed offsets, and pending ones of open transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

Key = tuple[str, int]
"""A topic and a partition."""


class Committed(NamedTuple):
    """A group's position in a partition."""

    offset: int
    leader_epoch: int
    metadata: str


NOT_COMMITTED = Committed(-1, -1, "")


class _OpenOffsets:
    """A producer's commits in its open transaction."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # By group: each position with its place in the order of all commits.
        self.groups: dict[str, dict[Key, tuple[int, Committed]]] = {}


class Offsets:
    """Offsets by group, topic and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Key, Committed]] = {}
        # The places of the committed ones: a transaction that ends late does not undo later commits.
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
        """Apply or drop a transaction's offsets. Java: ``OffsetMetadataManager.replayEndTransactionMarker``."""
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
        """Return True if an open transaction may still change a position (KIP-447)."""
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
        """Delete a topic's positions."""
        for group_id in list(self._committed):
            self.delete(group_id, [key for key in self._committed[group_id] if key[0] == topic])
