"""`StickyPartitionAssignor`, in a module of the same name as in aiokafka."""

from ..abstract import BuiltinAssignor

__all__ = ["StickyPartitionAssignor"]


class StickyPartitionAssignor(BuiltinAssignor):
    """Assignor that balances partitions and moves as few as possible (KIP-54)."""

    name = "sticky"
