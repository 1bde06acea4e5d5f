"""`RangePartitionAssignor`, in a module of the same name as in aiokafka."""

from .abstract import BuiltinAssignor

__all__ = ["RangePartitionAssignor"]


class RangePartitionAssignor(BuiltinAssignor):
    """Assignor that gives each member a contiguous range of the partitions of each topic."""

    name = "range"
