"""`StickyPartitionAssignor`."""

from __future__ import annotations

from ..builtin import BuiltinAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(BuiltinAssignor):
    """Balances partitions, moving as few as possible (KIP-54)."""

    name = "sticky"
