"""Committed offsets, and those that wait for their transaction's end."""

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


class Offsets:
    """By group, topic and partition."""

    def __init__(self) -> None:
        self._committed: dict[str, dict[Key, Committed]] = {}
        # producer id -> group -> offsets, of transactions that are open.
        self._pending: dict[int, dict[str, dict[Key, Committed]]] = {}

    def groups(self) -> Iterable[str]:
        return self._committed.keys()

    def of(self, group_id: str) -> Mapping[Key, Committed]:
        return self._committed.get(group_id, {})

    def commit(self, group_id: str, offsets: Mapping[Key, Committed]) -> None:
        self._committed.setdefault(group_id, {}).update(offsets)

    def commit_in_transaction(self, producer_id: int, group_id: str, offsets: Mapping[Key, Committed]) -> None:
        self._pending.setdefault(producer_id, {}).setdefault(group_id, {}).update(offsets)

    def transaction_ended(self, producer_id: int, committed: bool) -> None:
        for group_id, offsets in self._pending.pop(producer_id, {}).items():
            if committed:
                self.commit(group_id, offsets)

    def is_pending(self, group_id: str, key: Key) -> bool:
        """Whether a transaction that is open may still change a position (KIP-447)."""
        return any(key in groups.get(group_id, ()) for groups in self._pending.values())

    def delete(self, group_id: str, keys: Iterable[Key]) -> None:
        offsets = self._committed.get(group_id, {})
        for key in keys:
            offsets.pop(key, None)
        if not offsets:
            self._committed.pop(group_id, None)

    def delete_group(self, group_id: str) -> None:
        self._committed.pop(group_id, None)
        for groups in self._pending.values():
            groups.pop(group_id, None)

    def delete_topic(self, topic: str) -> None:
        """A deleted topic's positions are gone."""
        for group_id in list(self._committed):
            self.delete(group_id, [key for key in self._committed[group_id] if key[0] == topic])
