"""Coordinators of groups and transactional ids.

As on a real cluster a key belongs to one of 50 slots (the partitions of ``__consumer_offsets`` and
``__transaction_state``), and each slot to a broker, which keeps it until it fails.
"""

from __future__ import annotations

from collections.abc import Callable

from .topics import NO_LEADER

SLOTS = 50

GROUP = 0
TRANSACTION = 1
"""Type of a coordinator's key, by its number in FindCoordinator."""


class Coordinators:
    """Slots and their brokers. ``registered`` returns the brokers that are alive, in order."""

    def __init__(self, registered: Callable[[], list[int]]) -> None:
        self._registered = registered
        self._brokers: dict[tuple[int, int], int] = {}
        # Number of times that each slot has changed its broker.
        self._epochs: dict[tuple[int, int], int] = {}

    def of(self, kind: int, key: str) -> int:
        """Return the broker for a key, or NO_LEADER if none is alive."""
        slot = kind, slot_of(key)
        alive = self._registered()
        broker = self._brokers.get(slot, NO_LEADER)
        if broker not in alive:
            broker = self._give(slot, alive[slot[1] % len(alive)] if alive else NO_LEADER)
        return broker

    def epoch(self, kind: int, key: str) -> int:
        """Return the number of changes of a key's coordinator."""
        self.of(kind, key)
        return self._epochs[kind, slot_of(key)]

    def _give(self, slot: tuple[int, int], broker: int) -> int:
        if self._brokers.get(slot) != broker:
            self._brokers[slot] = broker
            self._epochs[slot] = self._epochs.get(slot, -1) + 1
        return broker

    def move(self, kind: int, key: str, to: int | None) -> int:
        """Move a key's slot to another broker, by default the next one. Returns the broker."""
        alive = self._registered()
        if to is None:
            present = self.of(kind, key)
            to = alive[(alive.index(present) + 1) % len(alive)] if present in alive else NO_LEADER
        return self._give((kind, slot_of(key)), to)


def slot_of(key: str) -> int:
    """Return Java's ``String.hashCode``, without its sign, modulo the number of slots."""
    units = key.encode("utf-16-be")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % SLOTS
