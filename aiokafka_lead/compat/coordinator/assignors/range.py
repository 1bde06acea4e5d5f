"""`RangePartitionAssignor`."""

from __future__ import annotations

from .builtin import BuiltinAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(BuiltinAssignor):
    """Assigns each member a contiguous range of each topic's partitions."""

    name = "range"
