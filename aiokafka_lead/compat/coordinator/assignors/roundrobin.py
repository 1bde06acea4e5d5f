"""`RoundRobinPartitionAssignor`."""

from __future__ import annotations

from .builtin import BuiltinAssignor

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltinAssignor):
    """Partitions in turn to the members, over all topics."""

    name = "roundrobin"
