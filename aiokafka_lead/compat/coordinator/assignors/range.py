"""`RangePartitionAssignor`."""

from .abstract import BuiltinAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(BuiltinAssignor):
    """Assignor that gives each member a contiguous range of the partitions of each topic."""

    name = "range"
