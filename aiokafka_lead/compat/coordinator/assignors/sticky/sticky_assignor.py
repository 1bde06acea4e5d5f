"""`StickyPartitionAssignor`."""

from __future__ import annotations

from ..builtin import BuiltinAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(BuiltinAssignor):
    """Balances partitions and moves as few of them as that allows (KIP-54)."""

    name = "sticky"
