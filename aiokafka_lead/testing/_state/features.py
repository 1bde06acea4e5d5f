"""Finalized features (KIP-584): the levels to which the whole cluster has been raised."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_LEVELS = {"metadata.version": 29, "transaction.version": 2, "group.version": 1, "share.version": 1}
"""The brokers' features: transaction.version 2 is KIP-890, group.version 1 KIP-848, share.version 1 KIP-932."""

_SUPPORTED = {
    "metadata.version": (7, 30),
    "transaction.version": (0, 2),
    "group.version": (0, 1),
    "share.version": (0, 1),
}


class Features:
    """Levels by name; level 0 means a feature that is not finalized."""

    def __init__(self, levels: Mapping[str, int]) -> None:
        self._levels = dict(levels)
        self.supported = {name: _SUPPORTED.get(name, (0, level)) for name, level in levels.items()}
        # Increases with every change.
        self.epoch = 1

    @property
    def finalized(self) -> dict[str, int]:
        return {name: level for name, level in self._levels.items() if level > 0}

    def level(self, name: str) -> int:
        return self._levels.get(name, 0)

    def set_level(self, name: str, level: int) -> None:
        if self.level(name) != level:
            self.epoch += 1
        self._levels[name] = level
        low, high = self.supported.get(name) or _SUPPORTED.get(name, (0, level))
        self.supported[name] = low, max(high, level)
