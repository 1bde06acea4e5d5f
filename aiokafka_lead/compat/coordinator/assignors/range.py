"""`RangePartitionAssignor`."""

from __future__ import annotations

from .builtin import BuiltinAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(BuiltinAssignor):
    """Of each topic a run of partitions to each member."""

    name = "range"
