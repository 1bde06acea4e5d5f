"""`RoundRobinPartitionAssignor`, in a module of the same name as in aiokafka."""

from .abstract import BuiltinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltinAssignor):
    """Assignor that gives the partitions of all topics to the members in turn."""

    name = "roundrobin"
