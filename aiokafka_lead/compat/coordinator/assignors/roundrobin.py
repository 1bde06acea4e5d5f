"""`RoundRobinPartitionAssignor`."""

from .abstract import BuiltinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltinAssignor):
    """Assignor that gives the partitions of all topics to the members in turn."""

    name = "roundrobin"
