"""`StickyPartitionAssignor`."""

from __future__ import annotations

from ..builtin import BuiltinAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(BuiltinAssignor):
    """Balanced, with as few partitions moved as that allows (KIP-54)."""

    name = "sticky"
